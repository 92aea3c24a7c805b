"""scispaCy's linker as an annotator: names of a knowledge base that look like what a note says.

    candidates (n-grams, or a pipeline's mentions) -> scispaCy's nearest names -> the best of them

A knowledge base is one of scispaCy's releases, or a file in its JSONL form, a concept a line:

    {"concept_id": "C0004096", "canonical_name": "Asthma", "aliases": ["bronchial asthma"],
     "types": ["T047"], "definition": null}
"""

import json
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import spacy
from spacy.tokens import Doc, Span, Token

from ...errors import Errors
from ...util.digests import digest_of
from ...util.files import replaced_folder
from ...util.lines import read_lines
from ..concepts import Concept

if TYPE_CHECKING:  # an extra, and slow to import
    from scispacy.candidate_generation import CandidateGenerator, LinkerPaths
    from scispacy.linking_utils import Entity, KnowledgeBase

# What is looked up of the nearest names: many concepts share a name, few share the best one.
NEAREST = 10
# Of the index: how long a lookup looks, and what it takes to build. With these, 999 of 1,000 names
# out of 20,000 are found, and it is built three times as fast as with scispaCy's own settings.
SEARCH = 100
BUILD = {"M": 30, "efConstruction": 400, "post": 0}
# N-grams with fewer letters and digits look like too much else.
MIN_CHARS = 3
# What scispaCy's detector takes at most between the brackets of a definition.
MAX_BRACKETED = 8


class ScispacyLinker:
    """`spacy_mslm.scispacy_linker.v1`: links n-grams, or what a pipeline finds, to concepts.

    A mention gets its best concept, with all of its semantic types; if several are best, as they
    share a name, it gets all of them. What is of use is known to the clusters only. Of mentions
    that overlap, the longest stays, or the best, if they are mentions of the same concept.

    kb: a file in scispaCy's JSONL form (`.gz` too), or the name of one of its releases (`umls`,
        `mesh`, `rxnorm`, `go`, `hpo`), which scispaCy downloads where it does not have it yet.
    index: folder for the index of a file, which is built once. Null: beside the file.
    model: name or folder of a pipeline, such as `en_core_sci_sm`, the entities and noun chunks of
        which are candidates. Null: all n-grams of a sentence that neither begin nor end with a
        stop word or a punctuation mark.
    max_tokens: of an n-gram.
    threshold: lowest similarity. The default is what scispaCy asks of concepts that have no
        definition; a model makes lower ones possible, as its candidates are mentions.
    abbreviations: whether a short form that the note explains gets the concept of its long form.
    """

    def __init__(
        self,
        kb: str,
        index: str | None = None,
        model: str | None = None,
        max_tokens: int = 5,
        threshold: float = 0.95,
        abbreviations: bool = True,
    ) -> None:
        if not 0 <= threshold <= 1:
            raise ValueError(Errors.M003.format(name="threshold", value=threshold))
        if max_tokens < 1:
            raise ValueError(Errors.M004.format(name="max_tokens", value=max_tokens))
        try:
            from scispacy.abbreviation import AbbreviationDetector
        except ImportError as err:
            raise ValueError(
                f"The scispaCy linker needs scispaCy, which cannot be imported ({err}). "
                "Install it with 'pip install \"spacy-mslm[weak]\"'."
            ) from err
        self.max_tokens = max_tokens
        self.threshold = threshold
        self._generator = _candidate_generator(kb, index)
        self._weights = _Weights(self._generator.vectorizer)
        self._model = _load(model) if model else None
        # Of its own, so that what the detector adds to a vocabulary can be freed.
        self._blank = spacy.blank("en")
        self._detector = AbbreviationDetector(self._blank) if abbreviations else None

    def __call__(self, docs: Sequence[Doc]) -> Iterator[list[Concept]]:
        candidates = [self._candidates(doc) for doc in docs]
        texts = list(dict.fromkeys(text for found in candidates for text in found.values()))
        links = self._links(texts)
        for found in candidates:
            linked = [
                _Linked(start, end, *links[text])
                for (start, end), text in found.items()
                if text in links
            ]
            yield [concept for link in _select(linked) for concept in self._concepts(link)]

    def _candidates(self, doc: Doc) -> dict[tuple[int, int], str]:
        """Offsets of what may be a mention, and as what it is looked up."""
        found = dict(self._mentions(doc) if self._model else _ngrams(doc, self.max_tokens))
        if self._detector:
            found.update(self._short_forms(doc))
        return found

    def _mentions(self, doc: Doc) -> list[tuple[tuple[int, int], str]]:
        """Entities and noun chunks that the model finds in each sentence."""
        assert self._model is not None
        sentences = list(doc.sents)
        found = []
        with self._model.memory_zone():
            parsed = self._model.pipe([sentence.text for sentence in sentences])
            for sentence, own in zip(sentences, parsed, strict=True):
                chunks = own.noun_chunks if own.has_annotation("DEP") else ()
                for span in map(_trimmed, [*own.ents, *chunks]):
                    if span is not None:
                        start = sentence.start_char + span.start_char
                        found.append(((start, start + len(span.text)), span.text.lower()))
        return found

    def _short_forms(self, doc: Doc) -> list[tuple[tuple[int, int], str]]:
        """By the detector's own rules, but given the brackets: it would look at all pairs of them
        in a note, and write what it finds into the document."""
        from scispacy.abbreviation import filter_matches

        assert self._detector is not None
        definitions = filter_matches(list(_bracketed(doc)), doc)
        if not definitions:
            return []
        with self._blank.memory_zone(), warnings.catch_warnings():
            # Of a matcher without patterns, where nothing in brackets is a short form.
            warnings.filterwarnings("ignore", message=r"\[W036\]")
            return [
                ((short.start_char, short.end_char), long.text.lower())
                for long, shorts in self._detector.find_matches_for(definitions, doc)
                for short in shorts
            ]

    def _links(self, texts: list[str]) -> dict[str, tuple[float, tuple[str, ...]]]:
        """The similarity and the concepts that are best for each text that has any."""
        links: dict[str, tuple[float, tuple[str, ...]]] = {}
        if not texts:
            return links
        for text, candidates in zip(texts, self._generator(texts, NEAREST), strict=True):
            if not candidates:
                continue
            best = max(max(candidate.similarities) for candidate in candidates)
            score = min(1.0, best) * self._weights.known_share(text)
            if score >= self.threshold:
                concepts = [c.concept_id for c in candidates if max(c.similarities) == best]
                links[text] = score, tuple(sorted(concepts))
        return links

    def _concepts(self, link: "_Linked") -> Iterator[Concept]:
        entities = self._generator.kb.cui_to_entity
        for concept in link.concepts:
            for semantic_type in entities[concept].types:
                yield Concept(link.start, link.end, concept, semantic_type, link.score)


# ---- candidates ----


def _ngrams(doc: Doc, max_tokens: int) -> Iterator[tuple[tuple[int, int], str]]:
    for sentence in doc.sents:
        edges = [token for token in sentence if not _is_filler(token)]
        for place, first in enumerate(edges):
            for last in edges[place : place + max_tokens]:
                if last.i - first.i >= max_tokens:
                    break
                span = doc[first.i : last.i + 1]
                text = span.text.lower()
                if sum(c.isalnum() for c in text) >= MIN_CHARS and any(map(str.isalpha, text)):
                    yield (span.start_char, span.end_char), text


def _trimmed(span: Span) -> Span | None:
    """Without stop words and punctuation at its ends; None if it has nothing else."""
    telling = [token.i for token in span if not _is_filler(token)]
    return span.doc[telling[0] : telling[-1] + 1] if telling else None


def _is_filler(token: Token) -> bool:
    return token.is_stop or token.is_punct or token.is_space


def _bracketed(doc: Doc) -> Iterator[tuple[int, int, int]]:
    """Tokens between brackets, as a matcher gives them: a key that nobody reads, start and end."""
    for token in doc:
        if token.text == "(":
            start = token.i + 1
            for end in range(start + 1, min(start + MAX_BRACKETED, len(doc) - 1) + 1):
                if doc[end].text == ")":
                    yield 0, start, end


# ---- selection ----


class _Linked(NamedTuple):
    start: int
    end: int
    score: float
    concepts: tuple[str, ...]

    @property
    def length(self) -> int:
        return self.end - self.start


def _select(linked: Iterable[_Linked]) -> list[_Linked]:
    """Those that stay, in the order of the text.

    "renal failure today" may be similar enough to "renal failure", which it holds: of one concept
    the best mention stays, else the longest, as "acute renal failure" does.
    """
    by_concepts = defaultdict(list)
    for link in linked:
        by_concepts[link.concepts].append(link)
    best = [
        link
        for links in by_concepts.values()
        for link in _apart(sorted(links, key=lambda link: (-link.score, -link.length, link.start)))
    ]
    return sorted(_apart(sorted(best, key=lambda link: (-link.length, -link.score, link.start))))


def _apart(links: Iterable[_Linked]) -> Iterator[_Linked]:
    """The first ones that do not overlap."""
    taken: set[int] = set()
    for link in links:
        characters = range(link.start, link.end)
        if taken.isdisjoint(characters):
            taken.update(characters)
            yield link


class _Weights:
    """What the vectorizer does not see: letter trigrams that no name has.

    scispaCy's similarity leaves them out, by which "asthma xqz" is as good as "asthma". Here they
    count as the rarest there are, which is the cosine with a dimension for each of them.
    """

    def __init__(self, vectorizer: Any) -> None:
        self._trigrams = vectorizer.build_analyzer()
        self._places: dict[str, int] = vectorizer.vocabulary_
        self._squares = np.square(vectorizer.idf_).tolist()
        self._rarest = max(self._squares)

    def known_share(self, text: str) -> float:
        """From 0 to 1: what the similarity is to be multiplied with."""
        known = unknown = 0.0
        for trigram, count in Counter(self._trigrams(text)).items():
            place = self._places.get(trigram)
            if place is None:
                unknown += count * count * self._rarest
            else:
                known += count * count * self._squares[place]
        return float(np.sqrt(known / (known + unknown))) if known else 0.0


# ---- knowledge base and index ----


def _load(model: str) -> spacy.Language:
    try:
        return spacy.load(model)
    except (OSError, ValueError) as err:
        raise ValueError(
            f"The pipeline {model!r} cannot be loaded ({err}). Install it, give its folder, or "
            "set model to null: then all n-grams are candidates."
        ) from err


def _candidate_generator(kb: str, index: str | None) -> "CandidateGenerator":
    from scispacy.candidate_generation import DEFAULT_KNOWLEDGE_BASES, CandidateGenerator
    from scispacy.linking_utils import KnowledgeBase

    path = Path(kb)
    if not path.exists() and kb in DEFAULT_KNOWLEDGE_BASES:
        try:
            return CandidateGenerator(name=kb, ef_search=SEARCH)
        except OSError as err:  # those of requests are such, too
            raise ValueError(
                f"scispaCy's release {kb!r} cannot be had ({err}). Let scispaCy fetch it where "
                "the network can be reached, and copy its cache (~/.scispacy); or give a file "
                "of your own (kb)."
            ) from err
    if not path.is_file():
        releases = ", ".join(DEFAULT_KNOWLEDGE_BASES)
        raise ValueError(
            f"The knowledge base {path} is neither a file nor a release of scispaCy, which "
            f"are: {releases}. Give the path of a file in scispaCy's JSONL form (kb)."
        )
    concepts = KnowledgeBase(read_knowledge_base(path))
    aliases, vectorizer, ann_index = _index(path, index, concepts).load(ef_search=SEARCH)
    return CandidateGenerator(ann_index, vectorizer, aliases, concepts)


def read_knowledge_base(path: Path) -> "list[Entity]":
    """The concepts of a file in scispaCy's JSONL form, each checked."""
    from scispacy.linking_utils import Entity

    entities: list[Entity] = []
    lines: dict[str, int] = {}
    for number, line in read_lines(path):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        if not isinstance(record, dict):
            raise ValueError(f"{path}, line {number}: a JSON record of a concept is expected here.")
        for field, problem in _problems(record, lines):
            message = (
                f"{path}, line {number}: the field {field} {problem}. A concept has a "
                "concept_id and a canonical_name, a list of aliases, which may be empty, and "
                "a list of types."
            )
            raise ValueError(message)
        concept, name = record["concept_id"], record["canonical_name"]
        aliases, types = (_said(record[field]) for field in ("aliases", "types"))
        entities.append(Entity(concept, name, aliases, types, record.get("definition")))
        lines[concept] = number
    if not entities:
        raise ValueError(f"{path} holds no concept. Give a file in scispaCy's JSONL form (kb).")
    return entities


def _problems(record: dict[str, Any], lines: dict[str, int]) -> Iterator[tuple[str, str]]:
    """lines: where the concepts before this one are."""
    for field in ("concept_id", "canonical_name", "aliases", "types"):
        if field not in record:
            yield field, "is missing"
    for field in ("concept_id", "canonical_name"):
        if not isinstance(record[field], str) or not record[field].strip():
            yield field, "is not a text that says something"
    for field in ("aliases", "types"):
        if not isinstance(record[field], list) or not all(
            isinstance(v, str) for v in record[field]
        ):
            yield field, "is not a list of texts"
    if not _said(record["types"]):
        yield "types", "is empty"
    if record["concept_id"] in lines:
        yield "concept_id", f"is that of line {lines[record['concept_id']]}, too"


def _said(texts: list[str]) -> list[str]:
    return [text for text in texts if text.strip()]


def _index(path: Path, index: str | None, concepts: "KnowledgeBase") -> "LinkerPaths":
    """Of a file: that which was built before of the same contents, or a new one."""
    import sklearn
    from scispacy.candidate_generation import LinkerPaths

    parent = Path(index) if index else path.parent / f"{path.name}.index"
    # The vectorizer is stored as an object of its library.
    folder = parent / f"{digest_of(path)}-sklearn-{sklearn.__version__}"
    if not folder.is_dir() or not LinkerPaths.from_directory(folder).is_locally_cached():
        with replaced_folder(folder) as temporary:
            # In an order that other processes would have built it in, too.
            _build_index(LinkerPaths.from_directory(temporary), sorted(concepts.alias_to_cuis))
    return LinkerPaths.from_directory(folder)


def _build_index(paths: "LinkerPaths", names: list[str]) -> None:
    """As scispaCy builds and reads it, but for any knowledge base and any scipy.

    scispaCy's `create_tfidf_ann_index` refuses scipy 1.11 and later, for the sake of 16-bit files,
    and sees only the letter trigrams of ten or more names. It fails where there are few names; of
    2,000, 71 would be lost, and 82 of 2,000 others would be as similar as 0.95 to one of them (with
    all trigrams, 3 are).
    """
    import joblib
    import nmslib
    import scipy.sparse
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 3), dtype=np.float32)
    vectors = vectorizer.fit_transform(names)
    joblib.dump(vectorizer, paths.tfidf_vectorizer)
    scipy.sparse.save_npz(paths.tfidf_vectors, vectors)
    Path(paths.concept_aliases_list).write_text(json.dumps(names), encoding="utf8")
    index = nmslib.init(
        method="hnsw", space="cosinesimil_sparse", data_type=nmslib.DataType.SPARSE_VECTOR
    )
    index.addDataPointBatch(vectors)
    index.createIndex(BUILD, print_progress=False)
    index.saveIndex(paths.ann_index)
