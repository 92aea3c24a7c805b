"""scispaCy's linker as an annotator: looks up similar names in a knowledge base.

candidates (n-grams, or a pipeline's mentions) -> scispaCy's nearest names -> the best of them
"""

import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import spacy
from spacy.tokens import Doc, Span, Token

from ...errors import Errors
from ...pipeline.loading import load_pipeline
from ...text.terminology import MIN_CHARS
from ...util.spans import drop_overlapping
from ..concepts import Concept
from .scispacy_index import load_candidate_generator

# Number of nearest names that are looked up: many concepts share a name, few share the best one.
NEAREST = 10
# Maximum number of tokens in brackets that scispaCy's abbreviation detector accepts.
MAX_BRACKETED = 8


class ScispacyLinker:
    """`spacy_mslm.scispacy_linker.v1`: links n-grams, or the mentions of a pipeline, to concepts.

    A mention gets its most similar concept, or all of them if several share the best name, with all
    semantic types. Of mentions that overlap, the longest is kept; of mentions of the same concept,
    the most similar.

    kb: File in scispaCy's JSONL format (may be `.gz`), or the name of one of its releases (`umls`,
        `mesh`, `rxnorm`, `go`, `hpo`), which scispaCy downloads if needed.
    index: Folder for the index of a file, which is built once. Null for a folder beside the file.
    model: Name or folder of a pipeline, such as `en_core_sci_sm`, whose entities and noun chunks
        are candidates. Null for all n-grams of a sentence that neither begin nor end with a stop
        word or punctuation.
    max_tokens: Maximum length of an n-gram.
    threshold: Minimum similarity, from 0 to 1. The default is scispaCy's for concepts without a
        definition. It can be lower with a model, as its candidates are mentions.
    abbreviations: Whether an abbreviation that the note defines gets the concept of its long form.
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
        self.kb = kb
        self.index = index
        self.model = model
        self.max_tokens = max_tokens
        self.threshold = threshold
        self.abbreviations = abbreviations
        self._is_loaded = False

    def load(self) -> None:
        """Load scispaCy, the knowledge base with its index, and the pipeline."""
        try:
            from scispacy.abbreviation import AbbreviationDetector
        except ImportError as err:
            raise ImportError(
                f"The scispaCy linker needs scispaCy ({err}). Install it with 'pip install "
                '"spacy-mslm[weak]"\'.'
            ) from err
        self._generator = load_candidate_generator(self.kb, self.index)
        self._weights = _Weights(self._generator.vectorizer)
        self._model = _load_pipeline(self.model) if self.model else None
        # With a vocabulary of its own, so that the words that the detector adds can be freed.
        self._blank = spacy.blank("en")
        self._detector = AbbreviationDetector(self._blank) if self.abbreviations else None
        self._is_loaded = True

    def __call__(self, docs: Sequence[Doc]) -> Iterator[list[Concept]]:
        """Yield the concepts of each document."""
        if not self._is_loaded:
            self.load()
        candidates = [self._candidates(doc) for doc in docs]
        texts = list(dict.fromkeys(text for found in candidates for text in found.values()))
        links = self._links(texts)
        for found in candidates:
            links_found = [
                _Link(start, end, *links[text])
                for (start, end), text in found.items()
                if text in links
            ]
            yield [concept for link in _select(links_found) for concept in self._concepts(link)]

    def _candidates(self, doc: Doc) -> dict[tuple[int, int], str]:
        """Return the character offsets of the candidates, and the texts to look up for them."""
        found = dict(self._mentions(doc) if self._model else _ngrams(doc, self.max_tokens))
        if self._detector:
            found.update(self._short_forms(doc))
        return found

    def _mentions(self, doc: Doc) -> list[tuple[tuple[int, int], str]]:
        """Return the entities and noun chunks that the model finds in each sentence."""
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
        """Return abbreviations with their long forms, by the detector's rules. The detector is not
        called on the Doc, as it would compare all pairs of brackets and modify the Doc."""
        from scispacy.abbreviation import filter_matches

        assert self._detector is not None
        definitions = filter_matches(list(_bracketed(doc)), doc)
        if not definitions:
            return []
        with self._blank.memory_zone(), warnings.catch_warnings():
            # The warning of a matcher without patterns, if no bracket holds an abbreviation.
            warnings.filterwarnings("ignore", message=r"\[W036\]")
            return [
                ((short.start_char, short.end_char), long.text.lower())
                for long, shorts in self._detector.find_matches_for(definitions, doc)
                for short in shorts
            ]

    def _links(self, texts: list[str]) -> dict[str, tuple[float, tuple[str, ...]]]:
        """Return the best similarity and its concepts for each text above the threshold."""
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

    def _concepts(self, link: "_Link") -> Iterator[Concept]:
        entities = self._generator.kb.cui_to_entity
        for concept in link.concepts:
            for semantic_type in entities[concept].types:
                yield Concept(link.start, link.end, concept, semantic_type, link.score)


def _load_pipeline(model: str) -> spacy.Language:
    try:
        return load_pipeline(model)
    except (OSError, ValueError) as err:
        raise ValueError(
            f"The pipeline {model!r} cannot be loaded ({err}). Install it, give its folder, or "
            "set model to null to use all n-grams as candidates."
        ) from err


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
    """Strip stop words and punctuation from the ends of a span; None if nothing is left."""
    kept = [token.i for token in span if not _is_filler(token)]
    return span.doc[kept[0] : kept[-1] + 1] if kept else None


def _is_filler(token: Token) -> bool:
    return token.is_stop or token.is_punct or token.is_space


def _bracketed(doc: Doc) -> Iterator[tuple[int, int, int]]:
    """Yield the token ranges in brackets, as matches of a Matcher: an unused key, start and end."""
    for token in doc:
        if token.text == "(":
            start = token.i + 1
            for end in range(start + 1, min(start + MAX_BRACKETED, len(doc) - 1) + 1):
                if doc[end].text == ")":
                    yield 0, start, end


# ---- selection ----


class _Link(NamedTuple):
    """A candidate with its concepts. Offsets are in characters."""

    start: int
    end: int
    score: float
    concepts: tuple[str, ...]

    @property
    def length(self) -> int:
        return self.end - self.start


def _select(links: Iterable[_Link]) -> list[_Link]:
    """Return links that do not overlap, in the order of the text.

    Of links to the same concept the most similar is kept, as "renal failure today" may be similar
    enough to "renal failure". Of the others the longest is kept, such as "acute renal failure".
    """
    by_concepts = defaultdict(list)
    for link in links:
        by_concepts[link.concepts].append(link)
    best = []
    for same in by_concepts.values():
        same.sort(key=lambda link: (-link.score, -link.length, link.start))
        best += drop_overlapping(same)
    best.sort(key=lambda link: (-link.length, -link.score, link.start))
    return drop_overlapping(best)


class _Weights:
    """Weights of letter trigrams that occur in no name, which the vectorizer ignores.

    scispaCy's similarity ignores them, too, so "asthma xqz" is as similar to "asthma" as "asthma".
    Here they have the weight of the rarest trigram, as if the vectors had a dimension for each.
    """

    def __init__(self, vectorizer: Any) -> None:
        self._trigrams = vectorizer.build_analyzer()
        self._places: dict[str, int] = vectorizer.vocabulary_
        self._squares = np.square(vectorizer.idf_).tolist()
        self._rarest = max(self._squares)

    def known_share(self, text: str) -> float:
        """Return the factor, from 0 to 1, by which to multiply the similarity of a text."""
        known = unknown = 0.0
        for trigram, count in Counter(self._trigrams(text)).items():
            place = self._places.get(trigram)
            if place is None:
                unknown += count * count * self._rarest
            else:
                known += count * count * self._squares[place]
        return float(np.sqrt(known / (known + unknown))) if known else 0.0
