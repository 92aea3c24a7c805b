"""Pseudo-perplexity of the masked-LM head: how well it predicts masked pieces (Table 4)."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from spacy.training import Example
from torch.nn.functional import cross_entropy

from ..masking.strategies import Masking
from ..model.shim import MSLMShim
from ..pieces.collate import batch_rows
from ..pieces.windows import WindowSettings
from ..types import BLM, ELM, UNMASKED, Pieces, Row, no_ints
from .masked_protocol import masked_documents

if TYPE_CHECKING:
    from ..pipeline.component import MSLM


def perplexity(
    pipe: "MSLM", examples: Iterable[Example], masking: Masking, seed: int = 0
) -> dict[str, float | None]:
    """Measure the perplexity of a pipe's masked-LM head on masked gold documents.

    Args:
        pipe: The pipe.
        examples: Gold documents.
        masking: The masking strategy.
        seed: The seed of the masks.

    Returns:
        `mslm_ppl` over all masked pieces, `mslm_ppl_elm` and `mslm_ppl_blm` by kind. A value is
        None if nothing is masked, or if the pipe is optimised and has no masked-LM head.
    """
    if pipe.shim.is_optimised:
        return perplexities(np.zeros(0), no_ints())
    masked = (
        (document.pieces, document.kinds)
        for document in masked_documents(pipe, examples, masking, seed)
    )
    return perplexities(*document_losses(pipe.shim, pipe.windows, masked, pipe.batch_pieces))


def document_losses(
    shim: MSLMShim,
    windows: WindowSettings,
    documents: Iterable[tuple[Pieces, np.ndarray]],
    batch_pieces: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Compute the loss at each masked piece of documents, once per piece.

    Args:
        shim: Holds the network and its wordpieces.
        windows: How documents are divided into windows.
        documents: The pieces of each document and (pieces,) their kinds.
        batch_pieces: The maximum number of padded pieces that go through the encoder at once.

    Returns:
        (masked,) losses in nats and (masked,) kinds.
    """
    rows = []
    for pieces, kinds in documents:
        for window in windows.cover(pieces):
            # Pieces that another window owns are masked and counted there. Here they are context.
            own = np.full(window.end - window.start, UNMASKED, dtype=np.int8)
            at = slice(window.own_start - window.start, window.own_end - window.start)
            own[at] = kinds[window.own_start : window.own_end]
            if own.any():
                rows.append(Row(pieces.ids[window.start : window.end], own))
    return row_losses(shim, rows, batch_pieces)


def row_losses(
    shim: MSLMShim, rows: Sequence[Row], batch_pieces: int
) -> tuple[np.ndarray, np.ndarray]:
    """Compute the loss at each masked piece of rows.

    Args:
        shim: Holds the network and its wordpieces.
        rows: The rows.
        batch_pieces: The maximum number of padded pieces that go through the encoder at once.

    Returns:
        (masked,) losses in nats and (masked,) kinds.
    """
    losses, of_kind = [np.zeros(0)], [no_ints()]
    with shim.inference() as network:
        for batch in batch_rows(rows, batch_pieces, shim.wordpieces, network.device.type):
            logits = network(batch).mlm
            if logits is not None:
                targets = torch.from_numpy(batch.mask_ids).to(logits.device)
                losses.append(
                    cross_entropy(logits.float(), targets, reduction="none").cpu().numpy()
                )
                of_kind.append(batch.mask_kinds)
    return np.concatenate(losses), np.concatenate(of_kind)


def perplexities(losses: np.ndarray, kinds: np.ndarray) -> dict[str, float | None]:
    """Return exp of the mean loss: over all masked pieces, ELM pieces and BLM pieces."""
    chosen = {"": kinds != UNMASKED, "_elm": kinds == ELM, "_blm": kinds == BLM}
    return {
        f"mslm_ppl{name}": float(np.exp(losses[at].mean())) if at.any() else None
        for name, at in chosen.items()
    }
