"""Annotate any number of documents with a pipeline.

The documents are divided into chunks, which processes annotate and write as shards:

    OUTPUT/                    or OUTPUT.parts/, whose shards are then joined to the file OUTPUT
        annotation.json        the pipeline, the input, the settings
        rows/00000.jsonl       the documents of the first chunk
        done/00000.json        written when the first chunk is finished, with its failures
    OUTPUT.errors.jsonl        the documents that failed
"""

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ... import __version__
from ...engine.chunks import divide
from ...engine.place import Engine, Place
from ...engine.schedule import run_chunks
from ...engine.shards import DONE, ShardFolder, private
from ...errors import Errors
from ...util.files import replaced_file
from ...util.progress import progress_bar
from ...util.stage_folder import StageFolder
from ..choices import Format
from .formats import Origin, make_writer
from .source import Source, Survey
from .work import ROWS, Annotator, find_pipeline

RECORD = "annotation.json"
REMEDY = "Give another OUTPUT, or --force to start over."


class Annotated(NamedTuple):
    """What was annotated.

    path: The file, or the folder of shards.
    documents: The number of documents of the input.
    entities: The number of entities.
    failed: The number of documents that could not be annotated.
    unnamed: The number of documents without an id, which are named by file and line.
    errors: The file with ids and reasons of documents that failed; None if there are none.
    """

    path: Path
    documents: int
    entities: int
    failed: int
    unnamed: int
    errors: Path | None


def annotate(
    model: str,
    input_path: Path,
    output: Path,
    *,
    format: Format | None = None,
    text: bool = False,
    chunk: int = 1000,
    jobs: int | None = None,
    gpu_id: int = -1,
    engine: Engine = Engine.local,
    address: str | None = None,
    gpus: float = 0.0,
    force: bool = False,
) -> Annotated:
    """Annotate documents with a pipeline, and write their entities.

    An interrupted run continues where it stopped. The output has the same bytes regardless of
    interruptions, the number of processes and the engine, on processors of the same kind.

    Args:
        model: Name or path of the pipeline.
        input_path: A file that `weak label` can read (csv, jsonl, parquet, txt), or a folder of
            .txt files.
        output: A .jsonl, .parquet or .spacy file, or else a folder for shards.
        format: The format of the shards, if `output` is a folder.
        text: Also write the text of the documents.
        chunk: The maximum number of documents that are annotated and written at once.
        jobs: The number of processes, which have one thread each; by default as many as torch
            would use threads, or as fit on the Ray cluster.
        gpu_id: The GPU on this machine; -1 for the CPU.
        engine: This machine, or a Ray cluster whose nodes see the same files.
        address: Host and port of the head of the Ray cluster; by default that of this machine.
        gpus: The number of GPUs of each process on Ray.
        force: Replace the output, and start over where it was made with other settings.

    Raises:
        ValueError: If input, pipeline or output are not as they should be. Nothing is lost: what
            is finished is kept.
    """
    if gpu_id >= 0 and engine is Engine.ray:
        raise ValueError("On Ray, set the number of GPUs of each process (--gpus), not a GPU ID.")
    place = Place(Engine(engine), 1 if gpu_id >= 0 and jobs is None else jobs, address, gpus)
    to_file, format = _choose_format(output, format, text)
    folder = output.with_name(f"{output.name}.parts") if to_file else output
    if to_file:
        _check_file(output, folder, force)
    writer = make_writer(format)
    place.check()
    path, origin = find_pipeline(model)
    if not force:
        _check_pipeline(folder, origin)
    source = Source(input_path)
    survey = source.survey(chunk)
    stage = StageFolder(folder, RECORD, _settings(origin, survey, format, text, chunk), REMEDY)
    with private():
        shards = ShardFolder(folder)
        shards.open(stage, (ROWS,), force)
        start = partial(Annotator, path, origin, folder.resolve(), format, text, gpu_id)
        _run(source, survey, shards, start, chunk, place)
        shards.clean((ROWS,))
        errors = output.with_name(f"{output.name}.errors.jsonl")
        entities, failed = _finish(shards, errors)
        if to_file:
            rows = (folder / ROWS).glob(f"[0-9]*.{format.value}")
            writer.join(sorted(rows, key=lambda path: int(path.stem)), output, text)
            _remove(folder)
    left = errors if failed else None
    return Annotated(output, survey.documents, entities, failed, survey.unnamed, left)


def _settings(
    origin: Origin, survey: Survey, format: Format, text: bool, chunk: int
) -> dict[str, Any]:
    """Return all that the rows depend on."""
    return {
        "spacy_mslm": __version__,
        "pipeline": origin._asdict(),
        "input": {"documents": survey.documents, "digest": survey.digest},
        "format": format.value,
        "text": text,
        "chunk": chunk,
    }


def _choose_format(output: Path, format: Format | None, text: bool) -> tuple[bool, Format]:
    """Return whether the output is a file, and its format."""
    suffix = output.suffix.lstrip(".")
    to_file = suffix in {choice.value for choice in Format}
    if suffix and not to_file and not output.is_dir():
        raise ValueError(
            f"{output} ends with .{suffix}, which is not a format of annotate. Give a .jsonl, "
            ".parquet or .spacy file, or a folder without an ending."
        )
    found = Format(suffix) if to_file else Format(format or Format.jsonl)
    if format is not None and found is not format:
        raise ValueError(
            f"{output} is a file of the format {suffix}, not {format.value}. Leave out "
            "--format, or give another OUTPUT: a folder, or a file with the right ending."
        )
    if found is Format.spacy and not text:
        raise ValueError(
            "Files in spaCy's format always hold the text of the documents. Give --text to agree, "
            "or choose jsonl or parquet."
        )
    return to_file, found


def _check_file(output: Path, folder: Path, force: bool) -> None:
    """Raise a ValueError if the output exists, unless a run that replaces it was interrupted."""
    if not output.exists():
        return
    # A run that was killed when it removed its shards had finished.
    if folder.is_dir() and {path.name for path in folder.iterdir()} <= {ROWS, DONE}:
        shutil.rmtree(folder)
    if not (force or folder.exists()):
        raise ValueError(Errors.M133.format(path=output))


def _check_pipeline(folder: Path, origin: Origin) -> None:
    """Raise a ValueError if a folder has rows of another pipeline, before the input is read."""
    found = (StageFolder(folder, RECORD, {}, REMEDY).read() or {}).get("pipeline")
    now = origin._asdict()
    if isinstance(found, dict) and found != now:
        raise ValueError(
            f"{folder} was annotated by another pipeline: {_name(found)}, not {_name(now)}. "
            f"{REMEDY}"
        )


def _name(pipeline: dict[str, Any]) -> str:
    model, version, digest = (str(pipeline.get(field)) for field in Origin._fields)
    return f"{model} {version} (digest {digest[:8]})"


def _remove(folder: Path) -> None:
    """Remove the shards of a run that has finished, the record first."""
    (folder / RECORD).unlink()
    shutil.rmtree(folder)


def _run(
    source: Source,
    survey: Survey,
    shards: ShardFolder,
    start: Callable[[], Annotator],
    size: int,
    place: Place,
) -> None:
    """Annotate the chunks that are not finished."""
    finished = shards.finished()
    documents = sum(result["documents"] for result in shards.results())
    left = (chunk for chunk in divide(source, size) if chunk.number not in finished)
    options = {"total": survey.documents, "initial": documents}
    with (
        progress_bar(desc="Annotating", unit=" documents", **options) as bar,
        place.workers(survey.chunks - len(finished)) as workers,
    ):
        for n in run_chunks(workers, start, left):
            bar.update(n)


def _finish(shards: ShardFolder, errors: Path) -> tuple[int, int]:
    """Write the file of errors, if there are any. Returns the number of entities and of documents
    that failed."""
    entities = failed = 0
    with replaced_file(errors) as file:
        for result in shards.results():
            entities += result["entities"]
            for id_, reason in result["failed"]:
                failed += 1
                row = json.dumps({"id": id_, "reason": reason}, ensure_ascii=False)
                file.write(f"{row}\n".encode("utf8", "surrogatepass"))
    if not failed:
        errors.unlink()
    return entities, failed
