"""What the formats are read into, and the checks that they share."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from ...errors import Errors
from ...types import Mention

SPLITS = ("train", "dev", "test")
DISCONTINUOUS = "it is in several parts"


class LeftOut(NamedTuple):
    """A gold mention that `doc.ents` cannot hold, and why.

    start, end: Offsets in characters or tokens, as those of the mentions beside it; from the start
        of the first part to the end of the last if it has several.
    """

    start: int
    end: int
    reason: str


class InParts(NamedTuple):
    """A mention in several parts, such as "acute ... failure": the range of each part, in
    characters, and the label."""

    parts: tuple[tuple[int, int], ...]
    label: str


class Sentence(NamedTuple):
    """Tokens with their mentions. Offsets are in tokens; `line` is that of the first token.

    overlapping: Mentions that overlap those in `mentions`, which do not overlap each other.
    group: What belongs together, such as the document of a sentence; "" if that is not known.
    """

    id: str
    words: list[str]
    mentions: list[Mention]
    line: int
    left_out: tuple[LeftOut, ...] = ()
    overlapping: tuple[Mention, ...] = ()
    group: str = ""


class Document(NamedTuple):
    """A text with its mentions, which may overlap. Offsets are in characters; `line` is the line
    of the file on which the document begins.

    in_parts: Mentions in several parts.
    group: What belongs together, such as the patient of a note; "" if that is not known.
    """

    id: str
    text: str
    mentions: list[Mention]
    line: int
    in_parts: tuple[InParts, ...] = ()
    group: str = ""


def format_error(path: Path, line: int, rule: str) -> ValueError:
    """Return the error of a line that breaks a rule of its format, without the line's text."""
    return ValueError(
        f"{path}, line {line}: the file does not follow its format here: {rule}. It may be "
        "truncated or damaged: restore it, or correct the line."
    )


def check_mention(mention: Mention, text: str, *, path: Path, line: int) -> None:
    """Raise a ValueError if a mention is empty, reaches out of the text, or has no label."""
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
    """Raise a ValueError if a mention's text in the file differs from the text at its offsets.

    White space is not compared: formats write a line break inside a mention as a space.
    """
    if found.split() != given.split():
        raise ValueError(
            f"{path}, line {line}: the text of the mention differs from the text at its offsets. "
            "Either the annotation belongs to another text, or the line is truncated: restore "
            "both from their source."
        )


def check_ids(documents: Iterable[Document], path: Path) -> Iterator[Document]:
    """Pass on the documents of a file. Raises a ValueError if an id occurs twice, or if there is
    no document."""
    lines: dict[str, int] = {}
    for document in documents:
        name, line = document.id, document.line
        if name in lines:
            raise ValueError(Errors.M164.format(path=path, line=line, id=name, other=lines[name]))
        lines[name] = line
        yield document
    if not lines:
        raise ValueError(Errors.M158.format(path=path))
