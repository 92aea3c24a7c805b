"""The three losses and their weighted sum (paper eqs. 6, 8, 11, 12), with gradients.

Each term is a mean over the whole update, whatever padded batches it is computed in: masked pieces
(weighted by their kind), tagged tokens, mentions. So the totals are counted first (`Totals`), and a
batch contributes its share.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from ..masking.weights import MaskWeights
from ..model.network import HeadOutputs
from ..types import BLM, ELM, PaddedBatch


class Terms(NamedTuple):
    """One number for each loss: weights in the joint loss, or values."""

    mlm: float
    ed: float
    el: float


class Totals(NamedTuple):
    """What each term's mean is over, counted over all batches of an update."""

    mlm: float  # sum of the mask weights of all masked pieces
    ed: float  # tagged tokens
    el: float  # mentions


def piece_weights(kinds: np.ndarray, weights: MaskWeights) -> np.ndarray:
    """(masked,) kinds -> (masked,) their mask-specific weights w_i of eq. 6."""
    table = np.zeros(3, dtype=np.float32)
    table[BLM], table[ELM] = weights
    return table[kinds]


def count_totals(batches: Iterable[PaddedBatch], weights: MaskWeights) -> Totals:
    batches = list(batches)
    return Totals(
        mlm=float(sum(piece_weights(b.mask_kinds, weights).sum() for b in batches)),
        ed=float(sum(len(b.tags) for b in batches)),
        el=float(sum(len(b.types) for b in batches)),
    )


def mlm_loss(
    logits: torch.Tensor, targets: torch.Tensor, weights: torch.Tensor, total: float
) -> torch.Tensor:
    """L_MSLM, eq. 6: `-sum w_i log P(x_i | s)` over masked positions, as a weighted mean."""
    return (cross_entropy(logits, targets, reduction="none") * weights).sum() / total


def mean_loss(logits: torch.Tensor, targets: torch.Tensor, total: float) -> torch.Tensor:
    """L_ED (eq. 8) over tokens and L_EL (eq. 11) over mentions: cross-entropy, as a mean."""
    return cross_entropy(logits, targets, reduction="sum") / total


def joint_loss(
    outputs: HeadOutputs,
    batch: PaddedBatch,
    mask_weights: MaskWeights,
    loss_weights: Terms,
    totals: Totals,
) -> tuple[Terms, HeadOutputs]:
    """The batch's share of each term (unweighted), and the gradient of eq. 12's weighted sum with
    respect to the logits. Heads that read nothing contribute 0 and have no gradient."""
    # Losses are computed in full precision, also below half-precision heads.
    leaves = HeadOutputs(
        *(None if t is None else t.detach().float().requires_grad_(True) for t in outputs)
    )
    device = next((t.device for t in leaves if t is not None), torch.device("cpu"))

    def to(array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(array).to(device)

    values: dict[str, torch.Tensor] = {}
    if leaves.mlm is not None and totals.mlm:
        weights = to(piece_weights(batch.mask_kinds, mask_weights))
        values["mlm"] = mlm_loss(leaves.mlm, to(batch.mask_ids), weights, totals.mlm)
    if leaves.ed is not None:
        values["ed"] = mean_loss(leaves.ed, to(batch.tags), totals.ed)
    if leaves.el is not None:
        values["el"] = mean_loss(leaves.el, to(batch.types), totals.el)
    gradients = {}
    for name, value in values.items():
        leaf = getattr(leaves, name)
        weight = getattr(loss_weights, name)
        gradients[name] = torch.autograd.grad(value * weight, leaf)[0]
    terms = Terms(
        *(float(values[name].detach()) if name in values else 0.0 for name in Terms._fields)
    )
    return terms, HeadOutputs(*(gradients.get(name) for name in HeadOutputs._fields))
