"""The network in torch: an encoder, its masked-LM head and the two entity heads.

A training pass reads the positions in a `PaddedBatch`. Prediction calls `encode`, `detect` and,
once mentions are found, `classify`.

A typed network has no classification head: its detection head makes a BIO decision for each type.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import nn
from transformers import PreTrainedModel

from ..types import BIO, Block, O, PaddedBatch
from .fast.onnx_encoder import OnnxEncoder
from .fast.sparse_embeddings import project_apart
from .mlm_heads import head_for

# The bias of O of a type that was not trained yet: log(0.98 / 0.01).
EXPECT_OUTSIDE = 4.6


class HeadOutputs(NamedTuple):
    """The logits at the positions that each head reads, or None if it reads none."""

    mlm: torch.Tensor | None  # (masked, vocabulary)
    ed: torch.Tensor | None  # (tagged, 3), or (tagged, types, 3) of a typed network
    el: torch.Tensor | None  # (mentions, types)
    shared: torch.Tensor | None = None  # (shared, hidden) vectors that other components read


class EntityHead(nn.Module):
    """The entity head of eqs. 7 and 10, `softmax(f(h ∘ W))` without the softmax.

    It concatenates each input with a trainable vector W and applies tanh and a linear layer: (n,
    hidden) -> (n, labels).

    Args:
        hidden: The size of the inputs.
        size: The size of the trainable vector.
        labels: The number of outputs.
    """

    def __init__(self, hidden: int, size: int, labels: int) -> None:
        super().__init__()
        self.vector = nn.Parameter(torch.empty(size).normal_(std=0.02))
        self.output = nn.Linear(hidden + size, labels)

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        """Return (n, labels) logits for (n, hidden) vectors."""
        joined = torch.cat([vectors, self.vector.expand(len(vectors), -1)], dim=-1)
        return self.output(torch.tanh(joined))

    def resize(self, labels: int) -> None:
        """Change the number of labels. The weights of the labels that remain are kept."""
        old = self.output
        kept = min(labels, old.out_features)
        self.output = nn.Linear(old.in_features, labels).to(old.weight.device)
        with torch.no_grad():
            self.output.weight[:kept] = old.weight[:kept]
            self.output.bias[:kept] = old.bias[:kept]


class TypedHead(EntityHead):
    """An entity head that makes a BIO decision for each type: (n, hidden) -> (n, types, 3).

    A type that was not trained yet is expected nowhere: the bias of O gives B and I a probability
    of about 1 % each.

    Args:
        hidden: The size of the inputs.
        size: The size of the trainable vector.
        types: The number of entity types.
    """

    def __init__(self, hidden: int, size: int, types: int) -> None:
        super().__init__(hidden, size, types * len(BIO))
        self._expect_nothing(0)

    @property
    def types(self) -> int:
        """The number of entity types."""
        return self.output.out_features // len(BIO)

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        """Return (n, types, 3) logits for (n, hidden) vectors."""
        return super().forward(vectors).view(len(vectors), self.types, len(BIO))

    def resize(self, types: int) -> None:
        """Change the number of types. The weights of the types that remain are kept."""
        before = self.types
        super().resize(types * len(BIO))
        self._expect_nothing(before)

    def _expect_nothing(self, first: int) -> None:
        """Set the biases of the types from `first` on."""
        with torch.no_grad():
            bias = self.output.bias.view(self.types, len(BIO))[first:]
            bias.zero_()
            bias[:, O] = EXPECT_OUTSIDE


class MSLMNetwork(nn.Module):
    """The encoder with its masked-LM head, the detection head and the classification head.

    Args:
        lm: The encoder with its masked-LM head.
        k: The size of the trainable vector of the detection head (eq. 7).
        d: The size of the trainable vector of the classification head (eq. 10), or None for a typed
            network.
        types: The number of entity types.
    """

    detection: EntityHead

    def __init__(
        self, lm: PreTrainedModel | OnnxEncoder, k: int, d: int | None, types: int
    ) -> None:
        super().__init__()
        self.lm = lm
        if d is None:
            self.detection = TypedHead(self.hidden_size, k, types)
            self.classification = None
        else:
            self.detection = EntityHead(self.hidden_size, k, len(BIO))
            self.classification = EntityHead(self.hidden_size, d, types)
        self.dropout = nn.Dropout(0.0)
        self._mlm_head = head_for(lm)

    @property
    def device(self) -> torch.device:
        """The device of the network."""
        return self.detection.vector.device

    @property
    def hidden_size(self) -> int:
        """The size of token vectors."""
        return self.lm.config.hidden_size

    @property
    def types(self) -> int:
        """The number of entity types."""
        if self.classification is None:
            return self.detection.output.out_features // len(BIO)
        return self.classification.output.out_features

    @property
    def typed(self) -> bool:
        """Whether the detection head makes a BIO decision for each type."""
        return self.classification is None

    @property
    def columns(self) -> int:
        """The number of BIO decisions for each token: one, or one for each type."""
        return self.types if self.typed else 1

    @property
    def entity_heads(self) -> nn.ModuleDict:
        """The detection head and the classification head, which are not part of a checkpoint."""
        heads: dict[str, nn.Module] = {"ed": self.detection}
        if self.classification is not None:
            heads["el"] = self.classification
        return nn.ModuleDict(heads)

    def resize(self, types: int) -> None:
        """Change the number of entity types. The weights of the types that remain are kept."""
        (self.classification or self.detection).resize(types)

    def forward(self, batch: PaddedBatch) -> HeadOutputs:
        """Run a training pass. Each head reads only the positions in the batch."""
        read = (batch.tag_at, batch.span_at, batch.span_of, batch.mask_at, batch.shared_at)
        tag_at, span_at, span_of, mask_at, shared_at = to_device(read, self.device)
        vectors, mlm = self._fill(batch.blocks, mask_at)
        ed = self.detect(vectors[tag_at]) if len(batch.tag_at) else None
        el = None
        if len(batch.types):
            el = self.classify(mean_pool(vectors[span_at], span_of, len(batch.types)))
        shared = vectors[shared_at] if len(batch.shared_at) else None
        return HeadOutputs(mlm, ed, el, shared)

    def fill(self, batch: PaddedBatch) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Run the encoder and its masked-LM head.

        Returns:
            The vectors of all padded pieces, (pieces, hidden), and the logits of the masked ones,
            (masked, vocabulary), or None if there are none.
        """
        return self._fill(batch.blocks, torch.from_numpy(batch.mask_at).to(self.device))

    def _fill(
        self, blocks: Sequence[Block], at: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        if not len(at):
            return torch.cat([self.encode(*block) for block in blocks]), None
        if self._mlm_head is None:
            read = [self._encode_and_project(*block) for block in blocks]
            vectors, logits = (torch.cat(parts) for parts in zip(*read, strict=True))
            return vectors, logits[at]
        vectors = torch.cat([self.encode(*block) for block in blocks])
        return vectors, project_apart(partial(self._mlm_head, self.lm), vectors[at])

    def encode(self, ids: np.ndarray, lengths: np.ndarray) -> torch.Tensor:
        """Return the vectors of padded rows (eq. 1).

        Args:
            ids: (rows, width) The padded ids.
            lengths: (rows,) The length of each row, without padding.

        Returns:
            (rows * width, hidden) The vectors.
        """
        return self.lm.base_model(**self._inputs(ids, lengths))[0].flatten(0, 1)

    def _encode_and_project(
        self, ids: np.ndarray, lengths: np.ndarray
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return token vectors and all logits, for families without a head adapter.

        A hook catches the vectors, because `hidden_states[-1]` is not the output of the encoder in
        every family.
        """
        caught: list[torch.Tensor] = []
        hook = self.lm.base_model.register_forward_hook(lambda *args: caught.append(args[2][0]))
        try:
            logits = self.lm(**self._inputs(ids, lengths)).logits
        finally:
            hook.remove()
        return caught[0].flatten(0, 1), logits.flatten(0, 1)

    def detect(self, vectors: torch.Tensor) -> torch.Tensor:
        """Return (n, 3) or (n, types, 3) logits of B, I, O for (n, hidden) vectors."""
        return self.detection(self.dropout(vectors))

    def classify(self, pooled: torch.Tensor) -> torch.Tensor:
        """Return (mentions, types) logits for (mentions, hidden) mean-pooled vectors (eq. 9)."""
        if self.classification is None:
            raise TypeError("A typed network has no classification head.")
        return self.classification(self.dropout(pooled))

    def _inputs(self, ids: np.ndarray, lengths: np.ndarray) -> dict[str, torch.Tensor]:
        attention = (np.arange(ids.shape[1]) < lengths[:, None]).astype(np.int64)
        input_ids, attention_mask = to_device((ids, attention), self.device)
        return {"input_ids": input_ids, "attention_mask": attention_mask}


def to_device(arrays: Sequence[np.ndarray], device: torch.device) -> list[torch.Tensor]:
    """Copy arrays to a device, all of a type of numbers at once: a copy has a fixed cost."""
    copied: dict[int, torch.Tensor] = {}
    for dtype in {array.dtype for array in arrays}:
        at = [i for i, array in enumerate(arrays) if array.dtype == dtype]
        joined = torch.from_numpy(np.concatenate([arrays[i].ravel() for i in at])).to(device)
        copied.update(zip(at, joined.split([arrays[i].size for i in at]), strict=True))
    return [copied[i].view(array.shape) for i, array in enumerate(arrays)]


def mean_pool(vectors: torch.Tensor, groups: torch.Tensor, n: int) -> torch.Tensor:
    """Return the mean of the vectors of each group (eq. 9).

    Args:
        vectors: (m, hidden) The vectors.
        groups: (m,) The index of the group of each vector.
        n: The number of groups.

    Returns:
        (n, hidden) The means. A group without vectors has a mean of zeros.
    """
    sums = vectors.new_zeros(n, vectors.shape[1]).index_add(0, groups, vectors)
    # Not `bincount`, which waits for a GPU.
    counts = vectors.new_zeros(n).index_add(0, groups, vectors.new_ones(len(groups)))
    return sums / counts.clamp(min=1)[:, None]
