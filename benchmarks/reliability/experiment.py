"""An experiment has numbered cases, which are run in portions and counted in a file.

cases 0 ... done      counted in the file
cases done ... goal   run now, a portion at a time; the file is written after each of them
cases goal ... full   for another day
"""

import fcntl
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from spacy_mslm.util.files import replace_file

from ..machine import describe_machine
from .parts import Row, Work

Run = Callable[[range], list[Row]]


class Experiment(NamedTuple):
    """What is done, and how often.

    Attributes:
        name: The name of the experiment.
        full: The number of cases in the full size.
        portion: The number of cases that are run between two looks at the clock.
        prepare: Gets the folder and pipeline, and returns a function that runs the cases of a
            range and returns rows of the table. The number of a case is the seed of its randomness.
    """

    name: str
    full: int
    portion: int
    prepare: Callable[[Work], Run]

    def goal(self, size: float) -> int:
        """Return the number of cases in a share of the full size, at least one."""
        return max(1, round(size * self.full))


class Record:
    """The counts so far. Without a path they are kept in memory only.

    Args:
        path: A JSON file.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.content: dict[str, Any] = {"machine": describe_machine(), "experiments": {}}
        self._read()

    def done(self, name: str) -> int:
        """Return how many cases of an experiment were run."""
        self._read()
        return self.content["experiments"].get(name, {}).get("cases", 0)

    def add(self, experiment: Experiment, cases: range, rows: list[Row], seconds: float) -> None:
        """Count the rows of some cases."""
        with self._changed() as content:
            self._count(content["experiments"], experiment, cases, rows, seconds)

    def _count(
        self,
        counted: dict[str, Any],
        experiment: Experiment,
        cases: range,
        rows: list[Row],
        seconds: float,
    ) -> None:
        new = {"cases": 0, "full": experiment.full, "seconds": 0.0, "rows": []}
        found = counted.setdefault(experiment.name, new)
        assert found["cases"] == cases.start, "another process runs the same experiment"
        sums = {row.name: row for row in (Row(**row) for row in found["rows"])}
        for row in rows:
            before = sums.get(row.name, Row(row.name, 0, 0))
            sums[row.name] = Row(
                row.name, *(a + b for a, b in zip(before[1:], row[1:], strict=True))
            )
        found["cases"] = cases.stop
        found["seconds"] = round(found["seconds"] + seconds, 1)
        found["date"] = date.today().isoformat()
        found["rows"] = [row._asdict() for row in sums.values()]

    def note(self, name: str, value: Any) -> None:
        """Keep a value that is not a count."""
        with self._changed() as content:
            content[name] = value

    def rows(self) -> list[Row]:
        """Return all rows."""
        found = self.content["experiments"].values()
        return [Row(**row) for experiment in found for row in experiment["rows"]]

    def _read(self) -> None:
        if self.path is not None and self.path.exists():
            self.content = json.loads(self.path.read_text(encoding="utf8"))

    @contextmanager
    def _changed(self) -> Iterator[dict[str, Any]]:
        """Read the content and write it again. Other processes may run other experiments into the
        same file, and wait."""
        if self.path is None:
            yield self.content
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._read()
            yield self.content
            replace_file(self.path, (json.dumps(self.content, indent=2) + "\n").encode("utf8"))


def run_experiment(
    experiment: Experiment, work: Work, record: Record, size: float, deadline: float
) -> Iterator[list[Row]]:
    """Run the cases that are missing, and yield the rows of each portion.

    Args:
        experiment: What to run.
        work: Folder and pipeline.
        record: Where the cases are counted.
        size: The share of the full size.
        deadline: No portion begins after this time (`time.monotonic`).
    """
    goal = experiment.goal(size)
    run: Run | None = None
    while (done := record.done(experiment.name)) < goal and time.monotonic() < deadline:
        run = run or experiment.prepare(work)
        cases = range(done, min(goal, done + experiment.portion))
        start = time.monotonic()
        rows = run(cases)
        record.add(experiment, cases, rows, time.monotonic() - start)
        yield rows


def table(record: Record) -> list[str]:
    """Return the lines of a Markdown table: experiments, the share of the full size, counts."""
    head = ["experiment", "cases", "survived", "lost", "doubled", "wrong", "of full size"]
    lines = [f"| {' | '.join(head)} |", f"|---|{'---:|' * (len(head) - 1)}"]
    for experiment in record.content["experiments"].values():
        share = f"{100 * experiment['cases'] / experiment['full']:.3g} %"
        for row in experiment["rows"]:
            counts = [f"{value:,}" for key, value in row.items() if key != "name"]
            lines.append(f"| {' | '.join([row['name'], *counts, share])} |")
    return lines
