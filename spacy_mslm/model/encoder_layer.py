"""`spacy_mslm.Encoder.v1`: an encoder of one's own as a `tok2vec` layer.

`nlp.replace_listeners` puts it in the place of a `spacy_mslm.Listener.v1`: the component then has a
copy of the encoder, and no longer depends on the `mslm` pipe.
"""

from collections.abc import Callable
from typing import Any, cast

import torch
from spacy.tokens import Doc
from thinc.api import Model
from thinc.types import Floats2d

from ..errors import Errors
from ..pieces.collate import batch_rows
from ..pieces.windows import WindowSettings
from ..util.settings import check_at_least
from .checkpoints import load_checkpoint
from .network import HeadOutputs, MSLMNetwork
from .shim import MSLMShim
from .token_vectors import pool_tokens, shared_rows

EncoderLayer = Model[list[Doc], list[Floats2d]]
# The settings that it has in common with the architectures of the mslm pipe.
SETTINGS = ("encoder", "window", "context", "split_sentences")
# The maximum number of padded pieces that go through the encoder at once.
BATCH_PIECES = 4096


def build_encoder_v1(
    encoder: str,
    *,
    window: int = 256,
    context: int = 32,
    split_sentences: bool = True,
    mixed_precision: bool = False,
    gradient_checkpointing: bool = False,
    grad_factor: float = 1.0,
) -> EncoderLayer:
    """`spacy_mslm.Encoder.v1`: builds an encoder that one component has for itself.

    It takes the place of a `tok2vec` layer, and divides documents into windows as the `mslm` pipe
    does. A token's vector is the mean of those of its pieces. The checkpoint is read at
    initialization. A saved pipeline contains its encoder and does not need the checkpoint.

    Args:
        encoder: A Hugging Face checkpoint: hub name or local folder.
        window: The maximum number of text pieces that go through the encoder at once.
        context: The minimum number of pieces on either side of a piece that is read, except at an
            edge.
        split_sentences: Whether windows end at sentence boundaries or run across the whole
            document.
        mixed_precision: Compute in half precision on a GPU.
        gradient_checkpointing: Recompute the layers in the backward pass instead of storing their
            activations.
        grad_factor: The factor of the gradient of the encoder. With 0, it does not learn.

    Returns:
        The layer: documents -> (tokens, hidden) vectors of each.
    """
    check_at_least("tok2vec.grad_factor", grad_factor, 0)
    check_at_least("tok2vec.context", context, 0)
    if window <= 2 * context:
        raise ValueError(Errors.M001.format(size=window, context=context))
    attrs = {
        "encoder": encoder,
        "window": window,
        "context": context,
        "split_sentences": split_sentences,
        "grad_factor": grad_factor,
    }
    return _build(MSLMShim(mixed_precision, gradient_checkpointing), attrs)


def _build(shim: MSLMShim, attrs: dict[str, Any]) -> EncoderLayer:
    width = shim.network.hidden_size if shim.is_loaded else None
    return Model("mslm-encoder", forward, init=init, dims={"nO": width}, attrs=attrs, shims=[shim])


def init(model: EncoderLayer, X: Any = None, Y: Any = None) -> None:
    """Load the encoder in the settings of the layer, unless it has one."""
    shim = cast(MSLMShim, model.shims[0])
    if not shim.is_loaded:
        lm, wordpieces = load_checkpoint(model.attrs["encoder"])
        if model.attrs["window"] > wordpieces.room:
            raise ValueError(
                f"A window of {model.attrs['window']} pieces is too large for the encoder "
                f"{model.attrs['encoder']!r}, which takes {wordpieces.room}. Set tok2vec.window to "
                f"{wordpieces.room} or less."
            )
        shim.set(MSLMNetwork(lm, 1, 1, 1), wordpieces)
    model.set_dim("nO", shim.network.hidden_size)


def forward(
    model: EncoderLayer, docs: list[Doc], is_train: bool
) -> tuple[list[Floats2d], Callable[[list[Floats2d]], list[Doc]]]:
    """Return the vectors of the tokens of documents."""
    shim, attrs = cast(MSLMShim, model.shims[0]), model.attrs
    network = shim.network
    windows = WindowSettings(attrs["window"], attrs["context"], attrs["split_sentences"])
    rows = list(shared_rows(shim.wordpieces(docs), windows))
    batches = list(batch_rows(rows, BATCH_PIECES, shim.wordpieces, network.device.type))
    passes = [shim(batch, is_train) for batch in batches]
    read = [cast(torch.Tensor, outputs.shared) for outputs, _ in passes]
    vectors, unpool = pool_tokens(read, batches, [len(doc) for doc in docs], network)

    def backprop(gradients: list[Floats2d]) -> list[Doc]:
        if attrs["grad_factor"]:
            scaled = [gradient * attrs["grad_factor"] for gradient in gradients]
            for (_, backward), own in zip(passes, unpool(scaled), strict=True):
                backward(HeadOutputs(None, None, None, own))
        return []

    return vectors, backprop


def replace_listener(model: Model, listener: Model, pipe: Any) -> EncoderLayer:
    """Make an encoder layer of a copy of the model of an `mslm` pipe, for `nlp.replace_listeners`.

    Args:
        model: The copy.
        listener: The listener that is replaced.
        pipe: The `mslm` pipe.
    """
    attrs = {name: model.attrs[name] for name in SETTINGS}
    grad_factor = listener.attrs["grad_factor"]
    return _build(cast(MSLMShim, model.shims[0]), {**attrs, "grad_factor": grad_factor})


def replace_listener_cfg(model: dict[str, Any], listener: dict[str, Any]) -> dict[str, Any]:
    """Return the config of the layer that `replace_listener` makes.

    Args:
        model: The config of the model of the `mslm` pipe.
        listener: The config of the listener.
    """
    kept = (*SETTINGS, "mixed_precision", "gradient_checkpointing")
    return {
        "@architectures": "spacy_mslm.Encoder.v1",
        **{name: model[name] for name in kept if name in model},
        "grad_factor": listener.get("grad_factor", 1.0),
    }
