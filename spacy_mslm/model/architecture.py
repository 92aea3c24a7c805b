"""`spacy_mslm.MSLM.v1`: the network as a thinc model, and what a pipe does with it."""

from collections.abc import Callable
from typing import Any, cast

from thinc.api import Model

from ..errors import Errors
from ..pieces.windows import cover
from ..types import PaddedBatch, Pieces, Window
from .checkpoints import load_checkpoint
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
    """`spacy_mslm.MSLM.v1`. The checkpoint is read at initialisation; a saved pipeline brings its
    own encoder and never asks for it again.

    encoder: a Hugging Face checkpoint, hub name or local folder.
    window: the most pieces of text that go through the encoder at once (at most what the
        encoder has positions for, less its special pieces).
    context: the fewest pieces seen on either side of a predicted one, but at an edge.
    split_sentences: whether windows end at sentences (the Doc's own, else by rule); otherwise they
        run across the whole document. A model should be used as it was trained.
    detection_size, classification_size: k and d, the sizes of the trainable vectors W_ed (eq. 7)
        and W_ec (eq. 10).
    mixed_precision: half precision, on a GPU.
    gradient_checkpointing: in training, compute the layers again on the way back instead of keeping
        what they need for it: less memory, a third more time.
    """
    if window <= 2 * context:
        raise ValueError(Errors.M001.format(size=window, context=context))
    return Model(
        "mslm",
        forward,
        init=init,
        dims={"nO": None},
        attrs={
            "encoder": encoder,
            "window": window,
            "context": context,
            "split_sentences": split_sentences,
            "detection_size": detection_size,
            "classification_size": classification_size,
            "dropout_rate": 0.0,
            "resize_output": resize,
        },
        shims=[MSLMShim(mixed_precision, gradient_checkpointing)],
    )


def shim_of(model: MSLMModel) -> MSLMShim:
    return cast(MSLMShim, model.shims[0])


def forward(
    model: MSLMModel, batch: PaddedBatch, is_train: bool
) -> tuple[HeadOutputs, Callable[[HeadOutputs], None]]:
    return shim_of(model)(batch, is_train, dropout=model.attrs["dropout_rate"])


def init(model: MSLMModel, X: Any = None, Y: Any = None) -> None:
    load_encoder(model, model.attrs["encoder"])


def load_encoder(model: MSLMModel, encoder: str) -> None:
    """Load a checkpoint and put fresh heads on it; `nO` is the number of entity types."""
    attrs = model.attrs
    lm, wordpieces = load_checkpoint(encoder)
    if attrs["window"] > wordpieces.room:
        raise ValueError(
            f"A window of {attrs['window']} pieces does not fit the encoder {encoder!r}, "
            f"which takes {wordpieces.room}. Set components.mslm.model.window to "
            f"{wordpieces.room} or less."
        )
    types = model.get_dim("nO")
    network = MSLMNetwork(lm, attrs["detection_size"], attrs["classification_size"], types)
    shim_of(model).set(network, wordpieces)


def document_windows(model: MSLMModel, pieces: Pieces) -> list[Window]:
    """The windows in which a document goes through the encoder, in training and after."""
    attrs = model.attrs
    return cover(pieces, attrs["window"], attrs["context"], attrs["split_sentences"])


def resize(model: MSLMModel, nO: int) -> MSLMModel:
    """Make room for more entity types."""
    model.set_dim("nO", nO, force=True)
    shim = shim_of(model)
    if shim.is_loaded:
        shim.network.classification.resize(nO)
    return model
