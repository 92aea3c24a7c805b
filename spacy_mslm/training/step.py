"""One update of any training: rows -> losses -> gradients."""

from collections.abc import Sequence

import numpy as np
import torch

from ..masking.weights import MaskWeights
from ..model.architecture import MSLMModel, shim_of
from ..model.workers import workers
from ..pieces.collate import batch_rows, share_rows
from ..pieces.wordpieces import Wordpieces
from ..types import Row
from .losses import Terms, count_totals, joint_loss
from .shared_pass import SharedPass


def learn(
    model: MSLMModel,
    wordpieces: Wordpieces,
    rows: Sequence[Row],
    batch_pieces: int,
    mask_weights: MaskWeights,
    weights: Terms,
    dropout_seed: int = 0,
    shared: SharedPass | None = None,
) -> Terms:
    """Run the forward and backward passes of an update, one padded batch at a time.

    Gradients add up in the network until the optimizer takes a step. If there are several workers,
    each reads a part of the rows, and the losses are those of all rows.

    Args:
        model: The model.
        wordpieces: The wordpieces of its encoder.
        rows: The windows to learn from.
        batch_pieces: The maximum number of padded pieces that go through the encoder at once.
        mask_weights: The weight of a masked piece of each kind (eq. 6).
        weights: The weight of each loss in the sum of eq. 12.
        dropout_seed: The seed of dropout if there are several workers. One worker uses torch's
            generator.
        shared: Runs the backward passes later, with the gradients of other components.

    Returns:
        The losses, without their weights.

    Raises:
        NotFiniteLoss: If a loss is NaN or infinite. The gradients are then of no use.
        ValueError: If the gradient is NaN or infinite, on a device on which this is checked early.
    """
    group = workers()
    shim = shim_of(model)
    device = shim.network.device.type
    batches = list(batch_rows(rows, batch_pieces, wordpieces, device))
    totals = count_totals(batches, mask_weights)
    if not group.is_alone:
        own = share_rows(rows, group.size, wordpieces.extra)[group.rank]
        batches = list(batch_rows(own, batch_pieces, wordpieces, device))
    losses = []
    with group.own_dropout(dropout_seed):
        for batch in batches:
            outputs, backprop = model.begin_update(batch)
            shares, gradients = joint_loss(outputs, batch, mask_weights, weights, totals)
            if shared is None:
                backprop(gradients)
            else:
                shared.hold(batch, outputs, gradients, backprop)
            losses.append(shares)
    # All is copied from the device at once, because a copy waits for what is queued there.
    norm = shim.gradient_norm() if shared is None else None
    found = [*losses, *([] if norm is None else [norm.expand(len(Terms._fields))])]
    copied = torch.stack(found).cpu().double() if found else torch.zeros(0, 3).double()
    sums = Terms(*group.sum(copied[: len(losses)].sum(0)).numpy().tolist())
    for name, value in sums._asdict().items():
        if not np.isfinite(value):
            raise NotFiniteLoss(name)
    if norm is not None:
        shim.accept_norm(norm, float(copied[-1].numpy()[0]))
    return sums


class NotFiniteLoss(ValueError):
    """A NaN or infinite loss.

    Args:
        term: The name of the loss: mlm, ed or el.
    """

    def __init__(self, term: str) -> None:
        super().__init__(f"NaN or infinite loss: {term}. Lower the learn rate.")
        self.term = term
