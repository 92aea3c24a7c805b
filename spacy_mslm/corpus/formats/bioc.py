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
from xml.etree.ElementTree import Element, TreeBuilder
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
LINE = "line"  # attribute that the parser adds: the line on which an element begins


class _Segment(NamedTuple):
    """The text of a passage or sentence, and its offset in the document."""

    offset: int
    text: str


def read_bioc(path: Path) -> Iterator[Document]:
    """Yield the documents of a collection."""
    return check_ids(_documents(path), path)


def _documents(path: Path) -> Iterator[Document]:
    parser = _Parser(path)
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        while True:
            try:
                chunk = file.read(CHUNK)
                parser.expat.Parse(chunk, not chunk)
            except (EOFError, gzip.BadGzipFile, zlib.error):
                line = parser.expat.CurrentLineNumber
                raise ValueError(Errors.M152.format(path=path, line=line)) from None
            except (expat.ExpatError, LookupError):  # the latter for an unknown encoding
                # Not chained: the cause may hold text.
                rule = "the XML ends too early, or is not well-formed or not UTF-8 here"
                raise format_error(path, parser.expat.ErrorLineNumber, rule) from None
            yield from parser.finished
            parser.finished.clear()
            if not chunk:
                return


class _Parser:
    """Builds the tree of each document, and appends the document to `finished` when it ends.

    expat is used directly, as ElementTree does not give the lines of elements. It opens no file
    that the XML refers to, not even its DTD.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.finished: list[Document] = []
        self.expat = expat.ParserCreate()
        self.expat.StartElementHandler = self.start
        self.expat.EndElementHandler = self.end
        self.expat.CharacterDataHandler = self.data
        self.depth = 0
        self.builder: TreeBuilder | None = None  # of the open document

    def start(self, name: str, attributes: dict[str, str]) -> None:
        is_inner = name in ("passage", "sentence", "annotation") and self.builder is None
        if is_inner or (not self.depth and name != "collection"):
            rule = "BioC is a <collection> of <document>s, with passages in them"
            raise format_error(self.path, self.expat.CurrentLineNumber, rule)
        self.depth += 1
        if name == "document":
            self.builder = TreeBuilder()
        if self.builder is not None:
            self.builder.start(name, {**attributes, LINE: str(self.expat.CurrentLineNumber)})

    def data(self, content: str) -> None:
        if self.builder is not None:
            self.builder.data(content)

    def end(self, name: str) -> None:
        self.depth -= 1
        if self.builder is None:
            return
        element = self.builder.end(name)
        if name == "document":
            self.builder = None
            id_ = element.findtext("id", "").strip()
            if not id_:
                rule = "a document has an <id>"
                raise format_error(self.path, self.expat.CurrentLineNumber, rule)
            self.finished.append(_make_document(id_, element, self.path))


def _make_document(name: str, document: Element, path: Path) -> Document:
    segments = _segments(document, path)
    text = "\n".join(segment.text for segment in segments)
    mentions: list[Mention] = []
    left_out: list[LeftOut] = []
    for annotation in document.iter("annotation"):
        line = int(annotation.attrib[LINE])
        infons = {infon.get("key"): infon.text or "" for infon in annotation.iterfind("infon")}
        label = infons.get("type", "").strip()
        parts = []
        for offset, length in _locations(annotation, path):
            start, last = _place(offset, segments), _place(offset + length - 1, segments)
            if not length or start is None or last is None:
                end, size = offset + length, len(text)
                raise ValueError(
                    Errors.M160.format(path=path, line=line, start=offset, end=end, length=size)
                )
            parts.append((start, last + 1))
            check_mention(Mention(start, last + 1, label), text, path=path, line=line)
        found = " ".join(text[start:end] for start, end in parts)
        check_surface(found, annotation.findtext("text", ""), path=path, line=line)
        if len(parts) == 1:
            mentions.append(Mention(*parts[0], label))
        else:
            end = max(end for _, end in parts)
            left_out.append(LeftOut(min(parts)[0], end, DISCONTINUOUS))
    return Document(name, text, mentions, int(document.attrib[LINE]), tuple(left_out))


def _segments(document: Element, path: Path) -> list[_Segment]:
    """Return the passages and sentences that have a text, in their order."""
    segments: list[_Segment] = []
    parents = (e for e in document.iter() if e.tag in ("passage", "sentence"))
    for parent in parents:
        for element in parent.iterfind("text"):
            offset = _number(parent.findtext("offset", "").strip())
            if offset is None:
                rule = "a passage or sentence with a text has an <offset>, a whole number"
                raise format_error(path, int(element.attrib[LINE]), rule)
            if segments and offset < segments[-1].offset + len(segments[-1].text):
                rule = "passages and sentences are in the order of offsets, and do not overlap"
                raise format_error(path, int(element.attrib[LINE]), rule)
            segments.append(_Segment(offset, "".join(element.itertext())))
    return segments


def _locations(annotation: Element, path: Path) -> Iterator[tuple[int, int]]:
    """Yield the offset and the length of each part of a mention."""
    rule = "a mention has a <location> with whole numbers as offset and length"
    elements = annotation.findall("location")
    if not elements:
        raise format_error(path, int(annotation.attrib[LINE]), rule)
    for element in elements:
        offset, length = _number(element.get("offset", "")), _number(element.get("length", ""))
        if offset is None or length is None:
            raise format_error(path, int(element.attrib[LINE]), rule)
        yield offset, length


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch("[0-9]{1,15}", text) else None


def _place(offset: int, segments: list[_Segment]) -> int | None:
    """Map an offset of the document to its place in the text; None if no text is there."""
    index = bisect_right(segments, offset, key=lambda segment: segment.offset) - 1
    if index < 0 or offset >= segments[index].offset + len(segments[index].text):
        return None
    before = sum(len(segment.text) + 1 for segment in segments[:index])
    return before + offset - segments[index].offset
