"""The network in thinc: runs it and updates its parameters.

thinc's `PyTorchShim` and spacy-transformers' `HFShim` are not used: their `predict` leaves the
shared module in training mode, so that other threads predict with dropout, and their loading
unpickles data and writes files that the model file names.
"""

import contextlib
import math
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import cast

import srsly
import torch
from thinc.api import Optimizer, get_torch_default_device
from thinc.shims import PyTorchGradScaler, Shim
from thinc.types import FloatsXd
from thinc.util import torch2xp, xp2torch

from ..errors import Errors
from ..pieces.wordpieces import Wordpieces
from ..types import PaddedBatch
from .fast.onnx_encoder import OnnxEncoder
from .fast.sparse_embeddings import Matrices, use_sparse_gradient
from .network import HeadOutputs, MSLMNetwork
from .optimizer import AdamW, Named
from .weights import build_network, network_files
from .workers import workers


def is_checked_early(device: torch.device) -> bool:
    """Return whether gradients on a device are checked before the step of the optimizer.

    The norm is then copied from the device together with the losses: each copy waits for all that
    is queued there. On a CPU nothing waits, and gradients may still be sparse.
    """
    return device.type != "cpu"


class MSLMShim(Shim):
    """Holds the network and its wordpieces. Both are missing until initialization or loading.

    The network is in training mode only during the forward pass of an update, and during the
    backward pass if that recomputes layers. Otherwise it is in evaluation mode.

    Args:
        mixed_precision: Compute in half precision on a GPU.
        gradient_checkpointing: Recompute layers in the backward pass to save memory.
    """

    def __init__(self, mixed_precision: bool = False, gradient_checkpointing: bool = False) -> None:
        super().__init__(None)
        self._wordpieces: Wordpieces | None = None
        self._mixed_precision = mixed_precision
        self._gradient_checkpointing = gradient_checkpointing
        self._scaler = PyTorchGradScaler()
        self._training = threading.Lock()
        self._matrices = Matrices()
        self._norm: torch.Tensor | None = None
        self._pid = os.getpid()

    @property
    def network(self) -> MSLMNetwork:
        """The network. Raises a ValueError if it is missing."""
        if self._model is None:
            raise ValueError(Errors.M021)
        return self._model

    @property
    def wordpieces(self) -> Wordpieces:
        """The wordpieces of the encoder. Raises a ValueError if they are missing."""
        if self._wordpieces is None:
            raise ValueError(Errors.M021)
        return self._wordpieces

    @property
    def is_loaded(self) -> bool:
        """Whether there is a network."""
        return self._model is not None

    @property
    def is_optimised(self) -> bool:
        """Whether the encoder is optimised: it can only predict, not learn or fill in masks."""
        return isinstance(self.network.lm, OnnxEncoder)

    def blank_copy(self) -> "MSLMShim":
        """Return a shim with the same settings and no network."""
        return MSLMShim(self._mixed_precision, self._gradient_checkpointing)

    def set(self, network: MSLMNetwork, wordpieces: Wordpieces) -> None:
        """Set the network, move it to the default device, and set its wordpieces."""
        device = get_torch_default_device()
        if not isinstance(network.lm, OnnxEncoder):
            use_sparse_gradient(network.lm, device)
            if self._gradient_checkpointing:
                network.lm.gradient_checkpointing_enable({"use_reentrant": False})
        self._model = network.to(device).eval()
        self._wordpieces = wordpieces

    # ---- running ----

    def __call__(
        self, inputs: PaddedBatch, is_train: bool, dropout: float = 0.0
    ) -> tuple[HeadOutputs, Callable]:
        """Run the network. Returns its outputs and a function that computes the gradients."""
        if not is_train:
            with self.inference() as network:
                return network(inputs), lambda gradients: None
        return self._begin_update(inputs, dropout)

    @contextlib.contextmanager
    def inference(self) -> Iterator[MSLMNetwork]:
        """Provide the network for prediction.

        Any number of threads can use it, because nothing in it changes. In a forked process, the
        parent's torch threads do not exist and the first parallel operation would wait for them
        forever, so torch is set to one thread.
        """
        if self._pid != os.getpid():
            torch.set_num_threads(1)
            self._pid = os.getpid()
        with torch.inference_mode(), self._autocast():
            yield self.network

    def _begin_update(self, batch: PaddedBatch, dropout: float) -> tuple[HeadOutputs, Callable]:
        network = self.network
        if self.is_optimised:
            raise ValueError(
                "This pipeline was optimised for prediction on a CPU and cannot be trained. Train "
                "the original pipeline, and optimise it again."
            )
        with self._in_training(), self._autocast():
            network.dropout.p = dropout
            outputs = network(batch)

        def backprop(gradients: HeadOutputs) -> None:
            pairs = [
                (output, gradient.to(output.dtype))
                for output, gradient in zip(outputs, gradients, strict=True)
                if output is not None and gradient is not None
            ]
            if pairs:
                tensors, grads = zip(*pairs, strict=True)
                again = self._in_training() if self._gradient_checkpointing else nullcontext()
                self._norm = None
                with again:
                    torch.autograd.backward(tensors, self._scaler.scale(grads))

        return outputs, backprop

    def add_gradient(self, loss: Callable[[MSLMNetwork], torch.Tensor]) -> None:
        """Add the gradient of a loss to those of the network, without dropout."""
        with self._training, self._autocast():
            value = loss(self.network)
        self._scaler.scale([value])[0].backward()
        self._norm = None

    @contextlib.contextmanager
    def _in_training(self) -> Iterator[None]:
        with self._training:
            self.network.train()
            try:
                yield
            finally:
                self.network.eval()

    def _autocast(self) -> contextlib.AbstractContextManager:
        """Return a context for half precision, if it is enabled and the network is on a GPU.

        It uses bfloat16 if the GPU supports it, else float16 with loss scaling.
        """
        if not (self._mixed_precision and self.network.device.type == "cuda"):
            return nullcontext()
        if torch.cuda.is_bf16_supported(including_emulation=False):
            return torch.autocast("cuda", dtype=torch.bfloat16)
        if not self._scaler._enabled:
            self._scaler = PyTorchGradScaler(enabled=True)
            self._scaler.to_(self.network.device)
        return torch.autocast("cuda", dtype=torch.float16)

    # ---- learning ----

    def gradient_norm(self) -> torch.Tensor | None:
        """Return the norm of all gradients, for `accept_norm`. None if it is checked later: on a
        CPU, if there are several workers, and if gradients are scaled."""
        early = is_checked_early(self.network.device) and workers().is_alone
        gradients = [p.grad for p in self.network.parameters() if p.grad is not None]
        if not early or self._scaler._enabled or not gradients:
            return None
        return torch.nn.utils.get_total_norm(gradients)

    def accept_norm(self, norm: torch.Tensor, value: float) -> None:
        """Check the norm of all gradients, so that the optimizer need not copy it.

        Args:
            norm: The norm on the device.
            value: Its copy.

        Raises:
            ValueError: If it is NaN or infinite.
        """
        if not math.isfinite(value):
            raise ValueError(Errors.M020)
        self._norm = norm

    def finish_update(self, optimizer: Optimizer, updates: int = 1) -> None:
        """Update the parameters with the average gradient of one or more updates.

        Args:
            optimizer: The optimizer.
            updates: The number of updates over which gradients were summed
                (`training.accumulate_gradient`).

        Raises:
            ValueError: If the gradient is NaN or infinite.
        """
        workers().sum_gradients(list(self.network.parameters()))
        self._matrices.replace_sparse(self.network.parameters())
        named = [(n, p) for n, p in self.network.named_parameters() if p.grad is not None]
        gradients = [cast(torch.Tensor, p.grad) for _, p in named]
        if not gradients:
            return
        if updates > 1:
            torch._foreach_div_(gradients, updates)
        try:
            if not self._scaler.unscale(gradients):
                if isinstance(optimizer, AdamW):
                    encoder, heads = (
                        [p for _, p in of if p.grad is not None] for of in self.encoder_and_heads()
                    )
                    norm = None if self._norm is None else self._norm / updates
                    optimizer.step_network(self.id, encoder, heads, norm=norm)
                else:
                    self._step_each(optimizer, named)
        finally:  # also if the gradient is not finite
            self.drop_gradients()
        self._scaler.update()

    def _step_each(self, optimizer: Optimizer, named: list[tuple[str, torch.nn.Parameter]]) -> None:
        if not all(bool(torch.isfinite(cast(torch.Tensor, p.grad)).all()) for _, p in named):
            raise ValueError(Errors.M020)
        for name, parameter in named:
            weights, _ = optimizer(
                (self.id, name),
                cast(FloatsXd, torch2xp(parameter.data)),
                cast(FloatsXd, torch2xp(cast(torch.Tensor, parameter.grad))),
            )
            parameter.data = xp2torch(weights, device=parameter.device)

    def encoder_and_heads(self) -> tuple[Named, Named]:
        """Return the parameters of the encoder, and those of the entity heads, by name."""
        named = list(self.network.named_parameters())
        encoder = [(n, p) for n, p in named if n.startswith("lm.")]
        return encoder, [(n, p) for n, p in named if not n.startswith("lm.")]

    def drop_gradients(self) -> None:
        """Delete all gradients."""
        self.network.zero_grad(set_to_none=True)
        self._matrices.clear()
        self._norm = None

    def is_finite(self) -> bool:
        """Return whether all weights are finite. This is true if no network is loaded."""
        if self._model is None:
            return True
        return all(bool(torch.isfinite(p).all()) for p in self._model.parameters())

    @contextlib.contextmanager
    def use_params(self, params: dict) -> Iterator[None]:
        """Replace parameters, for example by the averages of an optimizer, during the block."""
        backup = {}
        for name, parameter in self._model.named_parameters() if self._model else ():
            if (self.id, name) in params:
                backup[parameter] = parameter.data
                parameter.data = xp2torch(params[(self.id, name)], device=parameter.device)
        try:
            yield
        finally:
            for parameter, data in backup.items():
                parameter.data = data

    def to_device(self, device_type: str, device_id: int) -> None:
        """Move the network to a device."""
        device = torch.device("cpu" if device_type == "cpu" else f"cuda:{device_id}")
        self.network.to(device)

    def copy(self) -> "MSLMShim":
        """Return a copy with an id of its own, by which optimizers know it."""
        copied = super().copy()
        copied.id = self.blank_copy().id
        return copied

    def __getstate__(self) -> dict:
        return {k: v for k, v in self.__dict__.items() if k not in ("_training", "_matrices")}

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        self._training = threading.Lock()
        self._matrices = Matrices()

    # ---- files ----

    def to_files(self) -> dict[str, bytes]:
        """Return the files from which the network can be built again, by name."""
        return network_files(self.network, self.wordpieces)

    def to_bytes(self) -> bytes:
        """Return the files of the network as bytes."""
        return srsly.msgpack_dumps(self.to_files() if self.is_loaded else {})

    def from_bytes(self, data: bytes) -> "MSLMShim":
        """Load the network from the result of `to_bytes`."""
        files = srsly.msgpack_loads(data)
        if files:
            self.set(*build_network(files))
        return self
