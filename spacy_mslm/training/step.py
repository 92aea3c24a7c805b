"""Rows -> gradients: what one update of any training does, whatever it trains for."""

from collections.abc import Sequence

import numpy as np

from ..masking.weights import MaskWeights
from ..model.architecture import MSLMModel, shim_of
from ..pieces.collate import batch_rows
from ..types import Row
from .losses import Terms, count_totals, joint_loss


def learn(
    model: MSLMModel,
    rows: Sequence[Row],
    batch_pieces: int,
    mask_weights: MaskWeights,
    weights: Terms,
) -> Terms:
    """Forward, losses and backward, one padded batch at a time; returns the terms, unweighted.

    batch_pieces: the most padded pieces that go through the encoder at once.
    A loss that is not a number raises, and the gradient is dropped.
    """
    batches = list(batch_rows(rows, batch_pieces, shim_of(model).wordpieces))
    totals = count_totals(batches, mask_weights)
    sums = Terms(0.0, 0.0, 0.0)
    for batch in batches:
        outputs, backprop = model.begin_update(batch)
        terms, gradients = joint_loss(outputs, batch, mask_weights, weights, totals)
        for name, value in terms._asdict().items():
            if not np.isfinite(value):
                shim_of(model).drop_gradients()
                raise NotFinite(name)
        backprop(gradients)
        sums = Terms(*(a + b for a, b in zip(sums, terms, strict=True)))
    return sums


class NotFinite(ValueError):
    """A term of the loss is infinite, or not a number."""

    def __init__(self, term: str) -> None:
        super().__init__(f"The loss {term} is not a number. Lower the learn rate.")
        self.term = term
