"""Gold text under a seeded masking: what the paper tags, and how well the masked-LM head fills it.

Masks are drawn for each window, as in training. Two uses, both with the gold at hand:

- `mask_pieces`: the document as the authors evaluate on it, with gold mentions replaced by [MASK].
  The positions of those are visible to the model, so scores on it say nothing of new text.
- `masked_lm_losses`: the loss of the masked-LM head at each masked piece, for pseudo-perplexity.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from ..masking.strategies import Masking
from ..masking.views import mask_sequence
from ..model.architecture import MSLMModel, document_windows, shim_of
from ..pieces.collate import batch_rows
from ..types import BLM, ELM, UNMASKED, Gold, Pieces, Row, no_ints


def draw_masks(
    model: MSLMModel, pieces: Pieces, gold: Gold, masking: Masking, generator: np.random.Generator
) -> np.ndarray:
    """(pieces,) kinds of a whole document, each piece's from the window that owns it."""
    kinds = np.full(len(pieces.ids), UNMASKED, dtype=np.int8)
    for window in document_windows(model, pieces):
        drawn = masking(mask_sequence(pieces, window, gold), generator)
        own = slice(window.own_start, window.own_end)
        kinds[own] = drawn[window.own_start - window.start : window.own_end - window.start]
    return kinds


def mask_pieces(model: MSLMModel, pieces: Pieces, kinds: np.ndarray) -> Pieces:
    """The document with what is masked replaced by the mask piece."""
    return replace(
        pieces, ids=np.where(kinds == UNMASKED, pieces.ids, shim_of(model).wordpieces.mask)
    )


def masked_lm_losses(
    model: MSLMModel, documents: Iterable[tuple[Pieces, np.ndarray]], batch_pieces: int
) -> tuple[np.ndarray, np.ndarray]:
    """(masked,) loss of the masked-LM head in nats and (masked,) kind of each masked piece, once.

    documents: with their masks.
    """
    rows = []
    for pieces, kinds in documents:
        for window in document_windows(model, pieces):
            # Another window's pieces are masked, and counted, there: here they are context.
            own = np.full(window.end - window.start, UNMASKED, dtype=np.int8)
            at = slice(window.own_start - window.start, window.own_end - window.start)
            own[at] = kinds[window.own_start : window.own_end]
            if own.any():
                ids = pieces.ids[window.start : window.end]
                rows.append(Row(ids, own, no_ints(), no_ints(), []))
    return masked_row_losses(model, rows, batch_pieces)


def masked_row_losses(
    model: MSLMModel, rows: Sequence[Row], batch_pieces: int
) -> tuple[np.ndarray, np.ndarray]:
    """The same, of rows."""
    shim = shim_of(model)
    losses, of_kind = [np.zeros(0)], [no_ints()]
    with shim.inference() as network:
        for batch in batch_rows(rows, batch_pieces, shim.wordpieces):
            logits = network(batch).mlm
            if logits is not None:
                targets = torch.from_numpy(batch.mask_ids).to(logits.device)
                losses.append(
                    cross_entropy(logits.float(), targets, reduction="none").cpu().numpy()
                )
                of_kind.append(batch.mask_kinds)
    return np.concatenate(losses), np.concatenate(of_kind)


def perplexities(losses: np.ndarray, kinds: np.ndarray) -> dict[str, float | None]:
    """exp of the mean loss: of all masked pieces, of the ELM and of the BLM ones."""
    chosen = {"": kinds != UNMASKED, "_elm": kinds == ELM, "_blm": kinds == BLM}
    return {
        f"mslm_ppl{name}": float(np.exp(losses[at].mean())) if at.any() else None
        for name, at in chosen.items()
    }
