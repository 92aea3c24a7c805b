"""Labelling of a corpus of notes, chunk by chunk, on one machine or on a Ray cluster. An
interrupted run can be continued from its output folder:

    corpus/mimic/
        weak.json             inputs of the corpus: settings, and digests of files
        train/00000.spacy     the notes of the first chunk; dev and test likewise
        done/00000.json       counts of the first chunk, written when it is finished
        stats.json, card.md   written when all chunks are finished

The notes of a chunk are always the same, so the corpus does not depend on interruptions or on the
number of processes. Nothing is written outside the folder.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from math import ceil
from pathlib import Path
from typing import Any

from spacy.tokens import Doc
from spacy.util import minibatch, registry

from ..corpus.formats.records import SPLITS
from ..engine.chunks import Chunk, divide
from ..engine.place import Place
from ..engine.schedule import run_chunks
from ..engine.shards import DONE, ShardFolder, private
from ..errors import Errors
from ..util.files import replace_file
from ..util.progress import progress_bar
from ..util.stage_folder import StageFolder
from .card import statistics, write_card
from .concepts import MentionsBySource
from .labeller import Failed, Labeller, make_labeller
from .notes import Note, Notes, Survey
from .shards import Shard, split_of

REMEDY = "Give another --paths.output, or --force to start over in a folder of weak labels."
RECORD, LEARNT = "weak.json", "aggregation.bin"
# Notes per call of the annotators, and notes from which an aggregation learns.
BATCH = 32
LEARN_FROM = 2000


def label_notes(
    settings: dict[str, Any], output: Path, place: Place | None = None, force: bool = False
) -> dict[str, Any]:
    """Label the notes that are not labelled yet, and return the statistics of the corpus.

    settings: The [labelling] block of a config.
    output: Folder of the corpus.
    place: Where the notes are labelled; by default in this process.
    force: Replace the corpus in the folder if it has other settings or inputs.
    """
    _check(settings)
    _check_terminologies(settings)
    place = place or Place(jobs=1)
    notes: Notes = registry.resolve({"notes": settings["notes"]})["notes"]
    folder = ShardFolder(output)
    stage = StageFolder(output, RECORD, settings, REMEDY)
    with private():
        folder.open(stage, SPLITS, force)
        survey = notes.survey()
        _learn(settings, notes, survey, output)
        finished = folder.finished()
        labelled = sum(row["notes"] for row in folder.results())
        size = settings["chunk"] or chunk_size(survey.chosen)
        chunks = divide(notes.read(survey), size, characters=None)
        left = (chunk for chunk in chunks if chunk.number not in finished)
        options = {"total": survey.chosen, "initial": labelled}
        with (
            progress_bar(desc="Labelling", unit=" notes", **options) as bar,
            place.workers(-(-survey.chosen // size) - len(finished)) as workers,
        ):
            for n in run_chunks(workers, partial(_ready, settings, output), left):
                bar.update(n)
        folder.clean(SPLITS)
        stats = statistics(survey, folder.results(), settings, stage.settings)
        replace_file(output / "stats.json", (json.dumps(stats, indent=2) + "\n").encode("utf8"))
        write_card(output / "card.md", stats)
    return stats


def chunk_size(notes: int) -> int:
    """Return the number of notes in a chunk: a fiftieth of all, so that several processes share
    them and progress is seen; at least 10, and at most 500, which a run may have to repeat."""
    return min(500, max(10, ceil(notes / 50)))


def _check(settings: dict[str, Any]) -> None:
    """Raise a ValueError if a number in the settings is out of range."""
    chunk, seed = settings["chunk"], settings["seed"]
    if not isinstance(chunk, int) or chunk < 0:
        raise ValueError(
            f"labelling.chunk is {chunk}, but must be a number of notes, or 0 for a fiftieth."
        )
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


def _check_terminologies(settings: dict[str, Any]) -> None:
    """Raise a ValueError if the clusters have none of the types of a terminology."""
    clusters = registry.resolve({"clusters": settings["clusters"]})["clusters"]
    for annotator in settings["annotators"].values():
        if annotator.get("@misc") == "spacy_mslm.terminology.v1":
            registry.resolve({"annotator": annotator})["annotator"].check(clusters)


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


def label_chunk(labeller: Labeller, settings: dict[str, Any], output: Path, chunk: Chunk) -> int:
    """Label and write the notes of a chunk, and mark it as finished. Returns their number."""
    counts: Counter[str] = Counter()
    failed: list[Failed] = []
    shard = Shard()
    # Frees the words of the notes when the chunk is finished.
    with labeller.documents.nlp.memory_zone():
        for batch in minibatch(chunk.documents, BATCH):
            for note, result in zip(batch, labeller(batch), strict=True):
                if isinstance(result, Failed):
                    failed.append(result)
                    continue
                split = split_of(note.patient, settings["seed"], settings["dev"], settings["test"])
                shard.add(result.doc, split)
                counts.update(result.counts)
        if len(failed) == len(chunk.documents):  # the fault is not in the notes
            note_id, error = failed[0]
            raise ValueError(
                f"An annotator failed on all {len(failed)} notes of a chunk, on the note "
                f"{note_id} with {error}. Try each annotator alone to find the cause; chunks that "
                "are finished are kept."
            )
        shard.write(output, chunk.number)
    counts.update(shard.counts)
    size = len(chunk.documents)
    row = {"notes": size, "failed": failed, "counts": dict(sorted(counts.items()))}
    ShardFolder(output).finish(chunk.number, row)
    return size


def _ready(settings: dict[str, Any], output: Path) -> partial[int]:
    """Prepare the labelling of chunks in a process."""
    labeller = make_labeller(settings)
    labeller.aggregation.load((output / DONE / LEARNT).read_bytes())
    return partial(label_chunk, labeller, settings, output)
