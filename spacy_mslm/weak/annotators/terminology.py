"""Annotator that looks up the names of a terminology, see `spacy_mslm.text.terminology`."""

from collections.abc import Iterable, Sequence
from functools import cached_property

from spacy.lang.en.stop_words import STOP_WORDS
from spacy.tokens import Doc

from ...text.plain_texts import as_paths
from ...text.terminology import Terminology
from ..clusters import Clusters
from ..concepts import Concept


class TerminologyAnnotator:
    """`spacy_mslm.terminology.v1`: the names of a terminology.

    path: Tables of terms, or folders with a UMLS release (MRCONSO.RRF and MRSTY.RRF). Of concepts
        that share a name, the one that is read first is used. None for no names.
    clusters: Read only names whose semantic types are in these clusters, which saves memory; None
        for all names.
    """

    def __init__(self, path: str | Sequence[str] | None, clusters: Clusters | None = None) -> None:
        self.paths = as_paths(path)
        self.clusters = clusters

    @cached_property
    def terminology(self) -> Terminology:
        """The names of the terminology."""
        types = None if self.clusters is None else self.clusters.types
        return Terminology(self.paths, STOP_WORDS, types)

    def load(self) -> None:
        """Read the files."""
        _ = self.terminology

    def __call__(self, docs: Sequence[Doc]) -> Iterable[list[Concept]]:
        """Yield the concepts of each document."""
        for doc in docs:
            yield [Concept(*found) for found in self.terminology.find(doc.text)]
