"""Pieces of all windows -> one vector for each token, through which gradients flow back.

    windows     [ window 0 ][    window 1    ]      each piece is read in the window that owns it
    pieces       p0  p1  p2  p3  p4       p5
    tokens      |t0 | t1   |t2 | t3 |(t4)| t5 |     mean of the pieces; zeros without pieces

Other components read these vectors (`spacy_mslm.Listener.v1`, `spacy_mslm.Encoder.v1`).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import torch
from thinc.types import Floats2d
from thinc.util import torch2xp, xp2torch

from ..pieces.windows import WindowSettings
from ..types import UNMASKED, PaddedBatch, Pieces, Row, Window
from .network import MSLMNetwork, mean_pool, to_device


def share_window(
    rows: Sequence[Row], pieces: Pieces, window: Window, first_token: int
) -> list[Row]:
    """Share the pieces that a window owns, in a row without masks. If there is none, add one.

    Args:
        rows: The rows of the window.
        pieces: The document.
        window: The window.
        first_token: The number of the document's first token in the update.
    """
    masked = [row for row in rows if (row.kinds != UNMASKED).any()]
    clean = [row for row in rows if not (row.kinds != UNMASKED).any()]
    ids = pieces.ids[window.start : window.end]
    row, *others = clean or [Row(ids, np.full(len(ids), UNMASKED, dtype=np.int8))]
    own = np.arange(window.own_start, window.own_end)
    of = pieces.token_of[own] + first_token
    return [replace(row, shared_at=own - window.start, shared_of=of), *others, *masked]


def shared_rows(documents: Sequence[Pieces], windows: WindowSettings) -> Iterator[Row]:
    """Yield all windows of documents, to be shared and nothing else."""
    first = 0
    for pieces in documents:
        for window in windows.cover(pieces):
            yield from share_window([], pieces, window, first)
        first += len(pieces.words)


def pool_tokens(
    vectors: Sequence[torch.Tensor],
    batches: Sequence[PaddedBatch],
    lengths: Sequence[int],
    network: MSLMNetwork,
) -> tuple[list[Floats2d], Callable[[Sequence[Floats2d]], list[torch.Tensor]]]:
    """Pool the shared pieces of padded batches to token vectors.

    Args:
        vectors: (shared, hidden) The vectors of each batch.
        batches: The batches.
        lengths: The number of tokens of each document.
        network: The network, whose vectors have a size also if there are none.

    Returns:
        (tokens, hidden) vectors of each document, and a function that converts their gradients to
        those of `vectors`.
    """
    # Tensors of the inference mode can have no gradient.
    leaves = [part.detach().float().requires_grad_(not part.is_inference()) for part in vectors]
    with torch.enable_grad():
        if leaves:
            tokens = np.concatenate([batch.shared_of for batch in batches])
            (of,) = to_device([tokens], network.device)
            pooled = mean_pool(torch.cat(leaves), of, sum(lengths))
        else:
            pooled = torch.zeros(sum(lengths), network.hidden_size, device=network.device)

    def backprop(gradients: Sequence[Floats2d]) -> list[torch.Tensor]:
        if not leaves:
            return []
        joined = torch.cat([xp2torch(gradient, device=pooled.device) for gradient in gradients])
        return list(torch.autograd.grad(pooled, leaves, joined))

    parts = pooled.detach().split(list(lengths))
    return [cast(Floats2d, torch2xp(part)) for part in parts], backprop
