"""Measure `spacy mslm train --workers 2` beside one worker, each worker with one thread.

The same updates of the same sentences, by the real command, in turn. Timed are updates from the
third one on, from the start of one to the start of the next, with the data side and the exchange of
gradients, and without start, evaluation and saving. A ratio is that of the sums of one round.

By the clock, other work on the machine makes two workers slower, as they wait for each other. The
processor time of a worker leaves out what it waits for the other one, and so is an upper limit. So
is what the machine allows: the updates of two processes that each train a model of their own at the
same time, without any exchange. They share memory and caches as two workers do.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import Annotated, NamedTuple

import typer
from wasabi import msg

from .machine import write_result
from .reference import SPLITS
from .speed import RESULTS, ROOT

CLOCK = Path(__file__).with_name("worker_clock.py")
# Updates at the start that are not timed: memory grows, and the pipeline is evaluated and saved.
WARM_UP = 2


class Seconds(NamedTuple):
    """The mean time of an update, and the processor time of the busiest worker."""

    clock: float
    cpu: float


def workers(
    shared: Annotated[Path, typer.Option(help="Folder with blurb/ and encoders/")] = ROOT
    / "../shared",
    config: Annotated[Path, typer.Option(help="Training config")] = ROOT / "configs/vanilla.cfg",
    batch: Annotated[list[int], typer.Option(help="Sentences in a batch")] = [16, 64],  # noqa: B006
    sentences: Annotated[int, typer.Option(help="Number of sentences to time")] = 320,
    rounds: Annotated[int, typer.Option(help="Rounds over one worker and two")] = 3,
    results: Annotated[Path, typer.Option(help="Folder for the figures")] = RESULTS,
) -> None:
    """Time updates of one worker, of two, and of two processes that train alone, in turn; write and
    print seconds and ratios. Stored figures of other batches are kept."""
    rows = []
    path = results / "workers.json"
    stored = json.loads(path.read_text()) if path.exists() else {}
    figures = {name: value for name, value in stored.items() if name.startswith("batch_")}
    for size in batch:
        updates = sentences // size + WARM_UP
        train = partial(_train, shared.resolve(), config, size, updates)
        found: dict[str, list[Seconds]] = {"workers_1": [], "workers_2": [], "two_alone": []}
        for _ in range(rounds):
            found["workers_1"].append(train(1))
            found["workers_2"].append(train(2))
            found["two_alone"].append(_at_once(train))
        one, two, alone = found.values()
        ratios = {
            "clock": median(a.clock / b.clock for a, b in zip(one, two, strict=True)),
            "cpu": median(a.cpu / b.cpu for a, b in zip(one, two, strict=True)),
            "two_alone": median(2 * a.clock / b.clock for a, b in zip(one, alone, strict=True)),
        }
        seconds = {name: [t._asdict() for t in times] for name, times in found.items()}
        facts = {"config": config.name, "updates": updates - WARM_UP, "rounds": rounds}
        figures[f"batch_{size}"] = {**facts, **seconds, "ratio": ratios}
        write_result(path, figures)
        for name, times in found.items():
            shown = (1000 * median(column) for column in zip(*times, strict=True))
            rows.append((size, name, *(f"{value:.0f}" for value in shown)))
        rows += [
            (size, f"updates per second, {name}", f"{r:.2f}", "") for name, r in ratios.items()
        ]
    header = ("batch", "", "clock, ms", "processor, ms")
    msg.table(rows, header=header, divider=True, aligns=("r", "l", "r", "r"))


def _at_once(train: Callable[[int], Seconds]) -> Seconds:
    """Return the mean times of two processes that train at the same time, each its own model."""
    with ThreadPoolExecutor(2) as pool:
        times = list(pool.map(train, (1, 1)))
    return Seconds(*map(mean, zip(*times, strict=True)))


def _train(shared: Path, config: Path, batch: int, updates: int, n: int) -> Seconds:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        clock = {"@callbacks": "benchmarks.clock.v1", "folder": name}
        settings = {
            "paths.train": shared / "blurb/ncbi_disease" / SPLITS["train"],
            "paths.dev": shared / "blurb/ncbi_disease" / SPLITS["dev"],
            "vars.encoder": shared / "encoders/biominilm",
            "corpora.train.limit": batch * updates,
            "corpora.dev.limit": 5,
            "training.batcher.size": batch,
            "training.max_steps": updates,
            "training.eval_frequency": updates + 2,  # only before the second update
            "training.before_update": json.dumps(clock),
        }
        command = [sys.executable, "-m", "spacy", "mslm", "train", config, "--output", folder / "x"]
        command += ["--workers", n, "--code", CLOCK]
        for key, value in settings.items():
            command += [f"--{key}", value]
        subprocess.run(
            [str(part) for part in command],
            check=True,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        clocks = [_per_update(folder / f"worker{rank}.txt", updates) for rank in range(n)]
        return Seconds(clocks[0].clock, max(clock.cpu for clock in clocks))


def _per_update(path: Path, updates: int) -> Seconds:
    """Return the mean time of the updates after the first ones, of which the last has no end."""
    rows = [[float(value) for value in line.split()] for line in path.read_text().splitlines()]
    first, last = rows[WARM_UP], rows[-1]
    n = len(rows) - 1 - WARM_UP
    assert n >= updates - WARM_UP - 1
    return Seconds(*((b - a) / n for a, b in zip(first, last, strict=True)))
