"""`spacy_mslm.MSLM.v1` and `.v2`: the network as a thinc model."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from spacy.tokens import Doc
from thinc.api import Model

from ..errors import Errors
from ..pieces.collate import pad_rows
from ..pieces.windows import WindowSettings
from ..types import MISSING, UNMASKED, PaddedBatch, Row
from ..util.settings import check_at_least
from .checkpoints import load_checkpoint
from .encoder_layer import replace_listener, replace_listener_cfg
from .network import HeadOutputs, MSLMNetwork
from .shim import MSLMShim

MSLMModel = Model[PaddedBatch, HeadOutputs]


def build_mslm_v1(
    encoder: str,
    *,
    window: int = 256,
    context: int = 32,
    split_sentences: bool = True,
    detection_size: int = 100,
    classification_size: int = 100,
    mixed_precision: bool = False,
    gradient_checkpointing: bool = False,
) -> MSLMModel:
    """`spacy_mslm.MSLM.v1`: builds the model of the `mslm` pipe.

    The checkpoint is read at initialization. A saved pipeline contains its encoder and does not
    need the checkpoint.

    Args:
        encoder: A Hugging Face checkpoint: hub name or local folder.
        window: The maximum number of text pieces that go through the encoder at once. It is limited
            by the position embeddings of the encoder, less its special pieces.
        context: The minimum number of pieces on either side of a predicted piece, except at an
            edge.
        split_sentences: Whether windows end at sentence boundaries (those of the Doc, or else found
            by rules) or run across the whole document. Use a model as it was trained.
        detection_size: k, the size of the trainable vector W_ed (eq. 7).
        classification_size: d, the size of the trainable vector W_ec (eq. 10).
        mixed_precision: Compute in half precision on a GPU.
        gradient_checkpointing: Recompute the layers in the backward pass instead of storing their
            activations. Training needs less memory and takes a third more time.

    Returns:
        The model, without weights.
    """
    shim = MSLMShim(mixed_precision, gradient_checkpointing)
    return _build(
        shim,
        encoder=encoder,
        window=window,
        context=context,
        split_sentences=split_sentences,
        detection_size=detection_size,
        classification_size=classification_size,
    )


def build_mslm_v2(
    encoder: str,
    *,
    window: int = 256,
    context: int = 32,
    split_sentences: bool = True,
    detection_size: int = 100,
    mixed_precision: bool = False,
    gradient_checkpointing: bool = False,
) -> MSLMModel:
    """`spacy_mslm.MSLM.v2`: builds a model that tags each entity type separately.

    The detection head makes a BIO decision for each type. So the model can learn from corpora that
    annotate only some of the types (`spacy_mslm.PartialCorpus.v1`), and mentions of different types
    may overlap. There is no classification head: the loss L_EL is always 0 and its weight has no
    effect. All else is as in `spacy_mslm.MSLM.v1`.

    Args:
        encoder: A Hugging Face checkpoint: hub name or local folder.
        window: The maximum number of text pieces that go through the encoder at once.
        context: The minimum number of pieces on either side of a predicted piece, except at an
            edge.
        split_sentences: Whether windows end at sentence boundaries or run across the whole
            document. Use a model as it was trained.
        detection_size: k, the size of the trainable vector W_ed (eq. 7).
        mixed_precision: Compute in half precision on a GPU.
        gradient_checkpointing: Recompute the layers in the backward pass instead of storing their
            activations.

    Returns:
        The model, without weights.
    """
    shim = MSLMShim(mixed_precision, gradient_checkpointing)
    return _build(
        shim,
        encoder=encoder,
        window=window,
        context=context,
        split_sentences=split_sentences,
        detection_size=detection_size,
        classification_size=None,
    )


def _build(shim: MSLMShim, **attrs: Any) -> MSLMModel:
    check_at_least("model.context", attrs["context"], 0)
    check_at_least("model.window", attrs["window"], 1)
    for name in ("detection_size", "classification_size"):
        if attrs[name] is not None:
            check_at_least(f"model.{name}", attrs[name], 1)
    if attrs["window"] <= 2 * attrs["context"]:
        raise ValueError(Errors.M001.format(size=attrs["window"], context=attrs["context"]))
    return Model(
        "mslm",
        forward,
        init=init,
        dims={"nO": None},
        attrs={
            **attrs,
            "dropout_rate": 0.0,
            "resize_output": resize,
            # What spaCy calls in nlp.replace_listeners.
            "replace_listener": replace_listener,
            "replace_listener_cfg": replace_listener_cfg,
        },
        shims=[shim],
    )


def is_typed(model: MSLMModel) -> bool:
    """Return whether a model tags each entity type separately."""
    return model.attrs["classification_size"] is None


def shim_of(model: MSLMModel) -> MSLMShim:
    """Return the shim that holds the network and the wordpieces of a model."""
    return cast(MSLMShim, model.shims[0])


def window_settings(model: MSLMModel) -> WindowSettings:
    """Return how the documents that a model reads are divided into windows."""
    attrs = model.attrs
    return WindowSettings(attrs["window"], attrs["context"], attrs["split_sentences"])


def blank_copy(model: MSLMModel) -> MSLMModel:
    """Return a model with the same settings and no weights."""
    return Model(
        model.name,
        forward,
        init=init,
        dims={"nO": None},
        attrs=dict(model.attrs),
        shims=[shim_of(model).blank_copy()],
    )


def forward(
    model: MSLMModel, batch: PaddedBatch | Sequence[Doc], is_train: bool
) -> tuple[HeadOutputs, Callable[[HeadOutputs], None]]:
    """Run the network through the shim.

    Args:
        model: The model.
        batch: Windows; or documents, as `spacy debug model` gives them, all tokens of which are
            tagged.
        is_train: Whether gradients are computed.
    """
    if not isinstance(batch, PaddedBatch):
        batch = _tag_all(model, batch)
    return shim_of(model)(batch, is_train, dropout=model.attrs["dropout_rate"])


def _tag_all(model: MSLMModel, docs: Sequence[Doc]) -> PaddedBatch:
    """Return the windows of documents, without gold annotation."""
    wordpieces = shim_of(model).wordpieces
    rows = []
    for pieces in wordpieces(list(docs)):
        firsts = pieces.starts[pieces.tagged]
        for window in window_settings(model).cover(pieces):
            at = firsts[(firsts >= window.own_start) & (firsts < window.own_end)] - window.start
            kinds = np.full(window.end - window.start, UNMASKED, dtype=np.int8)
            tags = np.full(len(at), MISSING)
            rows.append(Row(pieces.ids[window.start : window.end], kinds, at, tags))
    return pad_rows([rows], wordpieces)


def init(model: MSLMModel, X: Any = None, Y: Any = None) -> None:
    """Load the encoder in the settings of the model."""
    set_encoder(model, model.attrs["encoder"])


def set_encoder(model: MSLMModel, encoder: str) -> None:
    """Load a checkpoint into a model and add new entity heads for `nO` types.

    Raises:
        ValueError: If the checkpoint cannot be loaded, or is too small for the window of the model.
    """
    attrs = model.attrs
    lm, wordpieces = load_checkpoint(encoder)
    if attrs["window"] > wordpieces.room:
        raise ValueError(
            f"A window of {attrs['window']} pieces is too large for the encoder {encoder!r}, "
            f"which takes {wordpieces.room}. Set components.mslm.model.window to "
            f"{wordpieces.room} or less."
        )
    types = model.get_dim("nO")
    network = MSLMNetwork(lm, attrs["detection_size"], attrs["classification_size"], types)
    shim_of(model).set(network, wordpieces)


def resize(model: MSLMModel, nO: int) -> MSLMModel:
    """Add outputs for more entity types to the head that tells types apart."""
    model.set_dim("nO", nO, force=True)
    shim = shim_of(model)
    if shim.is_loaded:
        shim.network.resize(nO)
    return model
