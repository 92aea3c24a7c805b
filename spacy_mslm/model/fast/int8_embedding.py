"""Embeddings of pieces in 8-bit integers, for an encoder that is about to be exported to ONNX.

They make the file smaller, not the encoder faster: a small encoder has most of its weights here.
"""

import torch
from torch import nn
from transformers import PreTrainedModel

from .int8_linear import TINY

LARGEST = 127


def replace_piece_embeddings(encoder: PreTrainedModel) -> None:
    """Replace the embeddings of the pieces of an encoder by an Int8Embedding, in place."""
    table = encoder.get_input_embeddings()
    if isinstance(table, nn.Embedding):
        encoder.set_input_embeddings(Int8Embedding(table))


class Int8Embedding(nn.Module):
    """Embeddings in 8-bit integers, with one scale for each piece: (...) ids -> (..., size)."""

    weight: torch.Tensor
    scales: torch.Tensor

    def __init__(self, table: nn.Embedding) -> None:
        super().__init__()
        weight = table.weight.detach()
        scales = weight.abs().amax(1, keepdim=True).clamp(min=TINY) / LARGEST
        self.register_buffer("weight", (weight / scales).round().to(torch.int8))
        self.register_buffer("scales", scales)  # (pieces, 1)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Return (..., size) vectors for (...) ids."""
        return self.weight[ids].float() * self.scales[ids]
