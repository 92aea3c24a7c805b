"""Updates with soft tags: the package's rows, batches and optimiser, in bfloat16 where asked."""

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch.nn.functional import cross_entropy, log_softmax

from spacy_mslm.masking.weights import MaskWeights
from spacy_mslm.model.fast.sparse_embeddings import make_dense
from spacy_mslm.model.optimizer import AdamW, make_adamw
from spacy_mslm.model.schedules import warmup_decay
from spacy_mslm.pieces.collate import batch_rows
from spacy_mslm.pipeline.component import MSLM
from spacy_mslm.training.losses import piece_weights
from spacy_mslm.types import Row, no_ints


class Item(NamedTuple):
    """A row and the (n, 3) targets of its tags."""

    row: Row
    targets: np.ndarray
    weight: float = 1.0


def make_optimizer(steps: int, rate: float, head_rate: float) -> AdamW:
    return make_adamw(
        warmup_decay(rate, steps), warmup_decay(head_rate, steps), weight_decay=0.01, grad_clip=1.0
    )


def hard_item(row: Row) -> Item:
    return Item(row, np.eye(3, dtype=np.float32)[row.tags])


def update(
    pipe: MSLM,
    items: Iterable[Item],
    optimizer: AdamW,
    *,
    dropout: float = 0.1,
    mlm_weight: float = 0.0,
    mask_weights: MaskWeights | None = None,
    bf16: bool = True,
) -> dict[str, float]:
    """One step: cross-entropy to the targets, as a weighted mean over tagged tokens; with
    `mlm_weight`, the masked LM beside it. One entity type: there is nothing to classify."""
    items = list(items)
    shim = pipe.shim
    network = shim.network
    # Tags become places in the table of all targets, which go with the rows into batches.
    table = torch.from_numpy(np.concatenate([item.targets for item in items]))
    factor = torch.from_numpy(
        np.concatenate([np.full(len(i.targets), i.weight, np.float32) for i in items])
    )
    offset = 0
    rows = []
    for item in items:
        n = len(item.targets)
        rows.append(replace(item.row, tags=np.arange(offset, offset + n), mentions=[]))
        offset += n
    total = max(float(factor.sum()), 1.0)
    batches = list(batch_rows(rows, pipe.batch_pieces, shim.wordpieces))
    mlm_total = 0.0
    if mlm_weight:
        assert mask_weights is not None
        mlm_total = float(sum(piece_weights(b.mask_kinds, mask_weights).sum() for b in batches))
    sums = {"ed": 0.0, "mlm": 0.0}
    network.dropout.p = dropout
    network.train()
    try:
        for batch in batches:
            if not mlm_weight:
                batch.mask_at = no_ints()  # masked pieces that no head reads
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
                outputs = network(batch)
            loss = torch.zeros(())
            if outputs.ed is not None:
                at = torch.from_numpy(batch.tags)
                each = -(table[at] * log_softmax(outputs.ed.float(), -1)).sum(-1)
                ed = (each * factor[at]).sum() / total
                sums["ed"] += float(ed.detach())
                loss = loss + ed
            if mask_weights is not None and outputs.mlm is not None and mlm_total:
                weights = torch.from_numpy(piece_weights(batch.mask_kinds, mask_weights))
                each = cross_entropy(
                    outputs.mlm.float(), torch.from_numpy(batch.mask_ids), reduction="none"
                )
                mlm = (each * weights).sum() / mlm_total
                sums["mlm"] += float(mlm.detach())
                loss = loss + mlm_weight * mlm
            if loss.requires_grad:
                loss.backward()
        make_dense(network.parameters())
    finally:
        network.eval()
    shim.finish_update(optimizer)
    optimizer.step_schedules()
    return sums
