"""What an encoder's prediction calls on a CPU, by kernels that are faster or keep less memory.

Linear layers in 32-bit floats go to MKL, which makes no use of wide registers on processors that
are not Intel's. oneDNN, which torch brings along for its own compiler, does. But it keeps memory
for every new number of rows, and batches of text have every number: so rows are added up to one of
a few numbers.

GELU goes to oneDNN, with memory for every new shape that is never given back and lies between the
large tensors: the process grows with each new shape of a batch. torch has a GELU of its own, for
tensors that do not lie in the usual order.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import torch
from torch.nn.functional import gelu, linear, pad
from torch.overrides import TorchFunctionMode


def fast_kernels(device: torch.device) -> AbstractContextManager:
    """For the forward pass of a prediction: what is computed within has no gradient."""
    return _CpuKernels() if device.type == "cpu" else nullcontext()


class _CpuKernels(TorchFunctionMode):
    def __torch_function__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is linear and _fits(*args, **kwargs) and _is_usable():
            return _linear(*args, **kwargs)
        if func is gelu and args and args[0].ndim > 1:
            return func(args[0].mT, *args[1:], **kwargs).mT
        return func(*args, **kwargs)


def _fits(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> bool:
    tensors = (input, weight) if bias is None else (input, weight, bias)
    plain = all(t.device.type == "cpu" and t.dtype == torch.float32 for t in tensors)
    return plain and input.numel() > 0


def _linear(
    input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    rows = input.reshape(-1, input.shape[-1])
    added = _few_sizes(len(rows)) - len(rows)
    output = _onednn(pad(rows, (0, 0, 0, added)) if added else rows, weight, bias)
    return output[: len(rows)].view(*input.shape[:-1], len(weight))


def _few_sizes(n: int) -> int:
    """The next size of a few: up to 1,024 rows there are 28."""
    step = 16 if n <= 256 else 64
    return -(-n // step) * step


def _onednn(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    return torch.ops.mkldnn._linear_pointwise(input, weight, bias, "none", [], "")


@cache
def _is_usable() -> bool:
    """Whether this build of torch has the operator, and it does what it should."""
    # Not at random: a prediction does not touch the user's generator.
    input, weight, bias = (torch.linspace(-1, 2, n) for n in (48, 40, 5))
    input, weight = input.view(6, 8), weight.view(5, 8)
    try:
        return all(
            torch.allclose(_onednn(input, weight, b), linear(input, weight, b), atol=1e-5)
            for b in (bias, None)
        )
    except (AttributeError, RuntimeError):  # not in this build; not for this processor
        return False
