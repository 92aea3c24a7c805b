"""Data types of weak supervision, and the interfaces of its registered functions."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from spacy.tokens import Doc


class Concept(NamedTuple):
    """A concept that an annotator found at characters `start:end` of a text.

    concept: Its id in the annotator's terminology, or "".
    semantic_type: A UMLS type (`T047`), or any name that the cluster file has.
    score: The annotator's score, from 0 to 1.
    """

    start: int
    end: int
    concept: str
    semantic_type: str
    score: float = 1.0


class WeakMention(NamedTuple):
    """A concept at tokens `start:end` of a document, with the label of its cluster.

    source: Name of the annotator in the config.
    """

    start: int
    end: int
    label: str
    concept: str
    source: str
    score: float


# Mentions of a document by annotator, in the order of the config.
MentionsBySource: TypeAlias = dict[str, list[WeakMention]]


class Annotator(Protocol):
    """Finds concepts. Every worker process creates its own from the config.

    Creating one does nothing, because any config may name an annotator, also the config of a
    pipeline that somebody else made. It reads its files when `load` is called, or else with the
    first documents. `load` is optional.
    """

    def __call__(self, docs: Sequence[Doc]) -> Iterable[list[Concept]]:
        """Yield the concepts of each document, which may overlap, in the order of the documents.

        docs: Tokenised notes with sentence boundaries.
        """
        ...


class Aggregation(Protocol):
    """Merges the mentions of several annotators."""

    def fit(self, found: Iterable[tuple[Doc, MentionsBySource]]) -> bytes:
        """Learn from a sample of documents, and return the state for `load`; b"" if there is
        nothing to learn."""
        ...

    def load(self, state: bytes) -> None:
        """Restore the state that `fit` returned."""
        ...

    def __call__(self, doc: Doc, found: MentionsBySource) -> list[WeakMention]:
        """Return mentions that do not overlap, in the order of the text."""
        ...
