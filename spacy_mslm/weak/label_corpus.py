"""Labelling of a corpus of notes, chunk by chunk, in one or several processes. An interrupted run
can be continued from its output folder:

    corpus/mimic/
        weak.json             inputs of the corpus: settings, and digests of files
        train/00000.spacy     the notes of the first chunk; dev and test likewise
        done/00000.json       counts of the first chunk, written when it is finished
        stats.json, card.md   written when all chunks are finished

The notes of a chunk are always the same, so the corpus does not depend on interruptions or on the
number of processes. Nothing is written outside the folder.
"""

import contextlib
import json
import os
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any, NamedTuple

from spacy.tokens import Doc
from spacy.util import minibatch, registry

from ..corpus.formats.records import SPLITS
from ..errors import Errors
from ..util.files import remove_leftovers, replace_file
from ..util.progress import progress_bar
from ..util.stage_folder import StageFolder
from .card import statistics, write_card
from .concepts import MentionsBySource
from .labeller import Failed, Labeller, make_labeller
from .notes import Note, Notes, Survey
from .shards import Shard, split_of

REMEDY = "Give another --paths.output, or --force to start over in a folder of weak labels."
RECORD, DONE, LEARNT = "weak.json", "done", "aggregation.bin"
# Notes per call of the annotators, and notes from which an aggregation learns.
BATCH = 32
LEARN_FROM = 2000
PRIVATE = 0o077


class NoteChunk(NamedTuple):
    """Consecutive notes that one process labels and writes."""

    number: int
    notes: list[Note]


def label_notes(settings: dict[str, Any], output: Path, jobs: int = 1, force: bool = False) -> dict:
    """Label the notes that are not labelled yet, and return the statistics of the corpus.

    settings: The [labelling] block of a config.
    output: Folder of the corpus.
    jobs: Number of processes.
    force: Replace the corpus in the folder if it has other settings or inputs.
    """
    _check(settings)
    notes: Notes = registry.resolve({"notes": settings["notes"]})["notes"]
    stage = StageFolder(output, RECORD, settings, REMEDY)
    with _private():
        _open_folder(stage, force)
        survey = notes.survey()
        _learn(settings, notes, survey, output)
        done = {int(path.stem) for path in (output / DONE).glob("*.json")}
        with progress_bar(total=survey.chosen, desc="Labelling", unit=" notes") as bar:
            chunks = _chunks(notes.read(survey), settings["chunk"])
            left = (chunk for chunk in chunks if not _is_done(chunk, done, bar.update))
            for n in _run(settings, output, left, jobs):
                bar.update(n)
        for folder in SPLITS:  # of worker processes that were killed: they hold text of notes
            remove_leftovers(output / folder)
        stats = statistics(survey, _counted(output), settings, stage.settings)
        replace_file(output / "stats.json", (json.dumps(stats, indent=2) + "\n").encode("utf8"))
        write_card(output / "card.md", stats)
    return stats


def _check(settings: dict[str, Any]) -> None:
    """Raise a ValueError if a number in the settings is out of range."""
    chunk, seed = settings["chunk"], settings["seed"]
    if not isinstance(chunk, int) or chunk < 1:
        raise ValueError(Errors.M004.format(name="labelling.chunk", value=chunk))
    if not isinstance(seed, int):
        raise ValueError(f"labelling.seed is {seed!r}, but must be a whole number.")
    shares = {name: settings[name] for name in ("dev", "test")}
    for name, share in shares.items():
        if not isinstance(share, int | float) or not 0 <= share <= 1:
            raise ValueError(Errors.M003.format(name=f"labelling.{name}", value=share))
    if sum(shares.values()) >= 1:
        raise ValueError(
            f"labelling.dev is {shares['dev']} and labelling.test is {shares['test']}, so there "
            "would be no patients in train. Their sum must be less than 1."
        )


@contextlib.contextmanager
def _private() -> Iterator[None]:
    """Make files and folders that are created readable by their owner only."""
    mask = os.umask(PRIVATE)
    try:
        yield
    finally:
        os.umask(mask)


def _is_done(chunk: NoteChunk, done: set[int], update: Callable[[int], Any]) -> bool:
    if chunk.number not in done:
        return False
    update(len(chunk.notes))
    return True


def _open_folder(stage: StageFolder, force: bool) -> None:
    """Make the folder, or check that it has a corpus of the same settings, notes and
    terminologies. Remove what is out of date or unfinished."""
    output = stage.path
    output.mkdir(parents=True, exist_ok=True)
    record = stage.read()
    if record is not None:
        if not force:
            stage.check(record)
        for folder in (DONE, *SPLITS):
            if stage.differences(record):
                shutil.rmtree(output / folder, ignore_errors=True)
            for unfinished in (output / folder).glob(".*"):
                unfinished.unlink()
    stage.write(stage.settings)
    (output / DONE).mkdir(exist_ok=True)


def _chunks(notes: Iterable[Note], size: int) -> Iterator[NoteChunk]:
    for number, batch in enumerate(minibatch(notes, size)):
        yield NoteChunk(number, list(batch))


def _learn(settings: dict[str, Any], notes: Notes, survey: Survey, output: Path) -> None:
    """Fit the aggregation to the first notes, unless this was done in an earlier run."""
    path = output / DONE / LEARNT
    if path.exists():
        return
    aggregation = registry.resolve({"a": settings["aggregation"]})["a"]
    sample = islice(notes.read(survey), LEARN_FROM)
    replace_file(path, aggregation.fit(_found(settings, sample)))


def _found(
    settings: dict[str, Any], notes: Iterable[Note]
) -> Iterator[tuple[Doc, MentionsBySource]]:
    """Yield documents and their mentions. As this is a generator, the annotators are only loaded
    for an aggregation that learns."""
    labeller = make_labeller(settings)
    for batch in minibatch(notes, BATCH):
        docs = [labeller.documents(note) for note in batch]
        for doc, found in labeller.find(docs):
            if not isinstance(found, str):
                yield doc, found[0]


# ---- chunks ----


def label_chunk(
    labeller: Labeller, settings: dict[str, Any], output: Path, chunk: NoteChunk
) -> int:
    """Label and write the notes of a chunk, and mark it as finished. Returns their number."""
    counts: Counter[str] = Counter()
    failed: list[Failed] = []
    shard = Shard()
    # Frees the words of the notes when the chunk is finished.
    with labeller.documents.nlp.memory_zone():
        for batch in minibatch(chunk.notes, BATCH):
            for note, result in zip(batch, labeller(batch), strict=True):
                if isinstance(result, Failed):
                    failed.append(result)
                    continue
                split = split_of(note.patient, settings["seed"], settings["dev"], settings["test"])
                shard.add(result.doc, split)
                counts.update(result.counts)
        if len(failed) == len(chunk.notes):  # the fault is not in the notes
            note_id, error = failed[0]
            raise ValueError(
                f"An annotator failed on all {len(failed)} notes of a chunk, on the note "
                f"{note_id} with {error}. Try each annotator alone to find the cause; chunks that "
                "are finished are kept."
            )
        shard.write(output, chunk.number)
    counts.update(shard.counts)
    row = {"notes": len(chunk.notes), "failed": failed, "counts": dict(sorted(counts.items()))}
    path = output / DONE / f"{chunk.number:05}.json"
    replace_file(path, (json.dumps(row) + "\n").encode("utf8"))
    return len(chunk.notes)


def _ready(settings: dict[str, Any], output: Path) -> Labeller:
    labeller = make_labeller(settings)
    labeller.aggregation.load((output / DONE / LEARNT).read_bytes())
    return labeller


def _run(
    settings: dict[str, Any], output: Path, chunks: Iterator[NoteChunk], jobs: int
) -> Iterator[int]:
    """Label chunks, and yield the number of notes of each finished one."""
    if jobs > 1:
        yield from _run_pools(settings, output, chunks, jobs)
        return
    labeller = None
    for chunk in chunks:
        labeller = labeller or _ready(settings, output)
        yield label_chunk(labeller, settings, output, chunk)


# ---- processes ----

_labeller: Labeller  # set in each worker process


def _start(settings: dict[str, Any], output: Path) -> None:
    global _labeller
    # The processes of a pool do not notice that their parent was killed, and would wait forever.
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.umask(PRIVATE)
    import torch

    torch.set_num_threads(1)  # the processes share the cores
    _labeller = _ready(settings, output)


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(settings: dict[str, Any], output: Path, chunk: NoteChunk) -> int:
    return label_chunk(_labeller, settings, output, chunk)


def _run_pools(
    settings: dict[str, Any], output: Path, chunks: Iterator[NoteChunk], jobs: int
) -> Iterator[int]:
    """Label chunks in processes. If one dies, for example out of memory, the unfinished chunks are
    tried once more in a new pool."""
    while lost := (yield from _run_pool(settings, output, chunks, jobs)):
        lost = yield from _run_pool(settings, output, iter(lost), jobs)
        if lost:
            numbers = ", ".join(str(chunk.number) for chunk in lost)
            raise ValueError(
                f"A process was killed twice while labelling the chunks {numbers}. The first of "
                f"them begins with the note {lost[0].notes[0].id}. If memory ran out, use fewer "
                "--jobs or a smaller labelling.chunk. Then run the command again: finished chunks "
                "are skipped."
            )


def _run_pool(
    settings: dict[str, Any], output: Path, chunks: Iterator[NoteChunk], jobs: int
) -> Generator[int, None, list[NoteChunk]]:
    """Label chunks in a pool of processes. If a process dies, returns the unfinished chunks."""
    working: dict[Future, NoteChunk] = {}
    context = get_context("spawn")  # a forked process can hang in torch's threads
    with ProcessPoolExecutor(jobs, context, _start, (settings, output)) as pool:
        while True:
            # Submit only as many as the processes need: notes are read when submitted.
            for chunk in islice(chunks, 2 * jobs - len(working)):
                working[pool.submit(_work, settings, output, chunk)] = chunk
            if not working:
                return []
            finished, _ = wait(working, return_when=FIRST_COMPLETED)
            for future in finished:
                try:
                    yield future.result()
                except BrokenProcessPool:
                    return list(working.values())
                del working[future]


def _counted(output: Path) -> Iterator[dict[str, Any]]:
    for path in sorted((output / DONE).glob("*.json")):
        yield json.loads(path.read_text(encoding="utf8"))
