"""Updates with soft tags: the package's, in bfloat16 where asked."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from thinc.api import set_dropout_rate

from spacy_mslm.masking.weights import UniformWeights
from spacy_mslm.model.optimizer import AdamW, make_adamw
from spacy_mslm.model.schedules import warmup_decay
from spacy_mslm.pipeline.component import MSLM
from spacy_mslm.training.losses import Terms
from spacy_mslm.training.step import learn
from spacy_mslm.types import Row


def make_optimizer(steps: int, rate: float, head_rate: float) -> AdamW:
    return make_adamw(
        warmup_decay(rate, steps), warmup_decay(head_rate, steps), weight_decay=0.01, grad_clip=1.0
    )


def soft(row: Row) -> Row:
    """The row with its tags as probabilities, (n, 3)."""
    return replace(row, tags=np.eye(3, dtype=np.float32)[row.tags])


def update(
    pipe: MSLM, rows: Sequence[Row], optimizer: AdamW, *, dropout: float = 0.1, bf16: bool = True
) -> float:
    """One step: the mean cross-entropy to the probabilities of tags. One entity type: there is
    nothing to classify."""
    rows = [replace(row, mentions=[]) for row in rows]
    set_dropout_rate(pipe.model, dropout)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
        terms = learn(
            *(pipe.model, pipe.shim.wordpieces, rows, pipe.batch_pieces),
            *(UniformWeights()(0, 0), Terms(0.0, 1.0, 0.0)),
        )
    pipe.shim.finish_update(optimizer)
    optimizer.step_schedules()
    return terms.ed
