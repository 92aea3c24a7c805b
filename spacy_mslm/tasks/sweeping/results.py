"""The folder of a sweep:

OUTPUT/
    sweep.json               the spec, with digests of the files that it names
    results.jsonl            a line for each finished trial
    failures.jsonl           a line for each failed trial, with the reason
    vanilla-bc2gm-s0/        the folder of a trial, with train.log
    vanilla-bc2gm-s0.lock    locked while a process works on the trial
"""

import json
from pathlib import Path
from typing import Any

from ...util.digests import with_digests
from ...util.files import replace_file
from ...util.locks import append_line, read_lines
from .search import Found
from .spec import Spec, Trial, trial_key

RECORD = "sweep.json"
RESULTS = "results.jsonl"
FAILURES = "failures.jsonl"

Row = dict[str, Any]


class SweepFolder:
    """The folder of a sweep.

    Args:
        path: The folder.
        results: The file for the results, if it is elsewhere.
    """

    def __init__(self, path: Path, results: Path | None = None) -> None:
        self.path = path.resolve()
        self.results = (results or path / RESULTS).resolve()
        self.failures = self.path / FAILURES

    def open(self, spec: Spec) -> None:
        """Make the folder, or check that it belongs to this spec, which may have grown.

        Raises:
            ValueError: If the folder has results of trials that are different in this spec, or of
                another spec.
        """
        path = self.path / RECORD
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"{self.path} is a file, but the output has to be a folder.")
        record = _record(spec)
        if path.exists():
            known = _read(path)
            _check(spec, self.path, known, record)
            record["trials"] = {**known["trials"], **record["trials"]}
            record["sets"] = {**known["sets"], **record["sets"]}
        elif (self.path / RESULTS).exists():
            raise ValueError(
                f"{self.path} has a {RESULTS}, but no {RECORD} that says where it is from. Give "
                "another OUTPUT."
            )
        self.path.mkdir(parents=True, exist_ok=True)
        self.results.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, (json.dumps(record, indent=2) + "\n").encode("utf8"))

    def rows(self) -> list[Row]:
        """Return the rows of the finished trials."""
        return read_lines(self.results)

    def done(self) -> Found:
        """Return F1 of the finished trials by their key."""
        return {row_key(row): row["f"] for row in self.rows()}

    def store(self, row: Row) -> None:
        """Store the row of a finished trial."""
        append_line(self.results, row)

    def fail(self, trial: Trial, reason: str, log: Path) -> None:
        """Store why a trial failed."""
        where = {"trial": trial.name, "set": trial.set, "seed": trial.seed}
        append_line(self.failures, {**where, "reason": reason, "log": str(log)})

    def failed(self) -> list[Row]:
        """Return the failures of trials that have no result by now, the last one of each."""
        done = self.done()
        last = {row_key(row): row for row in read_lines(self.failures)}
        return [row for key, row in last.items() if key not in done]

    def forget_failures(self) -> None:
        """Remove the failures of trials that have a result by now, and all but the last of each."""
        left = self.failed()
        if left:
            lines = "".join(json.dumps(row) + "\n" for row in left)
            replace_file(self.failures, lines.encode("ascii"))
        else:
            self.failures.unlink(missing_ok=True)


def row_key(row: Row) -> str:
    """Return the key of the trial that a row is of."""
    return trial_key(row["trial"], row["set"], row["seed"])


def _record(spec: Spec) -> dict[str, Any]:
    """Return all that results depend on, with files as digests of their content."""
    search = None
    if spec.search is not None:
        search = {k: v for k, v in spec.search._asdict().items() if k != "trials"}
        search |= {"config": _config(spec.config), "overrides": dict(spec.overrides)}
    record = {
        "split": spec.split,
        "encoder": spec.encoder,
        "text": None if spec.text is None else str(spec.text),
        "bf16": spec.bf16,
        "measure": list(spec.measure),
        "search": search,
        "sets": {name: files._asdict() for name, files in spec.sets.items()},
        "trials": {
            trial.name: {
                "config": str(trial.config_path),
                "overrides": {**spec.overrides, **trial.varied},
                "drop_mentions": trial.drop_mentions,
            }
            for trial in spec.trials
        },
    }
    return json.loads(json.dumps(with_digests(record)))


def _config(name: str) -> str:
    return str(Trial("", "", 0, name, {}, {}).config_path)


def _read(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_text(encoding="utf8"))
        return {**record, "trials": dict(record["trials"]), "sets": dict(record["sets"])}
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path} cannot be read. Give another OUTPUT.") from None


def _check(spec: Spec, folder: Path, known: dict[str, Any], record: dict[str, Any]) -> None:
    """Raise a ValueError unless what is known of the folder is part of a spec. Trials may be added,
    and left out."""
    names = [
        key for key in record if key not in ("sets", "trials") and record[key] != known.get(key)
    ]
    for what in ("sets", "trials"):
        own, other = record[what], known[what]
        names += [f"{what}.{name}" for name in own if name in other and own[name] != other[name]]
    if names:
        raise ValueError(
            f"{folder} has the trials of another spec, or of other files: {', '.join(names[:5])} "
            f"differ from {spec.path}. Give another OUTPUT."
        )
    own, other = record["trials"].keys(), known["trials"].keys()
    if own and other and own.isdisjoint(other):
        raise ValueError(
            f"{folder} has the trials of another spec: it knows none of the trials of {spec.path}. "
            "Give another OUTPUT."
        )
