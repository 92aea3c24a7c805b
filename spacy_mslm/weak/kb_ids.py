"""The `mslm_kb_ids` pipe: the id of the concept that a linker found for an entity, as `kb_id_`."""

from typing import TYPE_CHECKING

from spacy.language import Language
from spacy.tokens import Doc, Span

from ..util.settings import check_between

if TYPE_CHECKING:  # an extra
    from scispacy.candidate_generation import CandidateGenerator


class KBIds:
    """Copies the best concept of `ent._.kb_ents`, which scispaCy's linker sets, to `ent.kb_id_`.

    An entity keeps the id that it has if no concept is similar enough, or if several concepts are
    equally similar: a name that they share does not tell which one is meant.

    Args:
        threshold: The minimum similarity, from 0 to 1.
    """

    def __init__(self, threshold: float) -> None:
        check_between("mslm_kb_ids.threshold", threshold, 0, 1)
        self.threshold = threshold

    def __call__(self, doc: Doc) -> Doc:
        """Set the ids of the entities of a document.

        Raises:
            ValueError: If no linker has read documents in this process.
        """
        if not Span.has_extension("kb_ents"):
            raise ValueError(
                "mslm_kb_ids copies what a linker has found (ent._.kb_ents), but there is none. "
                'Add one before it, such as nlp.add_pipe("scispacy_linker"), or remove it.'
            )
        ents = [self._with_id(ent) for ent in doc.ents]
        doc.set_ents(ents, default="unmodified")
        return doc

    def _with_id(self, ent: Span) -> Span:
        best = max((score for _, score in ent._.kb_ents), default=0.0)
        found = {concept for concept, score in ent._.kb_ents if score == best}
        if len(found) != 1 or best < self.threshold:
            return ent
        return Span(ent.doc, ent.start, ent.end, ent.label, kb_id=found.pop(), span_id=ent.id)


@Language.factory(
    "mslm_kb_ids",
    requires=["doc.ents"],
    assigns=["token.ent_kb_id"],
    default_config={"threshold": 0.85},
)
def make_kb_ids(nlp: Language, name: str, threshold: float) -> KBIds:
    """`mslm_kb_ids`: creates the pipe.

    Args:
        nlp: The pipeline.
        name: The name of the pipe.
        threshold: The minimum similarity of a concept, from 0 to 1.
    """
    return KBIds(threshold)


def make_candidates(kb: str, index: str | None = None) -> "CandidateGenerator":
    """`spacy_mslm.LocalCandidates.v1`: a knowledge base of one's own for `scispacy_linker`.

    The value of its setting `candidate_generator`. The file is read when the first document comes.

    Args:
        kb: File in scispaCy's JSONL format (may be `.gz`).
        index: Folder for the index of its names, which is built once. None for a folder beside the
            file.

    Raises:
        ImportError: If scispaCy is not installed.
    """
    try:
        from .annotators.scispacy_candidates import LocalCandidates
    except ImportError as err:
        raise ImportError(
            f"spacy_mslm.LocalCandidates.v1 needs scispaCy ({err}). Install it with 'pip install "
            '"spacy-mslm[weak]"\'.'
        ) from err
    return LocalCandidates(kb, index)
