"""Kernels for prediction on a CPU that are faster or use less memory than torch's defaults.

torch computes linear layers in 32-bit floats with MKL, which does not use wide registers on
processors of other vendors than Intel. oneDNN, which torch includes for its compiler, does. But
oneDNN keeps memory for every new number of rows, and batches of text have many different numbers.
So rows are padded to one of a few sizes.

torch computes GELU with oneDNN, which keeps memory for every new shape, so the process would grow
with each new shape of a batch. For tensors that are not contiguous, torch has a GELU of its own.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import torch
from torch.nn.functional import gelu, linear, pad
from torch.overrides import TorchFunctionMode


def fast_kernels(device: torch.device) -> AbstractContextManager:
    """Return a context that uses faster kernels on a CPU, for forward passes without gradients."""
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
    return plain and input.numel() > 0 and not torch.is_autocast_enabled("cpu")


def _linear(
    input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    rows = input.reshape(-1, input.shape[-1])
    added = _few_sizes(len(rows)) - len(rows)
    output = _onednn(pad(rows, (0, 0, 0, added)) if added else rows, weight, bias)
    return output[: len(rows)].view(*input.shape[:-1], len(weight))


def _few_sizes(n: int) -> int:
    """Round a number of rows up to one of a few sizes: there are 28 sizes up to 1,024 rows."""
    step = 16 if n <= 256 else 64
    return -(-n // step) * step


def _onednn(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    return torch.ops.mkldnn._linear_pointwise(input, weight, bias, "none", [], "")


@cache
def _is_usable() -> bool:
    """Return whether this build of torch has the operator and computes correct results with it."""
    # Fixed values, because a prediction must not use the global random generator.
    input, weight, bias = (torch.linspace(-1, 2, n) for n in (48, 40, 5))
    input, weight = input.view(6, 8), weight.view(5, 8)
    try:
        return all(
            torch.allclose(_onednn(input, weight, b), linear(input, weight, b), atol=1e-5)
            for b in (bias, None)
        )
    except (AttributeError, RuntimeError):  # not in this build, or not for this processor
        return False
