"""The batches of a training, as spaCy draws them, from any position.

A reader and a batcher of spaCy are generators, which cannot be stored. They are deterministic for a
state of Python's random numbers, so the stream is repeated from the start with the states that it
had when the corpus was read and when each epoch began. Nothing is learned from the batches that are
repeated.
"""

import hashlib
import random
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import torch
from spacy.errors import Errors as SpacyErrors
from spacy.language import Language
from spacy.training import Example

from .state import python_state, set_python_state

Batch = list[Example]


class Batches:
    """The batches of all epochs, in spaCy's order: the examples are shuffled before each epoch.

    Args:
        nlp: The pipeline.
        corpus: The reader.
        batcher: Groups examples.
        max_epochs: The number of epochs, 0 for no limit, or -1 to read the corpus again in each
            epoch, without shuffling.
        starts: (n, 626) The states of Python's random numbers at the starts of a stream that is
            repeated. None for a new stream.
    """

    def __init__(
        self,
        nlp: Language,
        corpus: Callable[[Language], Iterable[Example]],
        batcher: Callable[[Iterable[Example]], Iterable[Batch]],
        max_epochs: int,
        starts: torch.Tensor | None = None,
    ) -> None:
        self._nlp = nlp
        self._corpus = corpus
        self._batcher = batcher
        self._max_epochs = max_epochs
        self._known = list([] if starts is None else starts)
        self._starts: list[torch.Tensor] = []
        self._digest = hashlib.blake2b(digest_size=16)

    @property
    def starts(self) -> torch.Tensor:
        """The states of Python's random numbers at the starts of the stream so far."""
        return torch.stack(self._starts)

    @property
    def digest(self) -> str:
        """A digest of the texts of all batches so far."""
        return self._digest.hexdigest()

    def __iter__(self) -> Iterator[tuple[int, Batch]]:
        """Yield the number of the epoch and the batch."""
        epoch = 0
        examples: list[Example] = []
        if self._max_epochs >= 0:
            self._start()
            examples = list(self._corpus(self._nlp))
            if not examples:
                raise ValueError(SpacyErrors.E986)
        while self._max_epochs < 1 or epoch != self._max_epochs:
            self._start()
            if self._max_epochs >= 0:
                random.shuffle(examples)
                batches = self._batcher(examples)
            else:
                batches = self._batcher(self._corpus(self._nlp))
            for batch in batches:
                batch = list(batch)
                for example in batch:
                    self._digest.update(example.reference.text.encode("utf8", "surrogatepass"))
                self._digest.update(b"\0")
                yield epoch, batch
            epoch += 1

    def _start(self) -> None:
        if len(self._starts) < len(self._known):
            set_python_state(self._known[len(self._starts)])
        self._starts.append(python_state())


def skip(batches: Batches, steps: int, digest: str) -> Iterator[tuple[int, Batch]]:
    """Return the stream after a number of batches.

    Args:
        batches: The stream.
        steps: The number of batches to skip.
        digest: The digest that the stream has to have then.

    Raises:
        ValueError: If the stream has other batches than before.
    """
    stream = iter(batches)
    for _ in islice(stream, steps):
        pass
    if batches.digest != digest:
        raise ValueError(
            "The training set cannot be read in the same order as before, so the training cannot "
            "continue exactly. The reader or the batcher draws random numbers while batches are "
            "read, or reads something that has changed. Start over in another --output, or use a "
            "reader that is the same each time."
        )
    return stream
