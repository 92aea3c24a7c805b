"""A gradient of the input embeddings that is written once, since it is as large as the vocabulary.

The embeddings are used by each block of pieces and, in most families, by the masked-LM head, which
shares them. torch computes a full matrix as the gradient of each use, and a new matrix for each sum
of two. This is half of all weights in a small encoder:

    torch   head: full matrix   + block: full matrix   + block: full matrix
    here    head: full matrix  += rows of the block   += rows of the block
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel


def use_sparse_gradient(lm: PreTrainedModel, device: torch.device) -> None:
    """Make the gradient of the input embeddings consist of the rows that were read, on a CPU.

    On a GPU, torch would wait for the device in each backward pass to count the rows.
    """
    vectors = lm.get_input_embeddings()
    if isinstance(vectors, nn.Embedding):
        vectors.sparse = device.type == "cpu"


class Matrices:
    """Converts sparse gradients to matrices, as optimizers need them.

    A gradient is still sparse when an optimizer takes a step if the masked-LM head has read
    nothing. A matrix is kept from step to step, and only the rows that were read are set and
    cleared: a new matrix takes as long as the step itself.
    """

    def __init__(self) -> None:
        self._kept: dict[int, torch.Tensor] = {}
        self._written: list[tuple[torch.Tensor, torch.Tensor]] = []

    def replace_sparse(self, parameters: Iterable[nn.Parameter]) -> None:
        """Replace sparse gradients by matrices, which are valid until `clear`."""
        for parameter in parameters:
            gradient = parameter.grad
            if gradient is None or not gradient.is_sparse:
                continue
            matrix = self._kept.get(id(parameter))
            if matrix is None or matrix.shape != parameter.shape:
                matrix = self._kept[id(parameter)] = torch.zeros_like(parameter)
            rows = gradient._indices()[0]
            matrix.index_add_(0, rows, gradient._values())
            self._written.append((matrix, rows))
            parameter.grad = matrix

    def clear(self) -> None:
        """Set all rows that were written to zero."""
        for matrix, rows in self._written:
            matrix.index_fill_(0, rows, 0.0)
        self._written.clear()


def project_apart(
    project: Callable[[torch.Tensor], torch.Tensor], vectors: torch.Tensor
) -> torch.Tensor:
    """Return `project(vectors)`, with a separate backward pass for the projection.

    Its backward pass stores the gradients of the projection's weights before the encoder adds to
    them, so that the rows of the encoder are added in place.
    """
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
