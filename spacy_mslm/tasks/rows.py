"""Read the results of trials: one JSON line for each finished trial, as `spacy mslm sweep` writes.

RESULTS/NAME.jsonl, RESULTS/NAME/results.jsonl    the rows of a spec
RESULTS/curves/TRIAL-SET-sSEED.jsonl              the log of a training
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..scoring.counts import unpack

# The text that a score is measured on, and the prefix of its scores in a row. `own` is masked with
# the rates of the trial itself, `masked` with the same rates for all trials.
PREFIXES = {"clean": "", "masked": "masked_", "own": "own_masked_"}
NEEDED = ("trial", "set", "seed", "f")


class Row(NamedTuple):
    """The result of one training.

    Attributes:
        trial, set, seed: What was trained.
        content: All fields of the row. Rows of earlier versions lack some of them.
    """

    trial: str
    set: str
    seed: int
    content: dict[str, Any]

    def value(self, protocol: str, metric: str) -> float | None:
        """Return a score from 0 to 1, None if it was not measured."""
        value = self.content.get(PREFIXES[protocol] + metric)
        return None if value is None else float(value)

    def counts(self, protocol: str) -> np.ndarray | None:
        """Return (documents, `counts.COUNTS`), None if they were not stored."""
        packed = self.content.get(PREFIXES[protocol] + "counts")
        return None if packed is None else unpack(packed)


class Rows:
    """Rows by trial, set and seed."""

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self._rows: dict[tuple[str, str], dict[int, Row]] = {}
        for row in rows:
            self._rows.setdefault((row.trial, row.set), {})[row.seed] = row

    def seeds(self, trial: str, dataset: str) -> dict[int, Row]:
        """Return the rows of a trial by seed."""
        return self._rows.get((trial, dataset), {})

    def sets(self, trials: Iterable[str] | None = None) -> list[str]:
        """Return the sets that any of some trials was run on; by default of all trials."""
        names = None if trials is None else set(trials)
        found = (dataset for trial, dataset in self._rows if names is None or trial in names)
        return sorted(set(found))

    def __len__(self) -> int:
        return sum(map(len, self._rows.values()))


def read_rows(folder: Path) -> Rows:
    """Read all rows of a folder; none if there is no such folder.

    Raises:
        ValueError: If a line is no row, or two files have a row of the same trial.
    """
    found: dict[tuple[str, str, int], Path] = {}
    rows = []
    for path in sorted([*folder.glob("*.jsonl"), *folder.glob("*/results.jsonl")]):
        for row in read_file(path):
            other = found.setdefault((row.trial, row.set, row.seed), path)
            if other != path:
                raise ValueError(
                    f"{other} and {path} both have a row of the trial {row.trial} on {row.set} "
                    f"with seed {row.seed}. Move one of the files out of {folder}."
                )
            rows.append(row)
    return Rows(rows)


def read_file(path: Path) -> list[Row]:
    """Read the rows of one file."""
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf8").splitlines(), start=1):
        try:
            content = json.loads(line)
            missing = [name for name in NEEDED if name not in content]
            if missing:
                raise ValueError
        except (ValueError, TypeError):
            raise ValueError(
                f"{path}, line {number}, is not the result of a trial. Give a folder with files "
                "that 'python -m spacy mslm sweep' wrote."
            ) from None
        rows.append(Row(content["trial"], content["set"], int(content["seed"]), content))
    return rows
