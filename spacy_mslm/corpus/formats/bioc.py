"""BioC XML: documents of passages (or sentences), with mentions at offsets in the document.

    <collection><document><id>8701013</id>
      <passage><offset>32</offset><text>Famotidine is a histamine H2-receptor antagonist.</text>
        <annotation id="1"><infon key="type">Chemical</infon>
          <location offset="32" length="10"/><text>Famotidine</text></annotation>
      </passage></document></collection>

`bioc_document` says how the text is put together.
"""

import gzip
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from ...errors import Errors
from .bioc_document import LOCATION_RULE, OFFSET_RULE, Annotation, Segment, place_mentions
from .records import Document, check_ids, format_error

CHUNK = 1 << 16
LINE = "line"  # attribute that the parser adds: the line on which an element begins


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
        self.expat.EntityDeclHandler = self.refuse_entity
        self.expat.SkippedEntityHandler = self.refuse_entity
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

    def refuse_entity(self, *declaration: object) -> None:
        """Entities are in other files, or expand to more than the file holds."""
        rule = "BioC has no entities of its own (<!ENTITY>, &name;)"
        raise format_error(self.path, self.expat.CurrentLineNumber, rule)

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
    segments = list(_segments(document, path))
    annotations = (_annotation(element, path) for element in document.iter("annotation"))
    return place_mentions(name, segments, annotations, path, int(document.attrib[LINE]))


def _segments(document: Element, path: Path) -> Iterator[Segment]:
    """Yield the passages and sentences that have a text, in their order."""
    parents = (e for e in document.iter() if e.tag in ("passage", "sentence"))
    for parent in parents:
        for element in parent.iterfind("text"):
            line = int(element.attrib[LINE])
            offset = _number(parent.findtext("offset", "").strip())
            if offset is None:
                raise format_error(path, line, OFFSET_RULE)
            yield Segment(offset, "".join(element.itertext()), line)


def _annotation(element: Element, path: Path) -> Annotation:
    infons = {infon.get("key"): infon.text or "" for infon in element.iterfind("infon")}
    line = int(element.attrib[LINE])
    locations = []
    for location in element.findall("location"):
        offset, length = _number(location.get("offset", "")), _number(location.get("length", ""))
        if offset is None or length is None:
            raise format_error(path, int(location.attrib[LINE]), LOCATION_RULE)
        locations.append((offset, length))
    return Annotation(infons.get("type", "").strip(), locations, element.findtext("text", ""), line)


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch("[0-9]{1,15}", text) else None
