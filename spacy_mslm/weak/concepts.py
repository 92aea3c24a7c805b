"""What flows through weak supervision: concepts that annotators find, and the mentions that
clusters make of them."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from spacy.tokens import Doc


class Concept(NamedTuple):
    """What an annotator has found at characters `start:end` of a document's text.

    concept: its id in the annotator's terminology; empty if it has none.
    semantic_type: a UMLS type (`T047`), or whatever name the cluster file knows.
    score: the annotator's own, 0 to 1.
    """

    start: int
    end: int
    concept: str
    semantic_type: str
    score: float = 1.0


class Mention(NamedTuple):
    """A concept in tokens `start:end` of a document, under the label of its cluster.

    source: the name of its annotator in the config.
    """

    start: int
    end: int
    label: str
    concept: str
    source: str
    score: float


class Annotator(Protocol):
    """Finds concepts. Made anew in every worker process, from the config."""

    def __call__(self, docs: Sequence[Doc]) -> Iterable[list[Concept]]:
        """docs: notes, tokenised, their sentences set.

        Yields the concepts of each document, in the order of the documents; they may overlap.
        """
        ...


class Aggregation(Protocol):
    """Makes one set of mentions of those that several annotators have found."""

    def fit(self, found: Iterable[tuple[Doc, dict[str, list[Mention]]]]) -> bytes:
        """Learn from a sample of documents, and return what was learnt, for `load`; nothing for
        what need not learn."""
        ...

    def load(self, learnt: bytes) -> None: ...

    def __call__(self, doc: Doc, found: dict[str, list[Mention]]) -> list[Mention]:
        """found: mentions by source, in the order of the config. Returns mentions that do not
        overlap, in the order of the text."""
        ...
