"""Run one trial: train in a process of its own, score the last checkpoint, delete its weights."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import spacy

from ...engine.chunks import Chunk
from ...scoring.counts import pack
from ...training.adaptation import RECORD
from ...util.locks import claimed
from ...util.machine import describe_machine
from ..configs import read_raw_config
from ..training import CHECKPOINT
from .data import drop_mentions
from .results import Row, SweepFolder, row_key
from .scores import measure, score
from .spec import Spec, Trial, base_overrides

LOG = "train.log"
MODELS = ("model-best", "model-last")
MAX_REASON = 300


class TrialFailed(Exception):
    """The training of a trial failed. Says why in one line."""


class Outcome(NamedTuple):
    """What became of a trial.

    Attributes:
        trial: The trial.
        row: Its result, None if it has none.
        reason: Why it failed. Without row and reason, another process works on it.
    """

    trial: Trial
    row: Row | None = None
    reason: str | None = None


@dataclass(frozen=True)
class TrialRunner:
    """Runs trials, in any process that sees the same files.

    Attributes:
        spec: The spec.
        folder: The folder of the sweep.
        threads: The number of threads of a training; None to leave it to torch.
        gpu: The GPU of a training; -1 for the CPU.
    """

    spec: Spec
    folder: SweepFolder
    threads: int | None
    gpu: int = -1

    def __call__(self, chunk: Chunk) -> Outcome:
        """Run the only trial of a chunk, unless another process has it or an encoder that it needs,
        and store its result."""
        trial: Trial = chunk.documents[0]
        folder = self.folder.path / trial.key
        with contextlib.ExitStack() as stack:
            locks = [stack.enter_context(claimed(path)) for path in self._locks(trial)]
            if None in locks:
                return Outcome(trial)
            for row in self.folder.rows():
                if row_key(row) == trial.key:  # by another process in the meantime
                    return Outcome(trial, row)
            try:
                row = self.run(trial, folder, [lock for lock in locks if lock is not None])
            except TrialFailed as err:
                self.folder.fail(trial, str(err), folder / LOG)
                return Outcome(trial, reason=str(err))
            self.folder.store(row)
            _clean(folder, trial.keep)
        return Outcome(trial, row)

    def is_free(self, trial: Trial) -> bool:
        """Return whether no process works on a trial, or on an encoder that it needs."""
        with contextlib.ExitStack() as stack:
            known = (path for path in self._locks(trial) if path.exists())
            return None not in [stack.enter_context(claimed(path)) for path in known]

    def _locks(self, trial: Trial) -> list[Path]:
        """Return the files to lock: of the trial, and of the encoder if it has to be adapted."""
        names = [trial.key]
        adapted = trial.overrides.get("paths.adapted")
        if adapted and not Path(adapted).exists():
            names.append(f"{Path(adapted).name}.adapting")
        return [self.folder.path / f"{name}.lock" for name in names]

    def run(self, trial: Trial, folder: Path, locks: list[int]) -> Row:
        """Train and score.

        Args:
            trial: The trial.
            folder: Its folder.
            locks: Descriptors of locks that the training keeps as long as it lives.

        Raises:
            TrialFailed: If the training or the evaluation fails.
        """
        folder.mkdir(parents=True, exist_ok=True)
        overrides = {**base_overrides(self.spec, trial), **trial.overrides}
        if trial.drop_mentions:
            train = drop_mentions(
                Path(overrides["paths.train"]), folder / "train.tsv", trial.drop_mentions
            )
            overrides["paths.train"] = str(train)
        record = Path(trial.overrides.get("paths.adapted") or folder) / RECORD
        adapts = not record.exists()
        start = _children_cpu()
        self._train(trial, overrides, folder, locks)
        cpu_seconds = _children_cpu() - start
        adaptation = 0
        if record.exists():
            adaptation = json.loads(record.read_text(encoding="utf8"))["cpu_seconds"]
        try:
            scored = self._score(trial, overrides, folder)
        except Exception as err:
            known = isinstance(err, ValueError | OSError)
            raise TrialFailed(_short(str(err) if known else repr(type(err)))) from err
        counts = scored.pop("counts")
        return {
            "trial": trial.name,
            "set": trial.set,
            "seed": trial.seed,
            "split": self.spec.split,
            "config": trial.config,
            "overrides": trial.varied,
            "protocol": "clean",
            **scored,
            # Training, and the adaptation it starts from, whichever trial made that.
            "cpu_seconds": round(cpu_seconds - adapts * adaptation),
            "adaptation_cpu_seconds": adaptation,
            "machine": describe_machine(),
            "counts": counts,
        }

    def _train(
        self, trial: Trial, overrides: dict[str, Any], folder: Path, locks: list[int]
    ) -> None:
        command = [
            *(sys.executable, "-m", f"{__package__}.process"),
            *(["--bf16"] if self.spec.bf16 else []),
            *("spacy", "mslm", "train", str(trial.config_path), "--output", str(folder)),
            # A training that was interrupted continues from its checkpoint.
            *("--resume", "--gpu-id", str(self.gpu)),
        ]
        for name, value in overrides.items():
            command += [f"--{name}", value if isinstance(value, str) else json.dumps(value)]
        environment = {**os.environ, "ANSI_COLORS_DISABLED": "1", "PYTHONIOENCODING": "utf8"}
        if self.threads is not None:
            environment["OMP_NUM_THREADS"] = str(self.threads)
        with (folder / LOG).open("ab") as log:
            start = log.tell()
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,  # see `process.end_with_parent`
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                pass_fds=locks if os.name == "posix" else (),
            )
            try:
                code = process.wait()
            except BaseException:  # Ctrl-C
                process.kill()
                process.wait()
                raise
            finally:
                if process.stdin is not None:
                    process.stdin.close()
        if code:
            with (folder / LOG).open("rb") as log:
                log.seek(start)
                raise TrialFailed(_reason(log.read().decode("utf8", "replace"), code))

    def _score(self, trial: Trial, overrides: dict[str, Any], folder: Path) -> Row:
        if self.gpu >= 0:
            spacy.require_gpu(self.gpu)
        data = Path(getattr(self.spec.sets[trial.set], self.spec.split))
        config = read_raw_config(trial.config_path, overrides).interpolate()
        corpus = config["corpora"]["train"]
        nlp = spacy.load(folder / "model-last")
        scores, counts = score(
            *(nlp, data, Path(overrides["paths.train"])),
            *(corpus.get("limit") or 0, corpus.get("seed")),
        )
        return {**scores, **measure(nlp, data, self.spec.measure), "counts": pack(counts)}


def _clean(folder: Path, keep: bool) -> None:
    """Delete what takes space: checkpoint and pipelines, except a teacher."""
    for name in (CHECKPOINT, *(MODELS[:1] if keep else MODELS)):
        shutil.rmtree(folder / name, ignore_errors=True)


def _children_cpu() -> float:
    times = os.times()
    return times.children_user + times.children_system


# The title of the command's message about an error, behind a sign that depends on the terminal.
_FAILED = "The training failed"


def _reason(log: str, code: int) -> str:
    """Return why a training failed, in one line: the message of the command, or else the last line
    of the log, which is that of an exception."""
    if code < 0:
        return (
            f"The process was killed by signal {-code}. If memory ran out, use fewer jobs or a "
            "smaller batch."
        )
    _, title, message = log.rpartition(_FAILED)
    if title and message.strip():
        return _short(message)
    lines = [line for line in log.splitlines() if line.strip()]
    return _short(lines[-1] if lines else f"exit code {code}")


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MAX_REASON else text[: MAX_REASON - 3] + "..."
