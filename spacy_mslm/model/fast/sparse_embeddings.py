"""The gradient of the vocabulary's vectors, which is as large as the vocabulary: written once.

The vectors are read at the pieces of each block, and in most families once more by the masked-LM
head, which shares them. Every one of these has a gradient of its own, and torch makes each a full
matrix, half of all weights in a small encoder, and a new one for each sum of two:

    torch   head: full matrix   + block: full matrix   + block: full matrix
    here    head: full matrix  += rows of the block   += rows of the block
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel


def use_sparse_gradient(lm: PreTrainedModel, device: torch.device) -> None:
    """Let reading the vectors have a gradient of the rows that were read."""
    vectors = lm.get_input_embeddings()
    if isinstance(vectors, nn.Embedding):
        vectors.sparse = device.type in ("cpu", "cuda")  # Apple's has no such tensors


def make_dense(parameters: Iterable[nn.Parameter]) -> None:
    """Where the masked-LM head has read nothing, the rows are all there is: make a matrix of
    them, which is what optimisers take."""
    for parameter in parameters:
        if parameter.grad is not None and parameter.grad.is_sparse:
            parameter.grad = parameter.grad.to_dense()


def project_apart(
    project: Callable[[torch.Tensor], torch.Tensor], vectors: torch.Tensor
) -> torch.Tensor:
    """`project(vectors)`, with a backward pass of its own: it has put the gradients of its weights
    in their place before those of the encoder get there, and these are added in place."""
    if not torch.is_grad_enabled():
        return project(vectors)
    return _Apart.apply(vectors, project)


class _Apart(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, vectors: torch.Tensor, project: Callable[[torch.Tensor], torch.Tensor]
    ) -> torch.Tensor:
        with torch.enable_grad():
            ctx.vectors = vectors.detach().requires_grad_()
            ctx.logits = project(ctx.vectors)
        return ctx.logits.detach()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, None]:
        torch.autograd.backward(ctx.logits, gradient)
        return ctx.vectors.grad, None
