"""The three losses and their weighted sum (paper eqs. 6, 8, 11, 12), with gradients.

Each loss is a mean over the whole update, however it is divided into padded batches: over masked
pieces (weighted by their kind), tagged tokens or mentions. So the totals are counted first
(`Totals`), and each batch contributes its share.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from ..masking.weights import MaskWeights
from ..model.network import HeadOutputs, to_device
from ..types import BLM, ELM, MISSING, PaddedBatch


class Terms(NamedTuple):
    """One number for each loss: its value, or its weight in the joint loss."""

    mlm: float
    ed: float
    el: float


class Totals(NamedTuple):
    """The denominators of the means, over all batches of an update."""

    mlm: float  # sum of the mask weights of all masked pieces
    ed: float  # tagged tokens, or pairs of a token and an annotated type
    el: float  # mentions


def piece_weights(kinds: np.ndarray, weights: MaskWeights) -> np.ndarray:
    """Return (masked,) the mask-specific weights w_i of eq. 6 for (masked,) kinds."""
    table = np.zeros(3, dtype=np.float32)
    table[BLM], table[ELM] = weights
    return table[kinds]


def count_totals(batches: Iterable[PaddedBatch], weights: MaskWeights) -> Totals:
    """Count the denominators of the means over all batches of an update."""
    batches = list(batches)
    return Totals(
        mlm=float(sum(piece_weights(b.mask_kinds, weights).sum() for b in batches)),
        ed=float(sum(_n_tags(b.tags) for b in batches)),
        el=float(sum(len(b.types) for b in batches)),
    )


def _n_tags(tags: np.ndarray) -> int:
    """Count the tags that are not MISSING."""
    known = tags.any(axis=-1) if tags.dtype.kind == "f" else tags != MISSING
    return int(known.sum())


def mlm_loss(
    logits: torch.Tensor, targets: torch.Tensor, weights: torch.Tensor, total: float
) -> torch.Tensor:
    """Return L_MSLM, eq. 6: the weighted mean of `-log P(x_i | s)` over masked positions.

    Args:
        logits: (masked, vocabulary) The logits.
        targets: (masked,) The ids before masking.
        weights: (masked,) The weight of each piece.
        total: The sum of weights over all batches of the update.
    """
    return (cross_entropy(logits, targets, reduction="none") * weights).sum() / total


def mean_loss(logits: torch.Tensor, targets: torch.Tensor, total: float) -> torch.Tensor:
    """Return the mean cross-entropy: L_ED (eq. 8) over tokens or L_EL (eq. 11) over mentions.

    If each type is tagged separately, L_ED is the mean over pairs of a token and an annotated type.

    Args:
        logits: (n, labels) or (n, types, labels) The logits.
        targets: (n,) or (n, types) The gold labels. MISSING ones have no loss. Or (n, labels) or
            (n, types, labels) floats: the probabilities of the labels, zeros for MISSING ones.
        total: The number of gold labels, without MISSING ones, in all batches of the update.
    """
    flat = logits.flatten(0, -2)
    if targets.is_floating_point():
        return cross_entropy(flat, targets.flatten(0, -2), reduction="sum") / total
    return cross_entropy(flat, targets.flatten(), ignore_index=MISSING, reduction="sum") / total


def joint_loss(
    outputs: HeadOutputs,
    batch: PaddedBatch,
    mask_weights: MaskWeights,
    loss_weights: Terms,
    totals: Totals,
) -> tuple[torch.Tensor, HeadOutputs]:
    """Compute the losses of a batch and the gradient of their weighted sum (eq. 12).

    Args:
        outputs: The logits of the heads.
        batch: The batch.
        mask_weights: The weight of a masked piece of each kind.
        loss_weights: The weight of each loss.
        totals: The denominators, over all batches of the update.

    Returns:
        (3,) The batch's share of each loss, in the order of `Terms` and without its weight, and the
        gradients with respect to the logits. A head that reads nothing has a loss of 0 and no
        gradient.
    """
    # Losses are computed in full precision, even if the heads use half precision.
    leaves = HeadOutputs(
        *(
            None if t is None else t.detach().float().requires_grad_(True)
            for t in (outputs.mlm, outputs.ed, outputs.el)
        )
    )
    device = next((t.device for t in leaves if t is not None), torch.device("cpu"))
    read = (batch.mask_ids, batch.mask_kinds, batch.tags, batch.types)
    mask_ids, kinds, tags, types = to_device(read, device)
    values: dict[str, torch.Tensor] = {}
    if leaves.mlm is not None and totals.mlm:
        weights = torch.where(kinds == ELM, mask_weights.elm, mask_weights.blm)
        values["mlm"] = mlm_loss(leaves.mlm, mask_ids, weights, totals.mlm)
    if leaves.ed is not None and totals.ed:
        values["ed"] = mean_loss(leaves.ed, tags, totals.ed)
    if leaves.el is not None:
        values["el"] = mean_loss(leaves.el, types, totals.el)
    gradients = {}
    for name, value in values.items():
        leaf = getattr(leaves, name)
        weight = getattr(loss_weights, name)
        gradients[name] = torch.autograd.grad(value * weight, leaf)[0]
    zero = torch.zeros((), device=device)
    losses = torch.stack([values.get(name, zero).detach() for name in Terms._fields])
    return losses, HeadOutputs(*(gradients.get(name) for name in HeadOutputs._fields))
