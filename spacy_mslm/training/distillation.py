"""Distillation: a small encoder learns what a large one computes for the same masked text.

    masked pieces ─┬─> student ─> vectors, logits ─┐
                   └─> teacher ─> vectors, logits ─┴─> losses

Both read the pieces of the student. So each of them must be in the vocabulary of the teacher, which
holds for a student that `shrink` has made from it. The student has no dropout here: it cannot learn
the noise of its targets by heart.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from torch.nn.functional import kl_div, log_softmax

from ..masking.weights import MaskWeights
from ..model.checkpoints import load_checkpoint
from ..model.network import MSLMNetwork
from ..model.shim import MSLMShim
from ..pieces.collate import batch_rows
from ..pieces.wordpieces import Wordpieces
from ..types import Block, PaddedBatch, Row
from .losses import count_totals, mlm_loss, piece_weights
from .step import NotFiniteLoss


class DistillationTerms(NamedTuple):
    """One number for each loss: its value, or its weight in the sum."""

    mlm: float  # L_MSLM, eq. 6
    kl: float  # from the teacher's distribution of masked pieces to the student's
    hidden: float  # squared difference of the vectors


# (pieces, hidden) vectors, and (masked, vocabulary) logits or None.
Filled: TypeAlias = tuple[torch.Tensor, torch.Tensor | None]


class Teacher:
    """An encoder that reads and predicts in the vocabulary of a student.

    Args:
        name: The hub name or local folder of the encoder.
        student: The wordpieces of the student.
        device: The device to compute on.

    Raises:
        ValueError: If a piece of the student is not in the vocabulary of the teacher.
    """

    def __init__(self, name: str, student: Wordpieces, device: torch.device) -> None:
        model, wordpieces = load_checkpoint(name)
        vocabulary = wordpieces.tokenizer.get_vocab()
        pieces = student.tokenizer.get_vocab()
        missing = [piece for piece in pieces if piece not in vocabulary]
        if missing or wordpieces.room < student.room:
            raise ValueError(
                f"{name!r} cannot teach this encoder. {len(missing)} of the {len(pieces)} pieces "
                f"of the encoder are not in its vocabulary, and it takes {wordpieces.room} pieces "
                f"at once where the encoder takes {student.room}. Make an encoder from it with "
                "`spacy mslm shrink`, or train without a teacher."
            )
        ids = sorted(pieces, key=pieces.__getitem__)
        self._ids = np.array([vocabulary[piece] for piece in ids])
        self._columns = torch.from_numpy(self._ids).to(device)
        self._network = MSLMNetwork(model, k=1, d=1, types=1).to(device).eval()

    @torch.no_grad()
    def __call__(self, batch: PaddedBatch) -> Filled:
        """Read a batch of the student.

        Returns:
            The vectors of all padded pieces, (pieces, hidden), and the logits of the masked ones
            for the pieces of the student, (masked, vocabulary).
        """
        blocks = [Block(self._ids[ids], lengths) for ids, lengths in batch.blocks]
        vectors, logits = self._network.fill(replace(batch, blocks=blocks))
        return vectors, None if logits is None else logits[:, self._columns]


def distil(
    shim: MSLMShim,
    teacher: Teacher,
    rows: Sequence[Row],
    batch_pieces: int,
    mask_weights: MaskWeights,
    weights: DistillationTerms,
) -> DistillationTerms:
    """Run the forward and backward passes of an update, one padded batch at a time.

    Args:
        shim: The network of the student and its wordpieces.
        teacher: The teacher.
        rows: The masked rows to learn from.
        batch_pieces: The maximum number of padded pieces that go through the encoder at once.
        mask_weights: The weight of a masked piece of each kind (eq. 6).
        weights: The weight of each loss in the sum.

    Returns:
        The losses, without their weights.

    Raises:
        NotFiniteLoss: If a loss is NaN or infinite, before the backward pass of its batch.
    """
    device = shim.network.device.type
    batches = list(batch_rows(rows, batch_pieces, shim.wordpieces, device))
    totals = DistillationTerms(
        mlm=count_totals(batches, mask_weights).mlm,
        kl=float(sum(len(b.mask_at) for b in batches)),
        hidden=float(sum(lengths.sum() for b in batches for _, lengths in b.blocks)),
    )
    sums = DistillationTerms(0.0, 0.0, 0.0)
    for batch in batches:
        terms = _learn_batch(shim, teacher(batch), batch, mask_weights, weights, totals)
        sums = DistillationTerms(*(a + b for a, b in zip(sums, terms, strict=True)))
    return sums


def _learn_batch(
    shim: MSLMShim,
    targets: Filled,
    batch: PaddedBatch,
    mask_weights: MaskWeights,
    weights: DistillationTerms,
    totals: DistillationTerms,
) -> list[float]:
    """Add the gradient of a batch to those of the network. Returns its share of each loss."""
    terms: list[float] = []

    def loss(network: MSLMNetwork) -> torch.Tensor:
        parts = distillation_losses(network.fill(batch), targets, batch, mask_weights, totals)
        terms.extend(float(part.detach()) for part in parts)
        for name, value in zip(DistillationTerms._fields, terms, strict=True):
            if not np.isfinite(value):
                raise NotFiniteLoss(name)
        return torch.stack([w * part for w, part in zip(weights, parts, strict=True) if w]).sum()

    shim.add_gradient(loss)
    return terms


def distillation_losses(
    student: Filled,
    teacher: Filled,
    batch: PaddedBatch,
    mask_weights: MaskWeights,
    totals: DistillationTerms,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Compute the losses of a batch: its share of each mean over the update.

    The difference of vectors is the mean square over all pieces, special ones included, and all
    dimensions. It is 0 if the student has vectors of another size.

    Args:
        student: (pieces, hidden) vectors and (masked, vocabulary) logits of the student.
        teacher: The same of the teacher.
        batch: What they have read.
        mask_weights: The weight of a masked piece of each kind.
        totals: The denominators: the sum of the mask weights, and the numbers of masked pieces and
            of pieces in all batches of the update.
    """
    (vectors, logits), (target_vectors, target_logits) = student, teacher
    zero = vectors.new_zeros((), dtype=torch.float32)
    mlm, kl, hidden = zero, zero, zero
    if logits is not None and target_logits is not None and totals.mlm:
        ids = torch.from_numpy(batch.mask_ids).to(logits.device)
        kinds = torch.from_numpy(piece_weights(batch.mask_kinds, mask_weights)).to(logits.device)
        mlm = mlm_loss(logits.float(), ids, kinds, totals.mlm)
        found, wanted = (log_softmax(x.float(), -1) for x in (logits, target_logits))
        kl = kl_div(found, wanted, reduction="sum", log_target=True) / totals.kl
    if vectors.shape == target_vectors.shape:
        read = [np.arange(ids.shape[1]) < lengths[:, None] for ids, lengths in batch.blocks]
        at = torch.from_numpy(np.concatenate([r.ravel() for r in read])).to(vectors.device)
        squares = (vectors[at].float() - target_vectors[at].float()).square().mean(-1)
        hidden = squares.sum() / totals.hidden
    return mlm, kl, hidden
