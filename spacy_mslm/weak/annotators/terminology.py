"""Annotator that looks up the names of a terminology, see `spacy_mslm.text.terminology`."""

from collections.abc import Iterable, Sequence

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
        types = None if clusters is None else clusters.types
        self.terminology = Terminology(as_paths(path), STOP_WORDS, types)

    def __call__(self, docs: Sequence[Doc]) -> Iterable[list[Concept]]:
        """Yield the concepts of each document."""
        for doc in docs:
            yield [Concept(*found) for found in self.terminology.find(doc.text)]
