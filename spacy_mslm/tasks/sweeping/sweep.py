"""Run the trials of a spec, on this machine or on a Ray cluster.

Trials are the chunks of the package's engine, with one document each: what dies is run again, in
one process or on a cluster. Ray Tune is not used. It would bring a second mechanism for folders,
failures and interruptions, for Ray alone, and pandas and pyarrow; halving and Optuna are a page of
code that runs everywhere (see `search`).
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

from ...engine.chunks import Chunk
from ...engine.place import Engine, Place
from ...engine.schedule import run_chunks
from .data import write_text
from .results import Row, SweepFolder, row_key
from .search import Found
from .spec import Trial, read_spec
from .trial import Outcome, TrialRunner

WAIT = 10.0  # seconds until another look at trials that other processes work on

# Called with a trial and None when it starts, and with its outcome when it ends.
Watch: TypeAlias = Callable[[Trial, Outcome | None], None]


class Swept(NamedTuple):
    """What became of the trials.

    Attributes:
        path: The file with the results.
        trials: The number of trials of the spec.
        failures: The rows of those that failed.
        log: The file with these rows.
    """

    path: Path
    trials: int
    failures: list[Row]
    log: Path


class Resources(NamedTuple):
    """What trials are run with.

    Attributes:
        place: This machine or a Ray cluster, and the number of trials at the same time.
        threads: The number of threads of each training.
        gpu: The GPU of each training; -1 for the CPU.
    """

    place: Place
    threads: int
    gpu: int


def sweep(
    spec_path: Path,
    output: Path,
    *,
    jobs: int | None = None,
    threads: int | None = None,
    gpu_id: int = -1,
    engine: Engine = Engine.local,
    address: str | None = None,
    gpus: float = 0.0,
    results: Path | None = None,
    watch: Watch | None = None,
) -> Swept:
    """Run the trials of a spec that have no result yet, and score each on clean text.

    An interrupted sweep continues where it stopped. Several sweeps can work on one spec at the same
    time. A trial that fails is listed with its reason, and the others go on; it is tried again when
    the sweep is run again.

    Args:
        spec_path: The spec, see `spec`.
        output: The folder of trials and results.
        jobs: The number of trials at the same time; by default one, or as many as fit on the Ray
            cluster.
        threads: The number of threads of each training on this machine; by default the cores are
            divided among the jobs. The last digits of results depend on it. On Ray it is one.
        gpu_id: The GPU on this machine; -1 for the CPU.
        engine: This machine, or a Ray cluster whose nodes see the same files.
        address: Host and port of the head of the Ray cluster; by default that of this machine.
        gpus: The number of GPUs of each training on Ray.
        results: The file for the results, if not `results.jsonl` in the output folder.
        watch: Called when a trial starts and when it ends.

    Raises:
        ValueError: If something in the spec is wrong, the output folder belongs to another spec, or
            the cluster does not answer. Nothing is written then.
    """
    resources = find_resources(jobs, threads, gpu_id, Engine(engine), address, gpus)
    resources.place.check()
    folder = SweepFolder(output, results)
    spec = read_spec(spec_path, folder.path)
    folder.open(spec)
    text = folder.path / "text.txt.gz"
    if spec.text is not None and not text.exists():
        write_text(spec, text)

    def wanted(found: Found) -> list[Trial]:
        more = spec.search.next_round(spec, found) if spec.search is not None else []
        return spec.trials + more

    runner = TrialRunner(spec, folder, resources.threads, resources.gpu)
    found = run_trials(runner, wanted, resources, watch)
    folder.forget_failures()
    failures = [row for row in folder.failed() if found.get(row_key(row), 0) is None]
    return Swept(folder.results, len(wanted(found)), failures, folder.failures)


def find_resources(
    jobs: int | None,
    threads: int | None,
    gpu_id: int,
    engine: Engine,
    address: str | None,
    gpus: float,
) -> Resources:
    """Return what trials are run with. Arguments are those of `sweep`.

    Raises:
        ValueError: If they do not fit together.
    """
    if engine is Engine.ray and (gpu_id >= 0 or threads is not None):
        raise ValueError(
            "--gpu-id and --threads are settings of this machine. On Ray, a training has one core, "
            "and GPUs with --gpus."
        )
    if engine is Engine.ray:
        # Ray shows a process only its own GPU.
        return Resources(Place(engine, jobs, address, gpus), 1, 0 if gpus else -1)
    place = Place(engine, jobs or 1, address, gpus)
    cores = int(os.environ.get("OMP_NUM_THREADS") or os.cpu_count() or 1)
    return Resources(place, threads or max(1, cores // (jobs or 1)), gpu_id)


def run_trials(
    runner: TrialRunner,
    wanted: Callable[[Found], Sequence[Trial]],
    resources: Resources,
    watch: Watch | None = None,
    until: float | None = None,
) -> Found:
    """Run trials until all that are wanted have a result or have failed.

    Args:
        runner: Runs a trial.
        wanted: Returns all trials that are wanted, given the results so far.
        resources: Where they are run.
        watch: Called when a trial starts and when it ends.
        until: The time (`time.time()`) after which no trial is started.

    Returns:
        F1 by the key of the trial; None for those that failed now.
    """
    failed: dict[str, None] = {}
    while True:
        found: Found = {**failed, **runner.folder.done()}
        left = [trial for trial in wanted(found) if trial.key not in found]
        if not left or (until is not None and time.time() > until):
            return found
        free = [trial for trial in left if runner.is_free(trial)]
        if not free:  # other sweeps work on them
            time.sleep(WAIT)
            continue
        with resources.place.workers(len(free)) as workers:
            for outcome in run_chunks(workers, _Start(runner), _chunks(free, watch, until)):
                if watch is not None:
                    watch(outcome.trial, outcome)
                if outcome.reason is not None:
                    failed[outcome.trial.key] = None


@dataclass(frozen=True)
class _Start:
    """Gives the runner to a worker."""

    runner: TrialRunner

    def __call__(self) -> TrialRunner:
        return self.runner


def _chunks(trials: Sequence[Trial], watch: Watch | None, until: float | None) -> Iterator[Chunk]:
    for number, trial in enumerate(trials):
        if until is not None and time.time() > until:
            return
        if watch is not None:
            watch(trial, None)
        yield Chunk(number, [trial])
