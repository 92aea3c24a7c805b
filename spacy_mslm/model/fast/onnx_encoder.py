"""An encoder that runs in ONNX Runtime, for prediction on a CPU."""

import os
from typing import Any

import torch
from torch import nn
from transformers import PretrainedConfig

from ...errors import Errors


class OnnxEncoder(nn.Module):
    """Replaces an encoder of transformers. It has no torch weights and no masked-LM head.

    Args:
        graph: The graph from `onnx_export.export_encoder`.
        config: The config of the original encoder.

    Raises:
        ImportError: If the extra `onnx` is not installed.
        ValueError: If the graph cannot be read.
    """

    def __init__(self, graph: bytes, config: PretrainedConfig) -> None:
        super().__init__()
        # ONNX Runtime would read tensors from other files that a forged graph names.
        if b"location" in graph:
            raise ValueError(
                "The stored ONNX encoder has weights in other files, which are not read. Optimise "
                "the pipeline again."
            )
        self.graph = graph
        self.config = config
        self._start_session(torch.get_num_threads())

    def _start_session(self, threads: int) -> None:
        try:
            from onnxruntime import InferenceSession, SessionOptions
        except ImportError as err:
            raise ImportError(Errors.M025.format(error=err)) from err
        options = SessionOptions()
        options.intra_op_num_threads = threads
        # Its threads would go on spinning after a batch, beside those of torch.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            self._session: InferenceSession = InferenceSession(
                self.graph, options, providers=["CPUExecutionProvider"]
            )
        except Exception as err:  # the exceptions of ONNX Runtime have no common base class
            raise ValueError(
                f"Could not read the stored ONNX encoder ({type(err).__name__}). Optimise the "
                "pipeline again."
            ) from err
        self._pid = os.getpid()

    @property
    def base_model(self) -> "OnnxEncoder":
        """The encoder itself, as in transformers."""
        return self

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> tuple[torch.Tensor]:
        """Return (rows, width, hidden) token vectors for (rows, width) ids and attention mask."""
        if self._pid != os.getpid():
            # After a fork the threads of the session do not exist, and its deletion would wait for
            # them. So it is kept.
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
