"""One update of any training: rows -> losses -> gradients."""

from collections.abc import Sequence

import numpy as np

from ..masking.weights import MaskWeights
from ..model.architecture import MSLMModel
from ..pieces.collate import batch_rows
from ..pieces.wordpieces import Wordpieces
from ..types import Row
from .losses import Terms, count_totals, joint_loss


def learn(
    model: MSLMModel,
    wordpieces: Wordpieces,
    rows: Sequence[Row],
    batch_pieces: int,
    mask_weights: MaskWeights,
    weights: Terms,
) -> Terms:
    """Run the forward and backward passes of an update, one padded batch at a time.

    Gradients add up in the network until the optimizer takes a step.

    Args:
        model: The model.
        wordpieces: The wordpieces of its encoder.
        rows: The windows to learn from.
        batch_pieces: The maximum number of padded pieces that go through the encoder at once.
        mask_weights: The weight of a masked piece of each kind (eq. 6).
        weights: The weight of each loss in the sum of eq. 12.

    Returns:
        The losses, without their weights.

    Raises:
        NotFiniteLoss: If a loss is NaN or infinite, before the backward pass of its batch.
    """
    batches = list(batch_rows(rows, batch_pieces, wordpieces))
    totals = count_totals(batches, mask_weights)
    sums = Terms(0.0, 0.0, 0.0)
    for batch in batches:
        outputs, backprop = model.begin_update(batch)
        terms, gradients = joint_loss(outputs, batch, mask_weights, weights, totals)
        for name, value in terms._asdict().items():
            if not np.isfinite(value):
                raise NotFiniteLoss(name)
        backprop(gradients)
        sums = Terms(*(a + b for a, b in zip(sums, terms, strict=True)))
    return sums


class NotFiniteLoss(ValueError):
    """A NaN or infinite loss.

    Args:
        term: The name of the loss: mlm, ed or el.
    """

    def __init__(self, term: str) -> None:
        super().__init__(f"NaN or infinite loss: {term}. Lower the learn rate.")
        self.term = term
