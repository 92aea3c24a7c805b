"""Encoder of a trained pipe -> ONNX graph with weights in 32-bit floats or 8-bit integers."""

import copy
import tempfile
import warnings
from pathlib import Path

import torch
from torch import nn
from transformers import PreTrainedModel

from ...errors import Errors
from .int8_embedding import replace_piece_embeddings
from .int8_linear import replace_linear_layers

OPSET = 17


class _Traced(nn.Module):
    """A module of transformers with tensors as inputs and output."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return self.module(input_ids=input_ids, attention_mask=attention_mask)[0]


def export_encoder(lm: PreTrainedModel, int8: bool) -> bytes:
    """Export an encoder as an ONNX graph.

    The inputs of the graph are (rows, width) `input_ids` and `attention_mask`, its output is (rows,
    width, hidden) `vectors`.

    Args:
        lm: The encoder with its masked-LM head, which is left out.
        int8: Whether linear layers compute with 8-bit integers (`int8_linear`), and embeddings are
            stored in them (`int8_embedding`).

    Returns:
        The content of an .onnx file.

    Raises:
        ImportError: If the extra `onnx` is not installed.
        ValueError: If the encoder cannot be exported.
    """
    encoder = lm.base_model
    if int8:
        encoder = copy.deepcopy(encoder)
        replace_linear_layers(encoder)
        replace_piece_embeddings(encoder)
    return export_graph(encoder, lm.config.model_type, "vectors")


def export_graph(module: nn.Module, family: str, output: str) -> bytes:
    """Export a module of transformers as an ONNX graph.

    Args:
        module: Takes (rows, width) `input_ids` and `attention_mask`.
        family: The family of its encoder.
        output: The name for its first output.

    Returns:
        The content of an .onnx file.

    Raises:
        ImportError: If the extra `onnx` is not installed.
        ValueError: If the module cannot be exported.
    """
    try:
        import onnx  # noqa: F401 (torch imports it only at the end of the export)
    except ImportError as err:
        raise ImportError(Errors.M025.format(error=err)) from err
    # An example. The graph takes any ids and any shape.
    ids = torch.ones(2, 8, dtype=torch.int64)
    mask = torch.ones_like(ids)
    mask[1, 6:] = 0
    shape = {0: "rows", 1: "width"}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "encoder.onnx"
        try:
            torch.onnx.export(
                _Traced(module).eval(),
                (ids, mask),
                path,
                input_names=["input_ids", "attention_mask"],
                output_names=[output],
                dynamic_axes={n: shape for n in ("input_ids", "attention_mask", output)},
                opset_version=OPSET,
                dynamo=False,  # the other exporter needs onnxscript and is five times slower
            )
        except Exception as err:  # tracing a module can raise anything
            raise ValueError(
                f"Could not export the encoder ({family}) to ONNX: {err}\nUse the pipeline as it "
                "is, or train it with an encoder of another family."
            ) from err
        return path.read_bytes()
