"""A knowledge base of one's own for scispaCy's pipe `scispacy_linker`.

This module needs scispaCy. It is imported by `spacy_mslm.weak.kb_ids`.
"""

from typing import Any

from scispacy.candidate_generation import CandidateGenerator, MentionCandidate
from scispacy.linking_utils import KnowledgeBase

from .scispacy_index import load_candidate_generator


class LocalCandidates(CandidateGenerator):
    """Finds candidates in a file. It is read, and its index built, when a document comes.

    Args:
        path: The file, in scispaCy's JSONL format.
        index: Folder for the index, or None for a folder beside the file.
    """

    def __init__(self, path: str, index: str | None) -> None:
        # Not super(), which would download a release.
        self._path = path
        self._index = index
        self._loaded: CandidateGenerator | None = None
        self.kb = LocalConcepts(self)

    @property
    def loaded(self) -> CandidateGenerator:
        """The generator of the file."""
        if self._loaded is None:
            self._loaded = load_candidate_generator(self._path, self._index)
        return self._loaded

    def __call__(self, mention_texts: list[str], k: int) -> list[list[MentionCandidate]]:
        """Return candidates for each text, by names in lower or upper case.

        Args:
            mention_texts: The texts.
            k: The number of names that are looked up for each.
        """
        return self.loaded(mention_texts, k)


class LocalConcepts(KnowledgeBase):
    """The concepts of a file. The pipe reads them as soon as it is created, so they come later."""

    def __init__(self, candidates: LocalCandidates) -> None:
        self._candidates = candidates

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._candidates.loaded.kb, name)
