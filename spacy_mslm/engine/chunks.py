"""Division of documents into chunks, each of which one worker processes and writes."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

# The characters after which a chunk is closed: seconds to a minute of work.
CHARACTERS = 250_000


class Text(Protocol):
    """What has a text: a note, a record of a file."""

    @property
    def text(self) -> str:
        """The text."""
        ...


TextT = TypeVar("TextT", bound=Text)


class Chunk(NamedTuple):
    """Consecutive documents, and the number of the chunk from 0."""

    number: int
    documents: list[Any]


# Processes a chunk, writes its files, and returns what is to be counted.
Work: TypeAlias = Callable[[Chunk], Any]
# Prepares the work in a process, for example loads a pipeline. It is sent to the process.
Start: TypeAlias = Callable[[], Work]


def divide(
    documents: Iterable[TextT], size: int, characters: int | None = CHARACTERS
) -> Iterator[Chunk]:
    """Yield chunks, which depend on nothing but the documents and these settings.

    Args:
        documents: The documents, in order.
        size: The maximum number of documents in a chunk.
        characters: The number of characters after which a chunk is closed; None for no limit.
    """
    number = length = 0
    chunk: list[TextT] = []
    for document in documents:
        chunk.append(document)
        length += len(document.text)
        if len(chunk) >= size or (characters is not None and length >= characters):
            yield Chunk(number, chunk)
            number, length, chunk = number + 1, 0, []
    if chunk:
        yield Chunk(number, chunk)
