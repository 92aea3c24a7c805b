"""Annotations that MedCAT or MedCATtrainer exported as JSON -> concepts by note."""

import csv
import hashlib
import json
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from spacy.tokens import Doc

from ...corpus.gold import document_name
from ...errors import Errors, listing
from ..concepts import Concept

logger = logging.getLogger("spacy_mslm")

# Flags of annotations that a reviewer removed in MedCATtrainer.
WITHDRAWN = ("deleted", "killed", "irrelevant")


class _ExportedDocument(NamedTuple):
    """A document of an export. `id` is MedCATtrainer's; `text` is None if the export has none."""

    name: str
    id: str | None
    text: str | None
    annotations: Iterable[Any]


class _ExportedNote(NamedTuple):
    """The digest of a note's text, if the export has the text, and its concepts."""

    digest: str | None
    concepts: list[Concept]


class MedcatExport:
    """Looks up notes in an export by the name of a document, or else by its id in MedCATtrainer.
    The export is held in memory.

    path: A JSON file, or a folder of them.
    types: Semantic types by concept, for annotations without types.
    """

    def __init__(self, path: Path, types: Mapping[str, Sequence[str]] | None) -> None:
        if not path.exists():
            raise ValueError(Errors.M106.format(path=path))
        self.path = path
        self.types = types
        self._by_name: dict[str, _ExportedNote] = {}
        self._by_id: dict[str, _ExportedNote] = {}
        self._untyped: Counter[str] = Counter()
        for file in sorted(path.glob("*.json")) if path.is_dir() else [path]:
            self._read(file)
        if not self._by_name:
            raise ValueError(Errors.M335.format(path=path, problem="it has no document"))
        if self._untyped:
            logger.warning(
                f"{path}: {self._untyped.total()} annotations are left out, as the table of "
                f"concepts has no semantic type for {listing(sorted(self._untyped))}."
            )

    def __call__(self, docs: Sequence[Doc]) -> Iterator[list[Concept]]:
        """Yield the concepts of each document; a warning names those that are not in the export."""
        names = [document_name(doc, index) for index, doc in enumerate(docs)]
        notes = [self._by_name.get(name, self._by_id.get(name)) for name in names]
        missing = [name for name, note in zip(names, notes, strict=True) if note is None]
        if missing:
            logger.warning(
                f"{len(missing)} of {len(names)} notes are not in {self.path}, and get no "
                f"concepts from it: {listing(missing)}. Export all notes, or leave these out."
            )
        for name, doc, note in zip(names, docs, notes, strict=True):
            digest, concepts = note or _ExportedNote(None, [])
            last = max((concept.end for concept in concepts), default=0)
            if digest not in (None, _text_digest(doc.text)) or last > len(doc.text):
                raise ValueError(Errors.M337.format(path=self.path, id=name))
            yield concepts

    def _read(self, path: Path) -> None:
        try:
            export = json.loads(path.read_bytes())
        except (ValueError, RecursionError):
            raise ValueError(Errors.M335.format(path=path, problem="it is not JSON")) from None
        try:
            documents = list(_documents(export, path.stem))
        except (AttributeError, KeyError, TypeError, ValueError) as err:
            # Not chained: the cause may quote a text.
            problem = f"it has another structure, {type(err).__name__}"
            raise ValueError(Errors.M335.format(path=path, problem=problem)) from None
        for document in documents:
            note = self._note(path, document)
            _add(self._by_name, document.name, note, path)
            if document.id is not None:
                _add(self._by_id, document.id, note, path)

    def _note(self, path: Path, document: _ExportedDocument) -> _ExportedNote:
        concepts: list[Concept] = []
        for number, annotation in enumerate(document.annotations, start=1):
            problem = _problem(annotation)
            if problem:
                raise ValueError(
                    f"{path}: document {document.name}: annotation {number} {problem}. Export "
                    "it again; offsets count characters from 0, and the end is exclusive."
                )
            if not any(annotation.get(key) for key in WITHDRAWN):
                types = annotation.get("type_ids") or self._types_of(path, annotation["cui"])
                concepts += to_concepts(annotation, types)
        digest = None if document.text is None else _text_digest(document.text)
        return _ExportedNote(digest, concepts)

    def _types_of(self, path: Path, concept: str) -> Sequence[str]:
        if self.types is None:
            raise ValueError(
                f"{path} has annotations without a semantic type, as exports of MedCATtrainer "
                "do. Give the table of concepts from which the model was made (types): a CSV "
                "file with the columns cui and type_ids."
            )
        types = self.types.get(concept.upper(), ())
        if not types:
            self._untyped[concept] += 1
        return types


def to_concepts(annotation: Mapping[str, Any], types: Iterable[str]) -> Iterator[Concept]:
    """Yield a concept for each semantic type of an annotation."""
    # MedCAT's similarity is below 0 if the context is very different from what it learned.
    score = min(1.0, max(0.0, float(annotation.get("acc", 1.0))))
    start, end, concept = annotation["start"], annotation["end"], annotation["cui"]
    for semantic_type in types:
        yield Concept(start, end, concept, semantic_type, score)


def read_types(path: Path) -> dict[str, list[str]]:
    """Read the semantic types of concepts from a CSV file with the columns cui and type_ids."""
    if not path.is_file():
        raise ValueError(Errors.M106.format(path=path))
    types: dict[str, list[str]] = {}
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file)
        missing = [name for name in ("cui", "type_ids") if name not in (reader.fieldnames or ())]
        if missing:
            raise ValueError(
                f"{path}: the header has no column {', '.join(missing)}. A table of concepts "
                "has cui and type_ids."
            )
        for row in reader:
            found = types.setdefault(row["cui"].strip().upper(), [])
            new = [name.strip() for name in (row["type_ids"] or "").split("|")]
            found += [name for name in new if name and name not in found]
    return types


def _add(notes: dict[str, _ExportedNote], name: str, note: _ExportedNote, path: Path) -> None:
    """Add a note, or its concepts to those of the same note in other projects or files."""
    before = notes.get(name, note)
    if before.digest != note.digest:
        raise ValueError(Errors.M337.format(path=path, id=name))
    concepts = list(dict.fromkeys([*before.concepts, *note.concepts]))
    notes[name] = _ExportedNote(note.digest, concepts)


def _documents(export: Any, stem: str) -> Iterator[_ExportedDocument]:
    """Yield the documents of an export of any of the known structures."""
    if isinstance(export, dict) and "projects" in export:
        for project in export["projects"]:
            for each in project["documents"]:
                number = None if each.get("id") is None else str(each["id"])
                name, text, annotations = str(each["name"]), each.get("text"), each["annotations"]
                yield _ExportedDocument(name, number, text, annotations)
        return
    if isinstance(export, dict) and "entities" in export:
        export = {stem: export}
    for name, output in export.items() if isinstance(export, dict) else export:
        # MedCAT gives an empty object for a note without words.
        entities = output["entities"].values() if output else ()
        yield _ExportedDocument(str(name), None, output.get("text"), entities)


def _problem(annotation: Any) -> str | None:
    if not isinstance(annotation, dict):
        return "is not a record with offsets (it was made with only_cui)"
    start, end = annotation.get("start"), annotation.get("end")
    if not isinstance(start, int) or not isinstance(end, int) or not 0 <= start < end:
        return "has no valid offsets (start and end)"
    if not isinstance(annotation.get("cui"), str):
        return "has no concept (cui)"
    return None


def _text_digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf8", "surrogatepass"), digest_size=16).hexdigest()
