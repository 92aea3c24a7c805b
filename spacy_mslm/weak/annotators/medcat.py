"""MedCAT as an annotator: run in an environment of its own, or read from what it has exported.

notes -> lines of JSON -> medcat_worker, in the other environment -> entities -> concepts
exported JSON -> annotations by note id -> concepts
"""

import csv
import hashlib
import json
import logging
import os
import subprocess
import threading
import weakref
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from spacy.tokens import Doc

from ...corpus.gold import document_name
from ...errors import Errors
from ...util.files import replaced_folder
from ..concepts import Concept
from ..medcat_setup import OFFLINE, environment_python, is_ready

logger = logging.getLogger("spacy_mslm")

WORKER = Path(__file__).with_name("medcat_worker.py")
# What a reviewer has taken back in MedCATtrainer.
WITHDRAWN = ("deleted", "killed", "irrelevant")


class MedcatAnnotator:
    """`spacy_mslm.medcat.v1`: the concepts that MedCAT finds, or has found; one for each semantic
    type of a concept, as only the clusters know which of them is of use.

    model: MedCAT's model pack, a folder or a zip file, which is unpacked beside it.
    environment: the folder that `python -m spacy mslm weak medcat-setup` has made.
    export: in place of these, a JSON file, or a folder of such: an export of MedCATtrainer, or
        what `cat.get_entities_multi_texts` gives, as pairs or as an object by note id, or what
        `cat.get_entities` gives for the note that the file is named after.
    types: a CSV file with the columns `cui` and `type_ids` (`T047|T191`), as MedCAT's models are
        made of; for exports that do not tell the types, as MedCATtrainer's.
    min_score: leave out concepts of a lower score (MedCAT's `acc`).
    timeout: seconds that MedCAT may take to load, and for each note.
    """

    def __init__(
        self,
        model: str | None = None,
        environment: str | None = None,
        export: str | None = None,
        types: str | None = None,
        min_score: float = 0.0,
        timeout: float = 600.0,
    ) -> None:
        if bool(model) == bool(export):
            problem = "both are set" if model else "neither is set"
            raise ValueError(Errors.M330.format(problem=problem))
        if model and not environment:
            raise ValueError(Errors.M330.format(problem="the environment is not set"))
        if not 0 <= min_score <= 1:
            raise ValueError(Errors.M003.format(name="min_score", value=min_score))
        if timeout <= 0:
            raise ValueError(Errors.M004.format(name="timeout", value=timeout))
        self.min_score = min_score
        table = _read_types(Path(types)) if types else None
        self._source: Medcat | Export
        if export:
            self._source = Export(Path(export), table)
        else:
            assert model and environment
            self._source = Medcat(Path(model), Path(environment), timeout)

    def __call__(self, docs: Sequence[Doc]) -> Iterator[list[Concept]]:
        for concepts in self._source(docs):
            # MedCAT holds types in sets, the order of which differs from process to process.
            yield sorted(concept for concept in concepts if concept.score >= self.min_score)


def _concepts(annotation: Mapping[str, Any], types: Iterable[str]) -> Iterator[Concept]:
    # A context that is very unlike what MedCAT has learnt has a similarity below 0.
    score = min(1.0, max(0.0, float(annotation.get("acc", 1.0))))
    for semantic_type in types:
        yield Concept(
            annotation["start"], annotation["end"], annotation["cui"], semantic_type, score
        )


# ---- MedCAT in another process ----


class Medcat:
    """Asks MedCAT, in a process that is started with the first note."""

    def __init__(self, model: Path, environment: Path, timeout: float) -> None:
        if not is_ready(environment):
            raise ValueError(
                f"{environment} is not a finished environment of MedCAT. Make one with 'python "
                "-m spacy mslm weak medcat-setup FOLDER', and give it as environment."
            )
        if not model.exists():
            raise ValueError(Errors.M106.format(path=model))
        self.pack = _unpacked(model).absolute()
        self.environment = environment
        self.timeout = timeout
        self._process: _Process | None = None

    def __call__(self, docs: Sequence[Doc]) -> Iterator[list[Concept]]:
        for index, doc in enumerate(docs):
            name = document_name(doc, index)
            answer = self._ask(name, doc.text)
            if "error" in answer:
                logger.warning(
                    f"MedCAT failed on the note {name} with {answer['error']}: it has no "
                    "concepts of MedCAT. What MedCAT says is not shown, as it may hold text "
                    "of the note."
                )
            entities = answer.get("entities", {}).values()
            yield [concept for e in entities for concept in _concepts(e, e["type_ids"])]

    def _ask(self, name: str, text: str) -> dict[str, Any]:
        """A process that fails is replaced once."""
        try:
            return self._started().ask({"id": name, "text": text})
        except _Lost:
            self._process = None
        process = None
        try:
            process = self._started()
            return process.ask({"id": name, "text": text})
        except _Lost as err:
            self._process = None
            where = f"It was at the note {name}." if process else "It was loading the model."
            # Not chained: the processes' pipes hold text.
            raise RuntimeError(
                f"MedCAT failed twice, the second time in a new process: it {err}. {where} "
                "What MedCAT writes is not shown, as it may hold text of notes. Leave the "
                "note out, raise timeout, or give the process more memory."
            ) from None

    def _started(self) -> "_Process":
        if self._process is None:
            python = environment_python(self.environment).absolute()
            # Isolated: else `medcat` would be this very module, the folder of which comes first.
            command = [str(python), "-I", str(WORKER), str(self.pack)]
            process = _Process(command, self.timeout)
            failed = process.ask(None).get("failed")
            if failed:
                process.stop()
                message = (
                    f"MedCAT cannot load the model pack {self.pack} ({failed}). Check that it "
                    f"is a whole pack, and of a version that the MedCAT in {self.environment} "
                    "can read."
                )
                raise RuntimeError(message)
            self._process = process
        return self._process


class _Lost(Exception):
    """The process is gone, and says how."""


class _Process:
    """Takes a line and gives a line, in a limited time."""

    def __init__(self, command: list[str], timeout: float) -> None:
        self.timeout = timeout
        self._popen = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # it may hold text of notes
            encoding="utf8",
            env={**os.environ, **OFFLINE},
        )
        self.stop = weakref.finalize(self, _stop, self._popen)

    def ask(self, note: dict[str, str] | None) -> dict[str, Any]:
        """The answer to a note; to none, what the process says when it has started."""
        popen = self._popen
        assert popen.stdin and popen.stdout
        late = threading.Event()

        def end() -> None:
            late.set()
            popen.kill()

        # Killing it ends the waits below, for a pipe that is full as for one that is empty.
        timer = threading.Timer(self.timeout, end)
        timer.daemon = True
        timer.start()
        answer = None
        try:
            if note is not None:
                popen.stdin.write(json.dumps(note) + "\n")
                popen.stdin.flush()
            answer = json.loads(popen.stdout.readline())
        except (OSError, ValueError):  # a broken pipe; half a line, or nothing
            with suppress(subprocess.TimeoutExpired):  # it may be about to end: how, is to be told
                popen.wait(5)
        finally:
            timer.cancel()
        if isinstance(answer, dict) and (note is None or answer.get("id") == note["id"]):
            return answer
        self.stop()
        if late.is_set():
            raise _Lost(f"did not answer within {self.timeout:g} seconds")
        raise _Lost(f"ended with exit code {popen.returncode}")


def _stop(popen: subprocess.Popen[str]) -> None:
    popen.kill()
    popen.wait()
    for pipe in (popen.stdin, popen.stdout):
        with suppress(OSError):  # what was not written yet is of no use
            pipe.close() if pipe else None


def _unpacked(model: Path) -> Path:
    """The folder of a pack. MedCAT would unpack it, too, but not all at once: another process, or
    the next run, could take half a pack for a whole one."""
    if model.is_dir():
        return model
    folder = model.with_suffix("")
    if not folder.is_dir():
        try:
            with zipfile.ZipFile(model) as archive, replaced_folder(folder) as temporary:
                archive.extractall(temporary)
        except (OSError, zipfile.BadZipFile) as err:
            raise ValueError(
                f"The model pack {model} cannot be unpacked ({err}). Copy it again."
            ) from err
    return folder


# ---- what MedCAT has exported ----


class _Document(NamedTuple):
    """Of an export. text: where the export has it."""

    name: str
    id: str | None
    text: str | None
    annotations: Iterable[Any]


class _Note(NamedTuple):
    """digest: of the text."""

    digest: str | None
    concepts: list[Concept]


class Export:
    """Annotations by the names of documents, else by their ids in MedCATtrainer; in memory."""

    def __init__(self, path: Path, types: Mapping[str, Sequence[str]] | None) -> None:
        if not path.exists():
            raise ValueError(Errors.M106.format(path=path))
        self.path = path
        self.types = types
        self._by_name: dict[str, _Note] = {}
        self._by_id: dict[str, _Note] = {}
        self._untyped: Counter[str] = Counter()
        for file in sorted(path.glob("*.json")) if path.is_dir() else [path]:
            self._read(file)
        if not self._by_name:
            raise ValueError(Errors.M335.format(path=path, problem="there is no document in it"))
        if self._untyped:
            n, concepts = self._untyped.total(), ", ".join(sorted(self._untyped)[:10])
            logger.warning(
                f"{path}: {n} annotations are left out, as the table of concepts gives no "
                f"semantic type for theirs: {concepts}."
            )

    def __call__(self, docs: Sequence[Doc]) -> Iterator[list[Concept]]:
        names = [document_name(doc, index) for index, doc in enumerate(docs)]
        notes = [self._by_name.get(name, self._by_id.get(name)) for name in names]
        missing = [name for name, note in zip(names, notes, strict=True) if note is None]
        if missing:
            ids = ", ".join(missing[:10])
            logger.warning(
                f"{len(missing)} of {len(names)} notes are not in {self.path}, and have no "
                f"concepts of it: {ids}. Export all notes, or leave these out."
            )
        for name, doc, note in zip(names, docs, notes, strict=True):
            digest, concepts = note or _Note(None, [])
            ends = max((concept.end for concept in concepts), default=0)
            if digest not in (None, _digest(doc.text)) or ends > len(doc.text):
                raise ValueError(Errors.M337.format(path=self.path, id=name))
            yield concepts

    def _read(self, path: Path) -> None:
        try:
            export = json.loads(path.read_bytes())
        except (ValueError, RecursionError):
            raise ValueError(Errors.M335.format(path=path, problem="it is no JSON")) from None
        try:
            documents = list(_documents(export, path.stem))
        except (AttributeError, KeyError, TypeError, ValueError) as err:
            # Not chained: the cause may quote a text.
            problem = f"it has another shape, {type(err).__name__}"
            raise ValueError(Errors.M335.format(path=path, problem=problem)) from None
        for document in documents:
            note = self._note(path, document)
            _add(self._by_name, document.name, note, path)
            if document.id is not None:
                _add(self._by_id, document.id, note, path)

    def _note(self, path: Path, document: _Document) -> _Note:
        concepts: list[Concept] = []
        for number, annotation in enumerate(document.annotations, start=1):
            problem = _problem(annotation)
            if problem:
                message = (
                    f"{path}: document {document.name}: annotation {number} {problem}. Export "
                    "it again; offsets count characters from 0, and the end is exclusive."
                )
                raise ValueError(message)
            if not any(annotation.get(key) for key in WITHDRAWN):
                types = annotation.get("type_ids") or self._types_of(path, annotation["cui"])
                concepts += _concepts(annotation, types)
        return _Note(None if document.text is None else _digest(document.text), concepts)

    def _types_of(self, path: Path, concept: str) -> Sequence[str]:
        if self.types is None:
            raise ValueError(
                f"{path} has annotations without a semantic type, as those of MedCATtrainer "
                "are. Give the table of concepts that the model was made of (types): a CSV "
                "file with the columns cui and type_ids."
            )
        types = self.types.get(concept.upper(), ())
        if not types:
            self._untyped[concept] += 1
        return types


def _add(notes: dict[str, _Note], name: str, note: _Note, path: Path) -> None:
    """A note that several projects or files have has the annotations of all of them."""
    before = notes.get(name, note)
    if before.digest != note.digest:
        raise ValueError(Errors.M337.format(path=path, id=name))
    notes[name] = _Note(note.digest, list(dict.fromkeys([*before.concepts, *note.concepts])))


def _documents(export: Any, stem: str) -> Iterator[_Document]:
    """Of each of the shapes that an export has."""
    if isinstance(export, dict) and "projects" in export:
        for project in export["projects"]:
            for each in project["documents"]:
                number = None if each.get("id") is None else str(each["id"])
                yield _Document(str(each["name"]), number, each.get("text"), each["annotations"])
        return
    if isinstance(export, dict) and "entities" in export:
        export = {stem: export}
    for name, output in export.items() if isinstance(export, dict) else export:
        # MedCAT gives an empty object for a note without words.
        entities = output["entities"].values() if output else ()
        yield _Document(str(name), None, output.get("text"), entities)


def _problem(annotation: Any) -> str | None:
    if not isinstance(annotation, dict):
        return "is no record with offsets (it was made with only_cui)"
    start, end = annotation.get("start"), annotation.get("end")
    if not isinstance(start, int) or not isinstance(end, int) or not 0 <= start < end:
        return "has no offsets, start and end, that hold a character"
    if not isinstance(annotation.get("cui"), str):
        return "has no concept (cui)"
    return None


def _read_types(path: Path) -> dict[str, list[str]]:
    """The semantic types of concepts, of a table with the columns cui and type_ids."""
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


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf8", "surrogatepass"), digest_size=16).hexdigest()
