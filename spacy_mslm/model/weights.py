"""The files of a trained network: JSON, safetensors and, if it is optimised, an ONNX graph."""

import json
from collections.abc import Mapping
from typing import Any

import safetensors.torch
import torch

from ..pieces.wordpieces import Wordpieces
from ..util.files import Content
from .checkpoints import build_config, build_encoder
from .fast.onnx_encoder import OnnxEncoder
from .network import MSLMNetwork

ENCODER, HEADS, WORDPIECES, WEIGHTS, ONNX = (
    "encoder.json",
    "heads.json",
    "wordpieces.json",
    "weights.safetensors",
    "encoder.onnx",
)
# The types of stored tensors, by their names in safetensors. A network computes in 32-bit floats.
DTYPES = {"F32": torch.float32, "F16": torch.float16, "I64": torch.int64}


def network_files(network: MSLMNetwork, wordpieces: Wordpieces) -> dict[str, bytes]:
    """Return the files from which a network can be built again, by name.

    The weights of an optimised encoder are in its ONNX graph. A weight whose values fit into 16-bit
    floats is stored as such: it takes half the space, and nothing is lost.
    """
    config = network.lm.config.to_dict()
    config.pop("_name_or_path", None)
    classification = network.classification
    heads = {
        "k": len(network.detection.vector),
        "d": None if classification is None else len(classification.vector),
        "types": network.types,
    }
    tensors = {n: _packed(t.detach().cpu()) for n, t in named_tensors(network).items()}
    files = {
        ENCODER: _json(config),
        HEADS: _json(heads),
        WORDPIECES: wordpieces.to_json().encode("utf8"),
        WEIGHTS: safetensors.torch.save(tensors),
    }
    if isinstance(network.lm, OnnxEncoder):
        files[ONNX] = network.lm.graph
    return files


def build_network(files: Mapping[str, Content]) -> tuple[MSLMNetwork, Wordpieces]:
    """Build the network and the wordpieces from the files of `network_files`.

    Raises:
        ValueError: If a file cannot be read, or a weight is missing or has another shape.
    """
    try:
        config = build_config(json.loads(bytes(files[ENCODER])))
        graph = files.get(ONNX)
        encoder = OnnxEncoder(bytes(graph), config) if graph else build_encoder(config)
        network = MSLMNetwork(encoder, **json.loads(bytes(files[HEADS])))
        wordpieces = Wordpieces.from_json(bytes(files[WORDPIECES]))
        tensors = read_tensors(files[WEIGHTS])
    except (ImportError, OSError):  # a package that is missing
        raise
    except Exception as err:  # of libraries, which do not expect forged files
        if isinstance(err, ValueError) and not isinstance(err, UnicodeError | json.JSONDecodeError):
            raise
        raise ValueError(
            f"Could not read the stored model ({type(err).__name__}). Save the pipeline again, or "
            "retrain it. Files of another version of spacy-mslm need that version."
        ) from err
    fill_tensors(network, tensors)
    return network, wordpieces


def read_tensors(data: Content) -> dict[str, torch.Tensor]:
    """Return the tensors of a safetensors file as views of its content.

    The safetensors library would copy them, or would read the file again by its path, after it was
    checked.
    """
    # torch warns about buffers that are not writable.
    view = memoryview(bytearray(data) if isinstance(data, bytes) else data)
    start = 8 + int.from_bytes(view[:8], "little")
    header = json.loads(bytes(view[8:start]))
    content = torch.frombuffer(view, dtype=torch.uint8)
    tensors = {}
    for name, facts in header.items():
        if name != "__metadata__":
            first, end = facts["data_offsets"]
            values = content[start + first : start + end].view(DTYPES[facts["dtype"]])
            tensors[name] = values.view(facts["shape"])
    return tensors


def named_tensors(network: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return parameters and stored buffers by name. Tied weights occur once, by the first name."""
    parameters: dict[str, torch.Tensor] = dict(network.named_parameters())
    every = dict(network.named_parameters(remove_duplicate=False))
    buffers = {n: t for n, t in network.state_dict().items() if n not in every}
    return {**parameters, **buffers}


def fill_tensors(network: MSLMNetwork, tensors: dict[str, torch.Tensor]) -> None:
    """Copy tensors into a network. All names and shapes must match."""
    expected = named_tensors(network)
    wrong = sorted(expected.keys() ^ tensors.keys())
    wrong += [n for n in expected.keys() & tensors.keys() if expected[n].shape != tensors[n].shape]
    if wrong:
        raise ValueError(
            f"The stored weights do not match the stored architecture: {len(wrong)} are missing, "
            f"unknown or of another shape ({', '.join(wrong[:5])}). Save the pipeline again, or "
            "retrain it."
        )
    with torch.no_grad():
        for name, tensor in expected.items():
            tensor.copy_(tensors[name])


def round_to_half(network: torch.nn.Module) -> None:
    """Round all weights to values that fit into 16-bit floats (in place)."""
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(parameter.half())


def _packed(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor to store: as 16-bit floats if this loses nothing."""
    if tensor.dtype == torch.float32 and torch.equal(tensor.half().float(), tensor):
        tensor = tensor.half()
    return tensor.contiguous()


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=2, sort_keys=True).encode("utf8")
