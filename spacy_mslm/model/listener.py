"""`spacy_mslm.Listener.v1`: the token vectors of an `mslm` pipe, as a layer of other components.

    mslm.update ── receive(docs, vectors, answer) ──> listener ── vectors ──> textcat, spancat, ...
         ^                                                                        |
         └────────────────────────── answer(places, gradients) <──────────────────┘

In prediction, and in training with a frozen `mslm`, the vectors come from the documents:
`doc._.mslm_vectors[name of the mslm pipe]`.
"""

from collections.abc import Callable, Sequence
from typing import Any, cast

from spacy.tokens import Doc
from thinc.api import Model
from thinc.types import Floats2d

from ..util.extensions import token_vectors
from ..util.settings import check_at_least

# Takes the indices of documents in the update and the gradients of their vectors.
Answer = Callable[[Sequence[int], Sequence[Floats2d]], None]


class Listener(Model[list[Doc], list[Floats2d]]):
    """Gives a component the vectors that an `mslm` pipe has computed.

    Args:
        upstream: The name of the `mslm` pipe, or "*" for the nearest one before the component.
        grad_factor: The factor of the gradient that goes back to the encoder.
    """

    def __init__(self, upstream: str, grad_factor: float) -> None:
        super().__init__(
            "mslm-listener",
            forward,
            init=init,
            dims={"nO": None},
            # The size of the vectors with which the component was initialized.
            attrs={"grad_factor": grad_factor, "width": None},
        )
        self.upstream_name = upstream
        # The pipe that the listener reads, which differs from the above if that is "*".
        self.linked_name: str | None = None
        # Components read documents without vectors when they are initialized, to learn the sizes.
        self.initializing = False
        self._places: dict[Doc, int] = {}
        self._vectors: list[Floats2d] = []
        self._open_read: Callable[[], Answer] | None = None

    def receive(
        self, docs: Sequence[Doc], vectors: Sequence[Floats2d], open_read: Callable[[], Answer]
    ) -> None:
        """Take the vectors of the documents of an update.

        Args:
            docs: The documents.
            vectors: (tokens, hidden) The vectors of each.
            open_read: Is called for each time that the component reads, and returns the function
                that takes the gradients.
        """
        self._places = {doc: i for i, doc in enumerate(docs)}
        self._vectors = list(vectors)
        self._open_read = open_read

    def release(self) -> None:
        """Forget the documents of an update."""
        self._places, self._vectors, self._open_read = {}, [], None

    def read(
        self, docs: Sequence[Doc]
    ) -> tuple[list[Floats2d], Callable[[list[Floats2d]], list[Doc]]] | None:
        """Return the vectors of documents of the update and their callback.

        None if some documents are not those of the update: the `mslm` pipe is frozen.
        """
        if self._open_read is None or not all(doc in self._places for doc in docs):
            return None
        places = [self._places[doc] for doc in docs]
        answer = self._open_read()
        factor = self.attrs["grad_factor"]

        def backprop(gradients: list[Floats2d]) -> list[Doc]:
            answer(places, [gradient * factor for gradient in gradients])
            return []

        return [self._vectors[place] for place in places], backprop


def build_listener_v1(upstream: str = "*", grad_factor: float = 1.0) -> Listener:
    """`spacy_mslm.Listener.v1`: connects a component to the encoder of the `mslm` pipe before it.

    It takes the place of a `tok2vec` layer. The component and the `mslm` pipe are trained together:
    the encoder learns from the sum of their gradients. A token's vector is the mean of those of its
    pieces.

    Args:
        upstream: The name of the `mslm` pipe, or "*" for the nearest one before the component.
        grad_factor: The factor of the component's gradient in the update of the encoder. With 0,
            the encoder learns from the `mslm` pipe only.

    Returns:
        The layer: documents -> (tokens, hidden) vectors of each.
    """
    check_at_least("tok2vec.grad_factor", grad_factor, 0)
    return Listener(upstream, grad_factor)


def init(model: Model, X: Any = None, Y: Any = None) -> None:
    """Note that the component will be initialized with documents without vectors.

    Raises:
        ValueError: If no pipe with an encoder is linked.
    """
    assert isinstance(model, Listener)
    if not model.has_dim("nO"):
        raise ValueError(
            f"A spacy_mslm.Listener.v1 found no mslm pipe with an encoder, upstream = "
            f"{model.upstream_name!r}. Put the mslm pipe before the component that listens, and "
            "check the name."
        )
    model.attrs["width"] = model.get_dim("nO")
    model.initializing = True


def forward(
    model: Listener, docs: list[Doc], is_train: bool
) -> tuple[list[Floats2d], Callable[[list[Floats2d]], list[Doc]]]:
    """Return the vectors of documents, from the update or else from the documents.

    Raises:
        ValueError: If a document has no vectors, or the component was trained with an encoder that
            has vectors of another size.
    """
    width = model.get_dim("nO")
    if model.attrs["width"] not in (None, width):
        raise ValueError(
            f"A component was trained with vectors of size {model.attrs['width']}, but the encoder "
            f"of {model.linked_name!r} has vectors of size {width}. Train the component again, or "
            "use the encoder that it was trained with."
        )
    received = model.read(docs) if is_train else None
    if received is not None:
        model.initializing = False
        return received
    found = [token_vectors(doc, model.linked_name) for doc in docs]
    missing = any(own is None and len(doc) for own, doc in zip(found, docs, strict=True))
    if missing and (is_train or not model.initializing):
        name = model.linked_name or model.upstream_name
        remedy = (
            f"If {name!r} is frozen, add it to training.annotating_components."
            if is_train
            else f"Do not disable {name!r}, and let it read the document first."
        )
        raise ValueError(
            f"A component reads the encoder of the pipe {name!r}, but a document has no vectors "
            f"of it. {remedy}"
        )
    model.initializing &= missing
    vectors = [
        model.ops.alloc2f(len(doc), width)
        if own is None
        else model.ops.asarray2f(cast(Floats2d, own))
        for own, doc in zip(found, docs, strict=True)
    ]
    return vectors, lambda gradients: []
