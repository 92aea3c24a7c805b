"""Matrix products of a prediction on a CPU by oneDNN, which torch brings along, in place of MKL.

torch computes linear layers in 32-bit floats with MKL, which makes no use of wide registers on
processors that are not Intel's; oneDNN does, and is as good on Intel's. It is what torch's own
compiler calls. Only for prediction: the operator has no gradient.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch.nn.functional import linear
from torch.overrides import TorchFunctionMode


class FastLinear(TorchFunctionMode):
    """Within the block, `torch.nn.functional.linear` is computed by oneDNN where that can be."""

    def __torch_function__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is linear and _fits(*args, **kwargs) and _is_usable():
            return _onednn(*args, **kwargs)
        return func(*args, **kwargs)


def _fits(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> bool:
    tensors = (input, weight) if bias is None else (input, weight, bias)
    plain = all(t.device.type == "cpu" and t.dtype == torch.float32 for t in tensors)
    return plain and input.ndim > 1 and input.numel() > 0


def _onednn(
    input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    return torch.ops.mkldnn._linear_pointwise(input, weight, bias, "none", [], "")


@cache
def _is_usable() -> bool:
    """Whether this build of torch has the operator, and it does what it should."""
    input, weight, bias = torch.rand(2, 3, 8), torch.rand(5, 8), torch.rand(5)
    try:
        return all(
            torch.allclose(_onednn(input, weight, b), linear(input, weight, b), atol=1e-5)
            for b in (bias, None)
        )
    except (AttributeError, RuntimeError, NotImplementedError):
        return False
