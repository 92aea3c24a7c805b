"""The protocol of the paper's authors: gold mentions are masked before tagging.

The model sees the positions of gold mentions as sequences of [MASK], so scores under this protocol
say nothing about new text. It exists to reproduce the tables of the paper. Masks are drawn for each
window, as in training.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from spacy.pipeline import TrainablePipe
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import minibatch

from ..corpus.gold import align_gold
from ..masking.strategies import Masking
from ..masking.views import maskable
from ..pieces.windows import WindowSettings
from ..types import MISSING, UNMASKED, Gold, Pieces

if TYPE_CHECKING:
    from ..pipeline.component import MSLM

BATCH = 256


class MaskedDocument(NamedTuple):
    """A document with its masks.

    Attributes:
        doc: The predicted document.
        pieces: Its wordpieces, unmasked.
        kinds: (pieces,) UNMASKED, BLM or ELM.
    """

    doc: Doc
    pieces: Pieces
    kinds: np.ndarray


def masked_scores(
    pipe: "MSLM", examples: Iterable[Example], masking: Masking, seed: int = 0
) -> dict[str, float | None]:
    """Score a pipe under the masked protocol. The examples are not changed.

    Args:
        pipe: The pipe.
        examples: Gold documents.
        masking: The masking strategy.
        seed: The seed of the masks.

    Returns:
        `mslm_masked_p`, `mslm_masked_r` (the authors' EM) and `mslm_masked_f`.
    """
    copies = [Example(example.predicted.copy(), example.reference) for example in examples]
    for example in copies:
        example.predicted.set_ents([])
    annotate_masked(pipe, copies, masking, seed)
    scores = TrainablePipe.score(pipe, copies)
    attr = "ents" if pipe.spans_key is None else f"spans_{pipe.spans_key}"
    return {f"mslm_masked_{rate}": scores[f"{attr}_{rate}"] for rate in "prf"}


def annotate_masked(
    pipe: "MSLM", examples: Iterable[Example], masking: Masking, seed: int = 0
) -> None:
    """Write the entities that a pipe finds in masked text to the predicted documents.

    Args:
        pipe: The pipe.
        examples: Gold documents. The predicted documents have no entities, as in the examples of a
            corpus reader.
        masking: The masking strategy.
        seed: The seed of the masks.
    """
    mask = pipe.shim.wordpieces.mask
    for batch in minibatch(masked_documents(pipe, examples, masking, seed), BATCH):
        masked = [mask_pieces(document.pieces, document.kinds, mask) for document in batch]
        pipe.set_annotations([document.doc for document in batch], pipe.predict_pieces(masked))


def masked_documents(
    pipe: "MSLM", examples: Iterable[Example], masking: Masking, seed: int
) -> Iterator[MaskedDocument]:
    """Yield each document that has gold annotation with its masks."""
    generator = np.random.default_rng([seed])
    for example in examples:
        gold = align_gold(example, pipe.spans_key, overlaps=pipe.typed)
        if (gold.tags == MISSING).all():
            continue
        pieces = pipe.shim.wordpieces([example.predicted])[0]
        kinds = draw_masks(pipe.windows, pieces, gold, masking, generator)
        yield MaskedDocument(example.predicted, pieces, kinds)


def draw_masks(
    windows: WindowSettings,
    pieces: Pieces,
    gold: Gold,
    masking: Masking,
    generator: np.random.Generator,
) -> np.ndarray:
    """Return (pieces,) the kinds of all pieces, each drawn in the window that owns the piece."""
    kinds = np.full(len(pieces.ids), UNMASKED, dtype=np.int8)
    for window in windows.cover(pieces):
        drawn = masking(maskable(pieces, window, gold), generator)
        own = slice(window.own_start, window.own_end)
        kinds[own] = drawn[window.own_start - window.start : window.own_end - window.start]
    return kinds


def mask_pieces(pieces: Pieces, kinds: np.ndarray, mask: int) -> Pieces:
    """Return the document with masked pieces replaced by the mask piece."""
    return replace(pieces, ids=np.where(kinds == UNMASKED, pieces.ids, mask))
