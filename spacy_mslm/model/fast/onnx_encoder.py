"""An encoder that ONNX Runtime computes, in the place of the torch one: for prediction on a CPU."""

import os
from typing import Any

import torch
from torch import nn
from transformers import PretrainedConfig

from ...errors import Errors


class OnnxEncoder(nn.Module):
    """Called as an encoder of transformers is; has no weights for torch and no masked-LM head.

    graph: of `onnx_export.export_encoder`.
    config: that of the encoder which it was made of.
    """

    def __init__(self, graph: bytes, config: PretrainedConfig) -> None:
        super().__init__()
        self.graph = graph
        self.config = config
        self._start_session(torch.get_num_threads())

    def _start_session(self, threads: int) -> None:
        try:
            from onnxruntime import InferenceSession, SessionOptions
        except ImportError as err:
            raise ValueError(Errors.M025.format(error=err)) from err
        options = SessionOptions()
        options.intra_op_num_threads = threads
        try:
            self._session: InferenceSession = InferenceSession(
                self.graph, options, providers=["CPUExecutionProvider"]
            )
        except Exception as err:  # its exceptions have no common class of their own
            raise ValueError(
                f"The stored ONNX encoder cannot be read ({type(err).__name__}). Optimise the "
                "pipeline again."
            ) from err
        self._pid = os.getpid()

    @property
    def base_model(self) -> "OnnxEncoder":
        return self

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> tuple[torch.Tensor]:
        """(rows, width) ids and mask -> (rows, width, hidden) token vectors."""
        if self._pid != os.getpid():
            # The threads of a session are not there after a fork, and its end would wait for them.
            self._lost = self._session
            self._start_session(1)
        inputs = {"input_ids": input_ids, "attention_mask": attention_mask}
        (vectors,) = self._session.run(None, {k: v.cpu().numpy() for k, v in inputs.items()})
        return (torch.from_numpy(vectors).to(input_ids.device),)

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in ("_session", "_lost")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start_session(torch.get_num_threads())
