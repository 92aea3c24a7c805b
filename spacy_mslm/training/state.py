"""What a training has to remember to continue exactly: weights, optimizer, random numbers.

All of it is tensors by name, so that it can be stored without pickle. The rest of a pipeline
(architecture, labels, alignment) is the same after another initialization with the same settings.

    weights/PIPE/NODE/NAME            a parameter of a thinc model or of the torch module in it
    optimizer/KIND/PIPE/NODE/NAME     what the optimizer knows about that parameter
    random/NAME                       the state of a random number generator
"""

import random
from collections.abc import Iterator, Mapping
from typing import Any, cast

import numpy as np
import torch
from thinc.api import Model, Optimizer, get_torch_default_device
from thinc.shims import Shim
from thinc.types import FloatsXd
from thinc.util import torch2xp, xp2torch

from ..model.optimizer import AdamW
from ..model.shim import MSLMShim
from ..model.weights import named_tensors

Tensors = dict[str, torch.Tensor]
# The state of a thinc optimizer, by (id of a node or shim, name of a parameter).
MOMENTS = ("mom1", "mom2", "averages")
COUNTS = ("nr_update", "last_seen")


# ---- weights and optimizer ----


def model_state(models: Mapping[str, Model], optimizer: Optimizer) -> Tensors:
    """Return the weights of models and the state of their optimizer.

    Args:
        models: The models by name.
        optimizer: The optimizer. Its schedules are not included, because they are repeated.
    """
    found: Tensors = {}
    owners: dict[int, str] = {}
    for place, owner in _owners(models):
        owners[owner.id] = place
        for name, tensor in _weights(owner).items():
            found[f"weights/{place}/{name}"] = tensor
        if isinstance(owner, MSLMShim) and isinstance(optimizer, AdamW) and owner.is_loaded:
            named = [pair for of in owner.encoder_and_heads() for pair in of]
            for name, tensor in optimizer.moments(owner.id, named).items():
                found[f"optimizer/network/{place}/{name}"] = tensor
    for kind in (*MOMENTS, *COUNTS):
        for (id_, name), value in (getattr(optimizer, kind) or {}).items():
            if id_ in owners:
                tensor = torch.tensor(value) if kind in COUNTS else xp2torch(value)
                found[f"optimizer/{kind}/{owners[id_]}/{name}"] = tensor
    return {name: tensor.detach().cpu().contiguous() for name, tensor in found.items()}


def load_model_state(models: Mapping[str, Model], optimizer: Optimizer, tensors: Tensors) -> None:
    """Restore what `model_state` returned, in models of the same architecture.

    Raises:
        ValueError: If a weight is missing, unknown, or of another shape.
    """
    for place, owner in _owners(models):
        own = _under(tensors, f"weights/{place}/")
        current = _weights(owner)
        if {n: t.shape for n, t in current.items()} != {n: t.shape for n, t in own.items()}:
            raise ValueError(
                f"The checkpoint does not fit the model: the weights of {place} differ in their "
                "names or shapes. It was written by another version, or the data has other labels."
            )
        _set_weights(owner, own)
        if isinstance(owner, MSLMShim) and isinstance(optimizer, AdamW) and owner.is_loaded:
            moments = _under(tensors, f"optimizer/network/{place}/")
            if moments:
                optimizer.load_moments(owner.id, *owner.encoder_and_heads(), moments)
        for kind in MOMENTS:
            for name, tensor in _under(tensors, f"optimizer/{kind}/{place}/").items():
                getattr(optimizer, kind)[owner.id, name] = torch2xp(
                    tensor.to(get_torch_default_device())
                )
        for kind in COUNTS:
            for name, tensor in _under(tensors, f"optimizer/{kind}/{place}/").items():
                getattr(optimizer, kind)[owner.id, name] = int(tensor)


def shared_weights(models: Mapping[str, Model]) -> list[torch.Tensor]:
    """Return all weights of models, as tensors that share their memory."""
    return [t.detach() for _, owner in _owners(models) for t in _weights(owner).values()]


def _owners(models: Mapping[str, Model]) -> Iterator[tuple[str, Model | Shim]]:
    """Yield all that owns parameters, each with a name that is the same in another process."""
    for name, model in models.items():
        for i, node in enumerate(model.walk()):
            yield f"{name}/{i}", node
            for j, shim in enumerate(node.shims):
                yield f"{name}/{i}.{j}", shim


def _weights(owner: Model | Shim) -> Tensors:
    if isinstance(owner, Model):
        names = [name for name in owner.param_names if owner.has_param(name)]
        return {name: xp2torch(owner.get_param(name)) for name in names}
    module = getattr(owner, "_model", None)
    return named_tensors(module) if isinstance(module, torch.nn.Module) else {}


def _set_weights(owner: Model | Shim, tensors: Tensors) -> None:
    if isinstance(owner, Model):
        for name, tensor in tensors.items():
            owner.set_param(name, cast(FloatsXd, torch2xp(tensor.to(get_torch_default_device()))))
        return
    with torch.no_grad():
        for name, target in _weights(owner).items():
            target.copy_(tensors[name])


def _under(tensors: Tensors, prefix: str) -> Tensors:
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}


# ---- random numbers ----


def random_state() -> Tensors:
    """Return the states of the global generators of Python, numpy and torch."""
    _, keys, place, has_gauss, gauss = cast(tuple, np.random.get_state())
    states = {
        "random/python": python_state(),
        "random/numpy": torch.from_numpy(np.array([*keys, place, has_gauss], dtype=np.int64)),
        "random/numpy_gauss": torch.tensor(gauss, dtype=torch.float64),
        "random/torch": torch.get_rng_state(),
    }
    if torch.cuda.is_available():
        for i, state in enumerate(torch.cuda.get_rng_state_all()):
            states[f"random/cuda/{i}"] = state
    return states


def set_random_state(tensors: Tensors) -> None:
    """Restore what `random_state` returned."""
    set_python_state(tensors["random/python"])
    *keys, place, has_gauss = tensors["random/numpy"].tolist()
    gauss = float(tensors["random/numpy_gauss"])
    np.random.set_state(("MT19937", np.array(keys, dtype=np.uint32), place, has_gauss, gauss))
    torch.set_rng_state(tensors["random/torch"])
    for name, state in _under(tensors, "random/cuda/").items():
        if int(name) < torch.cuda.device_count():
            torch.cuda.set_rng_state(state, int(name))


def python_state() -> torch.Tensor:
    """Return the state of Python's generator: 625 integers, and the number kept by `gauss`."""
    _, numbers, kept = random.getstate()
    return torch.tensor([*numbers, float("nan") if kept is None else kept], dtype=torch.float64)


def set_python_state(state: torch.Tensor) -> None:
    """Restore what `python_state` returned."""
    *numbers, kept = state.tolist()
    version: Any = random.getstate()[0]
    random.setstate((version, tuple(map(int, numbers)), None if kept != kept else kept))
