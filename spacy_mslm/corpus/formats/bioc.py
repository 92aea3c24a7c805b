"""BioC XML: documents of passages (or sentences), with mentions at offsets in the document.

    <collection><document><id>8701013</id>
      <passage><offset>32</offset><text>Famotidine is a histamine H2-receptor antagonist.</text>
        <annotation id="1"><infon key="type">Chemical</infon>
          <location offset="32" length="10"/><text>Famotidine</text></annotation>
      </passage></document></collection>

The text is the passages with one line break between them, whatever the gap in their offsets. With
the usual gaps of one character, offsets in the text are those of the file.
"""

import gzip
import re
import zlib
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from xml.parsers import expat

from ...errors import Errors
from ...types import Mention
from .records import (
    DISCONTINUOUS,
    Document,
    LeftOut,
    check_ids,
    check_mention,
    check_surface,
    format_error,
)

CHUNK = 1 << 16
_LOCATION = "a mention has a <location> with whole numbers as offset and length"


class _Annotation(NamedTuple):
    locations: list[tuple[int, int]]  # offset, length
    label: str
    surface: str
    line: int


class _Segment(NamedTuple):
    """The text of a passage or sentence, and its offset in the document."""

    offset: int
    text: str


def read_bioc(path: Path) -> Iterator[Document]:
    """Yield the documents of a collection."""
    return check_ids(_documents(path), path)


def _documents(path: Path) -> Iterator[Document]:
    collector = _Collector(path)
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        while True:
            try:
                chunk = file.read(CHUNK)
                collector.parser.Parse(chunk, not chunk)
            except (EOFError, gzip.BadGzipFile, zlib.error):
                line = collector.parser.CurrentLineNumber
                raise ValueError(Errors.M152.format(path=path, line=line)) from None
            except expat.ExpatError as err:
                # Not chained: the cause may hold text.
                rule = "the XML ends too early, or is not well-formed or not UTF-8 here"
                raise format_error(path, err.lineno, rule) from None
            yield from collector.finished
            collector.finished.clear()
            if not chunk:
                return


class _Collector:
    """Handler of expat's events. Collects the parts of a document, and appends it to `finished`
    when it ends. expat opens no file that the XML refers to, not even its DTD."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.finished: list[Document] = []
        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.characters
        self.stack: list[str] = []
        self.characters_read: list[str] = []
        self.infon = ""

    def error(self, rule: str) -> ValueError:
        return format_error(self.path, self.parser.CurrentLineNumber, rule)

    def start(self, name: str, attributes: dict[str, str]) -> None:
        is_inner = name in ("passage", "sentence", "annotation")
        if (not self.stack and name != "collection") or (is_inner and "document" not in self.stack):
            raise self.error("BioC is a <collection> of <document>s, with passages in them")
        self.stack.append(name)
        self.characters_read = []
        if name == "document":
            self.id = ""
            self.line = self.parser.CurrentLineNumber
            self.segments: list[_Segment] = []
            self.annotations: list[_Annotation] = []
        elif name in ("passage", "sentence"):
            self.offset: int | None = None
        elif name == "annotation":
            self.locations: list[tuple[int, int]] = []
            self.label = self.surface = ""
            self.annotation_line = self.parser.CurrentLineNumber
        elif name == "location" and self.stack[-2] == "annotation":
            numbers = attributes.get("offset", ""), attributes.get("length", "")
            if not all(re.fullmatch("[0-9]{1,15}", number) for number in numbers):
                raise self.error(_LOCATION)
            self.locations.append((int(numbers[0]), int(numbers[1])))
        elif name == "infon":
            self.infon = attributes.get("key", "")

    def characters(self, content: str) -> None:
        self.characters_read.append(content)

    def end(self, name: str) -> None:
        self.stack.pop()
        parent = self.stack[-1] if self.stack else ""
        text = "".join(self.characters_read)
        if name == "text" and parent in ("passage", "sentence"):
            self.add_segment(text)
        elif name == "offset" and parent in ("passage", "sentence"):
            self.offset = int(text) if re.fullmatch(r"\s*[0-9]{1,15}\s*", text) else None
        elif parent == "annotation" and name == "text":
            self.surface = text
        elif parent == "annotation" and name == "infon" and self.infon == "type":
            self.label = text.strip()
        elif name == "annotation":
            if not self.locations:
                raise self.error(_LOCATION)
            self.annotations.append(
                _Annotation(self.locations, self.label, self.surface, self.annotation_line)
            )
        elif name == "id" and parent == "document":
            self.id = text.strip()
        elif name == "document":
            if not self.id:
                raise self.error("a document has an <id>")
            self.finished.append(
                _make_document(self.id, self.line, self.segments, self.annotations, self.path)
            )

    def add_segment(self, text: str) -> None:
        if self.offset is None:
            raise self.error("a passage or sentence with a text has an <offset>, a whole number")
        if self.segments:
            offset, before = self.segments[-1]
            if self.offset < offset + len(before):
                raise self.error(
                    "passages and sentences come in the order of their offsets, and do not overlap"
                )
        self.segments.append(_Segment(self.offset, text))


def _make_document(
    name: str, line: int, segments: list[_Segment], annotations: list[_Annotation], path: Path
) -> Document:
    text = "\n".join(segment.text for segment in segments)
    mentions: list[Mention] = []
    left_out: list[LeftOut] = []
    for annotation in annotations:
        parts = []
        for offset, length in annotation.locations:
            start, last = _place(offset, segments), _place(offset + length - 1, segments)
            if not length or start is None or last is None:
                end = offset + length
                raise ValueError(
                    Errors.M160.format(
                        path=path, line=annotation.line, start=offset, end=end, length=len(text)
                    )
                )
            parts.append((start, last + 1))
            check_mention(
                Mention(*parts[-1], annotation.label), text, path=path, line=annotation.line
            )
        found = " ".join(text[start:end] for start, end in parts)
        check_surface(found, annotation.surface, path=path, line=annotation.line)
        if len(parts) == 1:
            mentions.append(Mention(*parts[0], annotation.label))
        else:
            end = max(end for _, end in parts)
            left_out.append(LeftOut(min(parts)[0], end, DISCONTINUOUS))
    return Document(name, text, mentions, line, tuple(left_out))


def _place(offset: int, segments: list[_Segment]) -> int | None:
    """Map an offset of the document to its place in the text; None if no text is there."""
    index = bisect_right(segments, offset, key=lambda segment: segment.offset) - 1
    if index < 0 or offset >= segments[index].offset + len(segments[index].text):
        return None
    before = sum(len(segment.text) + 1 for segment in segments[:index])
    return before + offset - segments[index].offset
