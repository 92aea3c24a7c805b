"""Corpora whose missing entity types are labelled by trained pipelines.

    corpus annotates     Disease:   O     O   B-Dis  O     O
    pipeline finds       Chemical:  O     O   O      O     B-Che
    document             fever and asthma after aspirin

So a pipeline can learn all types from documents that annotate only some of them, and a trained
pipeline can learn a new type without forgetting its own: its predictions are rehearsed. With
`soft`, these are the probabilities of its tags: an entity that it nearly found is not learnt as
being none.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import spacy
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example

from ..errors import listing
from ..util.extensions import annotated_labels, confidence_of, set_annotated_labels
from .gold import JOINT
from .readers import Reader

BATCH = 256


class Labelled(NamedTuple):
    """An entity that a pipeline found, in tokens."""

    start: int
    end: int
    label: str
    confidence: float | None


class Found(NamedTuple):
    """What a pipeline says about a document.

    Attributes:
        entities: Its entities.
        tags: (tokens, 3) Its probabilities of B, I, O, by entity type if it tags each type
            separately, else by `gold.JOINT`. A pipeline of one type has both.
    """

    entities: list[Labelled]
    tags: dict[str, np.ndarray]


class CompletedCorpus:
    """`spacy_mslm.CompletedCorpus.v1`: labels the types that documents do not annotate.

    Each pipeline adds its entities (`doc.ents`) of the types that a document does not annotate yet,
    unless they overlap a mention. Documents without `doc._.annotated_labels` are complete and are
    not changed. Each text is labelled once per process.

    corpus: The reader, such as `spacy_mslm.PartialCorpus.v1`.
    models: Names or paths of the pipelines. Earlier ones come first.
    min_confidence: Entities below this `span._.confidence` are not added, and their tokens have no
        annotation.
    soft: Learn the probabilities of the pipelines' tags instead of tags, for the types that a
        document does not annotate. The pipelines need an `mslm` pipe with the same architecture
        as the one that is trained, and with `spacy_mslm.MSLM.v1`, there can be only one.
    """

    def __init__(
        self,
        corpus: Reader,
        models: str | Sequence[str],
        min_confidence: float = 0.0,
        soft: bool = False,
    ) -> None:
        self.corpus = corpus
        self.models = [models] if isinstance(models, str) else list(models)
        self.min_confidence = min_confidence
        self.soft = soft
        self._found: list[dict[bytes, Found]] = [{} for _ in self.models]

    def __call__(self, nlp: Language) -> Iterator[Example]:
        """Yield the Examples of the corpus with completed annotation."""
        examples = list(self.corpus(nlp))
        for model, found in zip(self.models, self._found, strict=True):
            teacher = spacy.load(model)
            labels = entity_labels(teacher)
            docs = [example.reference for example in examples]
            docs = [doc for doc in docs if not labels <= (annotated_labels(doc) or labels)]
            new = [doc for doc in docs if _key(doc) not in found]
            copies = (_copy(doc, teacher) for doc in new)
            read_tags = _tag_reader(teacher, model) if self.soft else lambda labelled: {}
            for doc, labelled in zip(new, teacher.pipe(copies, batch_size=BATCH), strict=True):
                entities = [
                    Labelled(ent.start, ent.end, ent.label_, confidence_of(ent))
                    for ent in labelled.ents
                ]
                found[_key(doc)] = Found(entities, read_tags(labelled))
            for doc in docs:
                self._complete(doc, found[_key(doc)], labels)
        yield from examples

    def _complete(self, doc: Doc, found: Found, labels: set[str]) -> None:
        known = annotated_labels(doc) or frozenset()
        ents, unsure = list(doc.ents), []
        taken = {token.i for ent in ents for token in ent}
        for start, end, label, confidence in found.entities:
            if label not in known and taken.isdisjoint(range(start, end)):
                sure = confidence is None or confidence >= self.min_confidence
                if sure:
                    ents.append(Span(doc, start, end, label=label))
                else:
                    unsure.append(Span(doc, start, end))
        doc.set_ents(ents, missing=unsure, default="unmodified")
        set_annotated_labels(doc, known | labels)
        if found.tags:
            own = {label: tags for label, tags in found.tags.items() if label not in known}
            if JOINT in own:
                if JOINT in (doc._.soft_tags or {}):
                    raise ValueError(
                        "soft = true of spacy_mslm.CompletedCorpus.v1 takes one pipeline with "
                        f"spacy_mslm.MSLM.v1, but `models` has several: {listing(self.models)}. "
                        "Set soft = false."
                    )
                own[JOINT] = own[JOINT].copy()
                own[JOINT][sorted(taken)] = np.nan  # mentions that the document annotates
            doc._.soft_tags = {**(doc._.soft_tags or {}), **own}


def entity_labels(nlp: Language) -> set[str]:
    """Return the labels of all pipes of a pipeline that set entities."""
    return {
        str(label)
        for name, labels in nlp.pipe_labels.items()
        if "doc.ents" in nlp.get_pipe_meta(name).assigns
        for label in labels
    }


def _tag_reader(nlp: Language, model: str) -> Callable[[Doc], dict[str, np.ndarray]]:
    """Let the `mslm` pipe of a pipeline store its probabilities of tags, and return a function that
    reads those of a document."""
    pipes: list[Any] = [pipe for _, pipe in nlp.pipeline if hasattr(pipe, "token_probabilities")]
    if len(pipes) != 1:
        raise ValueError(
            f"{model} has {len(pipes)} mslm pipes, but soft = true of spacy_mslm.CompletedCorpus.v1"
            " needs one, for its probabilities of tags. Set soft = false."
        )
    (pipe,) = pipes
    pipe.token_probabilities = True

    def read(doc: Doc) -> dict[str, np.ndarray]:
        tags: np.ndarray = doc._.bio_probabilities
        if pipe.typed:
            return {label: tags[:, column] for column, label in enumerate(pipe.labels)}
        return dict.fromkeys([JOINT, *pipe.labels] if len(pipe.labels) == 1 else [JOINT], tags)

    return read


def _copy(doc: Doc, nlp: Language) -> Doc:
    """Copy the tokens of a document for another pipeline."""
    spaces = None if doc.has_unknown_spaces else [bool(token.whitespace_) for token in doc]
    return Doc(nlp.vocab, words=[token.text for token in doc], spaces=spaces)


def _key(doc: Doc) -> bytes:
    words = "\0".join(token.text for token in doc)
    return hashlib.blake2b(words.encode("utf8"), digest_size=16).digest()
