"""The command, its experiments and its table."""

import logging
import signal
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import torch
import typer
from wasabi import msg

from . import kills
from .damage import damage, prepare_corpus, prepare_encoder, prepare_pipeline
from .disk import fill_disk, write_protected
from .experiment import Experiment, Record, run_experiment, table
from .hostile import fuzz_annotate, fuzz_convert, fuzz_label, fuzz_pipeline
from .kills import has_no_broken_wheel, kill_continued, kill_replacing
from .load import kill_worker_of_annotate, kill_worker_of_label, soak, use_processes, use_threads
from .parts import Work

SMALL = 0.003
DOCUMENTS = 100_000


def _experiments() -> list[Experiment]:
    """All experiments: name, cases in the full size, cases in a portion."""
    found = [
        Experiment("fuzz", 100_000, 1000, fuzz_pipeline),
        Experiment("fuzz convert", 100_000, 2000, fuzz_convert),
        Experiment("fuzz weak label", 100_000, 2000, fuzz_label),
        Experiment("fuzz annotate", 100_000, 1000, fuzz_annotate),
    ]
    # What writes an output at once, its name, and whether it is a pipeline.
    replacing: list[tuple[str, kills.Make, str, bool]] = [
        ("saving", kills.saving, "out", True),
        ("calibrate in place", kills.calibrating, "out", True),
        ("optimize", kills.optimizing, "out", True),
        ("convert", kills.converting, "out.spacy", False),
    ]
    continued: list[tuple[str, kills.Make]] = [
        ("train", kills.training),
        ("types", kills.training_of_types),
        ("adaptation", kills.adapting),
        ("self-training", kills.self_training),
        ("pretrain", kills.pretraining),
        ("weak label", kills.labelling),
        ("annotate", kills.annotating),
    ]
    for name, make, output, pipeline in replacing:
        prepare = partial(kill_replacing, output=output, pipeline=pipeline)
        found.append(Experiment(f"kill {name}", 100, 10, prepare(f"kill -9: {name}", make)))
    for name, make in continued:
        prepared = kill_continued(f"kill -9: {name}, continued", make)
        found.append(Experiment(f"kill {name}", 100, 10, prepared))
    packaged = kill_continued("kill -9: package, repeated", kills.packaging, has_no_broken_wheel)
    found.append(Experiment("kill package", 100, 5, packaged))
    for name, make, output, pipeline in replacing:
        prepare = partial(kill_replacing, output=output, pipeline=pipeline, sent=signal.SIGINT)
        found.append(Experiment(f"interrupt {name}", 20, 10, prepare(f"Ctrl-C: {name}", make)))
    for name, make in continued:
        prepared = kill_continued(f"Ctrl-C: {name}, continued", make, sent=signal.SIGINT)
        found.append(Experiment(f"interrupt {name}", 20, 10, prepared))
    parts = {"a pipeline": prepare_pipeline, "an encoder": prepare_encoder}
    for what, prepare_files in {**parts, "a corpus": prepare_corpus}.items():
        for kind, full in (("bit flips", 1000), ("truncations", 100)):
            run = damage(what, prepare_files, kind)
            found.append(Experiment(f"{kind} {what}", full, 50, run))
    outputs = [(name, make, output) for name, make, output, _ in replacing]
    for name, make, output in outputs + [(name, make, "out") for name, make in continued]:
        in_place = name == "calibrate in place"
        full_disk = fill_disk(f"full disk: {name}", make, output, in_place)
        found.append(Experiment(f"full disk {name}", 10, 5, full_disk))
        if not in_place:
            protected = write_protected(f"read-only folder: {name}", make, output)
            found.append(Experiment(f"read-only {name}", 1, 1, protected))
    return [
        *found,
        Experiment("threads", 8000, 800, use_threads),
        Experiment("processes", 2000, 2000, use_processes),
        Experiment("worker of annotate", 10, 5, kill_worker_of_annotate),
        Experiment("worker of weak label", 10, 5, kill_worker_of_label),
    ]


def reliability(
    size: Annotated[float, typer.Option(help="Share of the full size")] = SMALL,
    full: Annotated[bool, typer.Option("--full", help="Run the full size")] = False,
    only: Annotated[str, typer.Option(help="Experiments whose names begin so")] = "",
    minutes: Annotated[float, typer.Option(help="Begin nothing after so many minutes")] = 1e9,
    output: Annotated[
        Path | None, typer.Option(help="JSON file for the result. Cases in it are not run again")
    ] = None,
) -> None:
    """Run all experiments and print how many cases there were and what went wrong.

    With --output, cases are counted in the file after each portion, and the next run goes on where
    this one ended, so that a large size can be run in parts. The exit code is 1 if anything was
    lost, doubled or wrong.
    """
    logging.disable()  # the warnings of hostile texts
    torch.set_num_threads(1)  # processes are forked, and threads of torch do not survive that
    size = 1.0 if full else size
    deadline = time.monotonic() + 60 * minutes
    record = Record(output)
    with TemporaryDirectory() as folder, (work := Work(Path(folder).resolve())).at_end:
        for experiment in _experiments():
            if not experiment.name.startswith(only):
                continue
            for rows in run_experiment(experiment, work, record, size, deadline):
                for row in rows:
                    msg.info(f"{row.name}: {row.survived} of {row.cases}")
        if "memory".startswith(only) and time.monotonic() < deadline:
            total = max(400, round(size * DOCUMENTS))
            if record.content.get("memory", {}).get("documents", 0) < total:
                record.note("memory", soak(work, total))
    print("\n".join(table(record)))
    for name in ("tokenizer", "pipeline"):
        if "memory" in record.content:
            growth = record.content["memory"][name]["bytes_per_new_word"]
            msg.text(f"Memory of the {name}: {growth} bytes per new word")
    failed = [row.name for row in record.rows() if row.survived < row.cases]
    if failed:
        msg.fail(f"Something went wrong in: {', '.join(failed)}", exits=1)
    msg.good("Nothing was lost, doubled or wrong")
