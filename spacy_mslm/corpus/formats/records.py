"""What the formats are read into, and what must hold for each mention."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from ...errors import Errors
from ..label_schemes import Mention


class LeftOut(NamedTuple):
    """A gold mention that `doc.ents` cannot hold: offsets (exclusive end), from the first to the
    last of its parts where it has several, and why."""

    start: int
    end: int
    reason: str


class Sentence(NamedTuple):
    """Tokens with mentions as token offsets; line is that of the first token. `left_out` has token
    offsets, too."""

    id: str
    words: list[str]
    mentions: list[Mention]
    line: int
    left_out: tuple[LeftOut, ...] = ()


class Document(NamedTuple):
    """A text with mentions as character offsets, which may overlap; line is where it begins."""

    id: str
    text: str
    mentions: list[Mention]
    line: int
    left_out: tuple[LeftOut, ...] = ()


DISCONTINUOUS = "it is in several parts"


def check_mention(mention: Mention, text: str, *, path: Path, line: int) -> None:
    """Refuse a mention without characters, beyond the text, or without a label."""
    start, end, label = mention
    if not 0 <= start < end <= len(text):
        raise ValueError(
            Errors.M160.format(path=path, line=line, start=start, end=end, length=len(text))
        )
    if not label.strip():
        raise ValueError(
            f"{path}, line {line}: the mention's label is empty. Give every mention a label."
        )


def check_surface(found: str, given: str, *, path: Path, line: int) -> None:
    """Refuse a mention whose text in the file is not what its offsets hold, white space aside:
    formats write a line break inside a mention as a space."""
    if found.split() != given.split():
        raise ValueError(
            f"{path}, line {line}: the text of the mention is not what stands at its offsets. "
            "The annotation and the text do not belong together, or the line is cut off: "
            "restore both from their source."
        )


def check_ids(documents: Iterable[Document], path: Path) -> Iterator[Document]:
    """The documents of a file; an id that is there twice, and a file without any, is refused."""
    lines: dict[str, int] = {}
    for document in documents:
        name, line = document.id, document.line
        if name in lines:
            raise ValueError(Errors.M164.format(path=path, line=line, id=name, other=lines[name]))
        lines[name] = line
        yield document
    if not lines:
        raise ValueError(Errors.M158.format(path=path))
