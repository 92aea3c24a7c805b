"""BioC in JSON, as PubTator 3 and BioRED give it: a collection, or one document per line.

    {"documents": [{"id": "8701013", "passages": [
        {"offset": 32, "text": "Famotidine is a histamine H2-receptor antagonist.",
         "annotations": [{"infons": {"type": "Chemical"}, "text": "Famotidine",
                          "locations": [{"offset": 32, "length": 10}]}]}]}]}

`bioc_document` says how the text is put together. A line is that of the record: the first of the
collection if the file is one object.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .bioc_document import LOCATION_RULE, OFFSET_RULE, Annotation, Segment, place_mentions
from .json_records import Record, check_text, read_records, require
from .records import Document, check_ids, format_error

COLLECTIONS = ("documents", "PubTator3")


def read_bioc_json(path: Path) -> Iterator[Document]:
    """Yield the documents of a collection."""
    return check_ids(_documents(path), path)


def _documents(path: Path) -> Iterator[Document]:
    for line, record in read_records(path):
        inner = next((record[key] for key in COLLECTIONS if key in record), [record])
        for document in _objects(inner, "documents", path, line):
            name = document.get("id", document.get("_id"))
            if isinstance(name, bool) or not isinstance(name, str | int) or name == "":
                raise format_error(path, line, "a document has an 'id', a string or a number")
            passages = _objects(require(document, "passages", path, line), "passages", path, line)
            parents = [p for passage in passages for p in _with_sentences(passage, path, line)]
            segments = [_segment(parent, path, line) for parent in parents if parent.get("text")]
            annotations = [
                _annotation(item, path, line)
                for parent in [document, *parents]
                for item in _objects(parent.get("annotations", []), "annotations", path, line)
            ]
            yield place_mentions(str(name), segments, annotations, path, line)


def _with_sentences(passage: Record, path: Path, line: int) -> list[Record]:
    return [passage, *_objects(passage.get("sentences", []), "sentences", path, line)]


def _segment(parent: Record, path: Path, line: int) -> Segment:
    offset = parent.get("offset")
    if type(offset) is not int or offset < 0:
        raise format_error(path, line, OFFSET_RULE)
    return Segment(offset, check_text(parent["text"], "text", path, line), line)


def _annotation(item: Record, path: Path, line: int) -> Annotation:
    infons = item.get("infons")
    label = infons.get("type") if isinstance(infons, dict) else None
    locations = []
    for location in _objects(item.get("locations", []), "locations", path, line):
        offset, length = location.get("offset"), location.get("length")
        if type(offset) is not int or type(length) is not int:
            raise format_error(path, line, LOCATION_RULE)
        locations.append((offset, length))
    surface = check_text(item.get("text", ""), "text", path, line)
    return Annotation(label.strip() if isinstance(label, str) else "", locations, surface, line)


def _objects(value: Any, key: str, path: Path, line: int) -> list[Record]:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise format_error(path, line, f"'{key}' is a list of objects")
    return value
