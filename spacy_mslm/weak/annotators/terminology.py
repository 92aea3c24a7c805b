"""Annotator that looks up the names of a terminology, see `spacy_mslm.text.terminology`."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

from spacy.lang.en.stop_words import STOP_WORDS
from spacy.tokens import Doc

from ...errors import listing
from ...text.plain_texts import as_paths
from ...text.terminology import MIN_CHARS, Terminology, common_words, read_blocklist, read_terms
from ..clusters import Clusters
from ..concepts import Concept


class TerminologyAnnotator:
    """`spacy_mslm.terminology.v1`: the names of a terminology.

    path: Tables of terms, or folders with a UMLS release (MRCONSO.RRF and MRSTY.RRF). Of concepts
        that share a name, the one that is read first is used. None for no names.
    clusters: Read only names whose semantic types are in these clusters, which saves memory; None
        for all names.
    blocklist: A file of names to skip, one in each line.
    min_chars: Skip names with fewer letters and digits.
    skip_common: Skip common English words that are names in terminologies, such as "skin", unless
        they are written as acronyms.
    skip_ambiguous: Skip names of several clusters, such as "bleeding" as a disease and a symptom.
    """

    def __init__(
        self,
        path: str | Sequence[str] | None,
        clusters: Clusters | None = None,
        blocklist: str | None = None,
        min_chars: int = MIN_CHARS,
        skip_common: bool = False,
        skip_ambiguous: bool = False,
    ) -> None:
        if skip_ambiguous and clusters is None:
            raise ValueError(
                "skip_ambiguous compares the clusters of names, but the annotator has none. Set "
                "its `clusters`, as in configs/weak.cfg."
            )
        self.paths = as_paths(path)
        self.clusters = clusters
        self.min_chars = min_chars
        self.skip_common = skip_common
        self.skip_ambiguous = skip_ambiguous
        self.blocked = read_blocklist(Path(blocklist)) if blocklist else frozenset()

    @cached_property
    def terminology(self) -> Terminology:
        """The names of the terminology."""
        types = None if self.clusters is None else self.clusters.types
        return Terminology(
            self.paths,
            STOP_WORDS,
            types,
            min_chars=self.min_chars,
            common=common_words() if self.skip_common else (),
            blocked=self.blocked,
            group_of=self.clusters if self.skip_ambiguous else None,
        )

    def load(self) -> None:
        """Read the files."""
        _ = self.terminology

    def check(self, clusters: Clusters) -> None:
        """Raise a ValueError if no name can get a label, because no type is in the clusters.

        This reads the terminology up to the first name whose type has a label.
        """
        types: dict[str, None] = {}  # in the order of the files
        for path in self.paths:
            for term in read_terms(path):
                if clusters(term.semantic_type) is not None:
                    return
                types[term.semantic_type] = None
        if self.paths:
            raise ValueError(
                f"{listing(self.paths)}: none of the semantic types is in the clusters, so no "
                f"mention would get a label. Types of the terminology: {listing(list(types))}. "
                f"Types of the clusters: {listing(sorted(clusters.types))}. Add the types of the "
                "terminology to a copy of assets/semantic_types.yml, below the label that they "
                "should get, and give it with --paths.clusters."
            )

    def __call__(self, docs: Sequence[Doc]) -> Iterable[list[Concept]]:
        """Yield the concepts of each document."""
        for doc in docs:
            yield [Concept(*found) for found in self.terminology.find(doc.text)]
