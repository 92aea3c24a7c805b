"""One pass through the encoder in an update, from which several components learn.

    forward      rows ──> vectors ──┬──> entity heads ── gradient held ──┐
                                    ├──> textcat ─────── answer ─────────┤
                                    └──> spancat ─────── answer ─────────┤
    backward                                  sum of the gradients <─────┘

The backward pass runs when every listener has answered, or else when the update is closed: a
component that finds no annotation in a batch does not read at all.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, cast

import torch
from spacy.tokens import Doc
from thinc.types import Floats2d

from ..model.listener import Answer, Listener
from ..model.network import HeadOutputs, MSLMNetwork
from ..model.token_vectors import pool_tokens
from ..types import PaddedBatch


class Held(NamedTuple):
    """A padded batch whose backward pass waits."""

    batch: PaddedBatch
    outputs: HeadOutputs
    gradients: HeadOutputs
    backprop: Callable[[HeadOutputs], object]


class SharedPass:
    """The pass of an update.

    Args:
        listeners: The listeners of other components.
        network: The network.
    """

    def __init__(self, listeners: Sequence[Listener], network: MSLMNetwork) -> None:
        self.listeners = listeners
        self.network = network
        self.was_read = False
        self._held: list[Held] = []
        self._waiting: set[int] = {id(listener) for listener in listeners}
        self._open = 0  # reads that were not answered yet
        self._sums: list[Floats2d] | None = None
        self._unpool: Callable[[Sequence[Floats2d]], list[torch.Tensor]] | None = None
        self._then: Callable[[], None] | None = None

    def hold(
        self,
        batch: PaddedBatch,
        outputs: HeadOutputs,
        gradients: HeadOutputs,
        backprop: Callable[[HeadOutputs], object],
    ) -> None:
        """Keep a padded batch for the backward pass.

        Args:
            batch: The batch.
            outputs: Its outputs.
            gradients: The gradients of the entity heads.
            backprop: Runs the backward pass.
        """
        self._held.append(Held(batch, outputs, gradients, backprop))

    def send(self, docs: Sequence[Doc]) -> None:
        """Give the listeners the vectors of the documents of the update."""
        sharing = self._sharing()
        vectors, self._unpool = pool_tokens(
            [cast(torch.Tensor, held.outputs.shared) for held in sharing],
            [held.batch for held in sharing],
            [len(doc) for doc in docs],
            self.network,
        )
        for listener in self.listeners:
            listener.receive(docs, vectors, partial(self._open_read, listener))
        self._sums = [vector * 0 for vector in vectors]

    def after(self, action: Callable[[], None]) -> None:
        """Do something after the backward pass."""
        self._then = action

    def close(self) -> None:
        """Run the backward pass with the gradients so far, unless it has run."""
        shared = {}
        if self.was_read and self._unpool is not None and self._sums is not None:
            gradients = self._unpool(self._sums)
            shared = dict(zip(map(id, self._sharing()), gradients, strict=True))
        held, self._held = self._held, []
        for each in held:
            each.backprop(each.gradients._replace(shared=shared.get(id(each))))
        for listener in self.listeners:
            listener.release()
        self._unpool = self._sums = None
        then, self._then = self._then, None
        if then is not None:
            then()

    def _sharing(self) -> list[Held]:
        return [held for held in self._held if held.outputs.shared is not None]

    def _open_read(self, listener: Listener) -> Answer:
        self.was_read = True
        self._waiting.discard(id(listener))
        self._open += 1
        return self._answer

    def _answer(self, places: Sequence[int], gradients: Sequence[Floats2d]) -> None:
        if self._sums is None:
            raise ValueError(
                "A component has returned the gradient of an update after the next one began. "
                "Update each component once per batch."
            )
        for place, gradient in zip(places, gradients, strict=True):
            self._sums[place] += gradient
        self._open -= 1
        if not self._waiting and not self._open:
            self.close()
