"""Linear layers -> the same in 8-bit integers, for an encoder that is about to be exported.

    weights   each output has a scale of its own, the largest weight is 63
    input     each row, which is a piece of text, has a scale of its own, the largest value is 127

Scales of rows keep a piece with large values from taking the precision of all others, and make the
result independent of what else is in the batch. ONNX Runtime's own quantisation has one scale for a
batch: it is a seventh to a quarter faster, and changes twice as many entities.

On processors without VNNI two products are summed in 16 bits: with 8-bit inputs, 7-bit weights are
what fits, so that all processors compute the same.
"""

from typing import Any

import torch
from torch import nn

LARGEST_INPUT = 127
LARGEST_WEIGHT = 63
ZERO = 128  # inputs are stored as unsigned integers
TINY = 1e-20  # the scale of a row of zeros


def replace_linear_layers(network: nn.Module) -> None:
    """Every `nn.Linear` below a module, in place."""
    for name, module in list(network.named_modules()):
        if isinstance(module, nn.Linear):
            network.set_submodule(name, Int8Linear(module))


class Int8Linear(nn.Module):
    """(..., inputs) -> (..., outputs). In torch it computes the same numbers, at no speed: it is
    there to be exported."""

    weight: torch.Tensor
    scales: torch.Tensor

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        weight = layer.weight.detach()
        scales = weight.abs().amax(1).clamp(min=TINY) / LARGEST_WEIGHT
        integers = (weight / scales[:, None]).round().to(torch.int8)
        self.register_buffer("weight", integers.T.contiguous())  # (inputs, outputs)
        self.register_buffer("scales", scales)  # (outputs,)
        self.bias = layer.bias

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        product = _Int8Product.apply(rows, self.weight, self.scales)
        return product if self.bias is None else product + self.bias


class _Int8Product(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, rows: torch.Tensor, weight: torch.Tensor, scales: torch.Tensor
    ) -> torch.Tensor:
        row_scales = rows.abs().amax(-1, keepdim=True).clamp(min=TINY) / LARGEST_INPUT
        return (rows / row_scales).round() @ weight.float() * scales * row_scales

    @staticmethod
    def symbolic(g: Any, rows: Any, weight: Any, scales: Any) -> Any:
        """The same as a graph of ONNX: `g` adds nodes to it."""

        def constant(value: Any, dtype: torch.dtype) -> Any:
            return g.op("Constant", value_t=torch.tensor(value, dtype=dtype))

        highest = g.op("ReduceMax", rows, axes_i=[-1], keepdims_i=1)
        lowest = g.op("Neg", g.op("ReduceMin", rows, axes_i=[-1], keepdims_i=1))
        largest = g.op("Max", highest, lowest, constant(TINY, torch.float32))
        row_scales = g.op("Mul", largest, constant(1 / LARGEST_INPUT, torch.float32))
        # A scale for each row is one for each of the first axis, when there are two axes.
        by_row = g.op("Reshape", row_scales, constant([-1], torch.int64))
        zeros = torch.tensor([ZERO], dtype=torch.uint8)
        zeros_by_row = g.op("ConstantOfShape", g.op("Shape", by_row), value_t=zeros)
        table = g.op("Reshape", rows, constant([-1, weight.type().sizes()[0]], torch.int64))
        integers = g.op("QuantizeLinear", table, by_row, zeros_by_row, axis_i=0)
        product = g.op(
            "com.microsoft::MatMulIntegerToFloat",
            g.op("Reshape", integers, g.op("Shape", rows)),
            weight,
            constant(1.0, torch.float32),
            scales,
            constant(ZERO, torch.uint8),
        )
        return g.op("Mul", product, row_scales)
