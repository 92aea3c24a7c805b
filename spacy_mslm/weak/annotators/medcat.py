"""MedCAT as an annotator, in a process with an environment of its own, or from its exports.

notes -> lines of JSON -> medcat_worker, in the other environment -> entities -> concepts
exported JSON -> annotations by note id -> concepts
"""

import json
import logging
import os
import subprocess
import threading
import weakref
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from spacy.tokens import Doc

from ...corpus.gold import document_name
from ...errors import Errors
from ...util.files import replaced_folder
from ..concepts import Concept
from ..medcat_setup import OFFLINE, environment_python, is_ready
from .medcat_export import MedcatExport, read_types, to_concepts

logger = logging.getLogger("spacy_mslm")

WORKER = Path(__file__).with_name("medcat_worker.py")


class MedcatAnnotator:
    """`spacy_mslm.medcat.v1`: the concepts that MedCAT finds, or that it exported before. A concept
    with several semantic types is given once for each.

    model: MedCAT model pack: a folder, or a zip file, which is unpacked beside itself.
    environment: Folder made by `python -m spacy mslm weak medcat-setup`.
    export: Instead of these, a JSON file or a folder of them: an export of MedCATtrainer; the
        output of `cat.get_entities_multi_texts`, as pairs or as an object by note id; or the output
        of `cat.get_entities` for one note, in a file named after the note's id.
    types: CSV file with the columns `cui` and `type_ids` (`T047|T191`), as used to make MedCAT
        models; for exports without semantic types, such as those of MedCATtrainer.
    min_score: Leave out concepts with a lower score (MedCAT's `acc`).
    timeout: Maximum time in seconds to load the model, and for each note.
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
        self.model = model
        self.environment = environment
        self.export = export
        self.types = types
        self.min_score = min_score
        self.timeout = timeout

    @cached_property
    def _source(self) -> "RunningMedcat | MedcatExport":
        if self.export:
            table = read_types(Path(self.types)) if self.types else None
            return MedcatExport(Path(self.export), table)
        assert self.model and self.environment
        return RunningMedcat(Path(self.model), Path(self.environment), self.timeout)

    def load(self) -> None:
        """Read the export, or unpack the model pack. MedCAT is started with the first note."""
        _ = self._source

    def __call__(self, docs: Sequence[Doc]) -> Iterator[list[Concept]]:
        """Yield the concepts of each document."""
        for concepts in self._source(docs):
            # Sorted, as MedCAT holds types in sets, whose order differs between processes.
            yield sorted(concept for concept in concepts if concept.score >= self.min_score)


class RunningMedcat:
    """Runs MedCAT in another process, which is started with the first note."""

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
        """Yield the concepts of each document."""
        for index, doc in enumerate(docs):
            name = document_name(doc, index)
            answer = self._ask(name, doc.text)
            if "error" in answer:
                logger.warning(
                    f"MedCAT failed on the note {name} with {answer['error']}, so it gets no "
                    "concepts from MedCAT. The message is not shown, as it may hold text of the "
                    "note."
                )
            entities = answer.get("entities", {}).values()
            yield [concept for e in entities for concept in to_concepts(e, e["type_ids"])]

    def _ask(self, name: str, text: str) -> dict[str, Any]:
        """Return MedCAT's answer for a note. If the process fails, it is restarted once."""
        try:
            return self._started().ask({"id": name, "text": text})
        except _ProcessLostError:
            self._process = None
        process = None
        try:
            process = self._started()
            return process.ask({"id": name, "text": text})
        except _ProcessLostError as err:
            self._process = None
            where = f"It was at the note {name}." if process else "It was loading the model."
            # Not chained: the pipes of the processes hold text.
            raise RuntimeError(
                f"MedCAT failed twice, the second time in a new process: it {err}. {where} "
                "MedCAT's output is not shown, as it may hold text of notes. Leave the note "
                "out, raise timeout, or give the process more memory."
            ) from None

    def _started(self) -> "_Process":
        if self._process is None:
            python = environment_python(self.environment).absolute()
            # Isolated (-I): otherwise the script's folder is on the path, and `import medcat` would
            # import this module.
            command = [str(python), "-I", str(WORKER), str(self.pack)]
            process = _Process(command, self.timeout)
            failed = process.ask(None).get("failed")
            if failed:
                process.stop()
                raise RuntimeError(
                    f"MedCAT cannot load the model pack {self.pack} ({failed}). Check that it "
                    f"is complete, and that the MedCAT version in {self.environment} can read it."
                )
            self._process = process
        return self._process


class _ProcessLostError(Exception):
    """The process ended or was stopped; the message says how."""


class _Process:
    """A process that answers a line of JSON with a line of JSON, within a time limit."""

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
        """Return the answer to a note; to None, the first line, which is written after start-up."""
        popen = self._popen
        assert popen.stdin and popen.stdout
        late = threading.Event()

        def end() -> None:
            late.set()
            popen.kill()

        # Killing the process ends the calls below, whether they wait to write or to read.
        timer = threading.Timer(self.timeout, end)
        timer.daemon = True
        timer.start()
        answer = None
        try:
            if note is not None:
                popen.stdin.write(json.dumps(note) + "\n")
                popen.stdin.flush()
            answer = json.loads(popen.stdout.readline())
        except (OSError, ValueError):  # a broken pipe, an incomplete line, or none
            with suppress(subprocess.TimeoutExpired):  # wait for the exit code of a crash
                popen.wait(5)
        finally:
            timer.cancel()
        if isinstance(answer, dict) and (note is None or answer.get("id") == note["id"]):
            return answer
        self.stop()
        if late.is_set():
            raise _ProcessLostError(f"did not answer within {self.timeout:g} seconds")
        raise _ProcessLostError(f"ended with exit code {popen.returncode}")


def _stop(popen: subprocess.Popen[str]) -> None:
    popen.kill()
    popen.wait()
    for pipe in (popen.stdin, popen.stdout):
        with suppress(OSError):  # unwritten data is lost, which does not matter
            pipe.close() if pipe else None


def _unpacked(model: Path) -> Path:
    """Return the folder of a model pack, and unpack it if needed. MedCAT could do this, but not
    atomically: another process, or the next run, could read an incomplete pack."""
    if model.is_dir():
        return model
    folder = model.with_suffix("")
    if not folder.is_dir():
        try:
            with zipfile.ZipFile(model) as archive, replaced_folder(folder) as temporary:
                archive.extractall(temporary)  # which leaves out ".." and the root of a name
        except (OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as err:
            raise ValueError(
                f"The model pack {model} cannot be unpacked ({err}). Copy it again."
            ) from err
    return folder
