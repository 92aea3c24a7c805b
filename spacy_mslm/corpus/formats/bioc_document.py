"""A document of BioC, from XML or JSON: passages with offsets, and mentions that refer to these.

The text is the passages with one line break between them, whatever the gap in their offsets. With
the usual gaps of one character, offsets in the text are those of the file.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from ...errors import Errors
from ...types import Mention
from .records import Document, InParts, check_mention, check_surface, format_error

OFFSET_RULE = "a passage or sentence with a text has an <offset>, a whole number"
LOCATION_RULE = "a mention has a <location> with whole numbers as offset and length"


class Segment(NamedTuple):
    """The text of a passage or sentence, its offset in the document and its line in the file."""

    offset: int
    text: str
    line: int


class Annotation(NamedTuple):
    """A mention: its label, the offset and length of each part, its text and its line."""

    label: str
    locations: list[tuple[int, int]]
    text: str
    line: int


def place_mentions(
    name: str, segments: Sequence[Segment], annotations: Iterable[Annotation], path: Path, line: int
) -> Document:
    """Join the segments to the text of a document, and map its mentions to it."""
    _check_order(segments, path)
    text = "\n".join(segment.text for segment in segments)
    mentions: list[Mention] = []
    in_parts: list[InParts] = []
    for label, locations, surface, place in annotations:
        if not locations:
            raise format_error(path, place, LOCATION_RULE)
        parts = []
        for offset, length in locations:
            start, last = _place(offset, segments), _place(offset + length - 1, segments)
            if not length or start is None or last is None:
                end, size = offset + length, len(text)
                raise ValueError(
                    Errors.M160.format(path=path, line=place, start=offset, end=end, length=size)
                )
            parts.append((start, last + 1))
            check_mention(Mention(start, last + 1, label), text, path=path, line=place)
        found = " ".join(text[start:end] for start, end in parts)
        check_surface(found, surface, path=path, line=place)
        if len(parts) == 1:
            mentions.append(Mention(*parts[0], label))
        else:
            in_parts.append(InParts(tuple(parts), label))
    return Document(name, text, mentions, line, tuple(in_parts))


def _check_order(segments: Sequence[Segment], path: Path) -> None:
    end = 0
    for segment in segments:
        if segment.offset < end:
            rule = "passages and sentences are in the order of offsets, and do not overlap"
            raise format_error(path, segment.line, rule)
        end = segment.offset + len(segment.text)


def _place(offset: int, segments: Sequence[Segment]) -> int | None:
    """Map an offset of the document to its place in the text; None if no text is there."""
    index = bisect_right(segments, offset, key=lambda segment: segment.offset) - 1
    if index < 0 or offset >= segments[index].offset + len(segments[index].text):
        return None
    before = sum(len(segment.text) + 1 for segment in segments[:index])
    return before + offset - segments[index].offset
