"""Stored results, each with the machine that it was measured on."""

import json
from pathlib import Path
from typing import Any

from spacy_mslm.util.machine import describe_machine

FILE = "machine.json"
UNKNOWN = "not recorded"


def write_result(path: Path, result: dict[str, Any]) -> dict[str, Any]:
    """Write a result to a JSON file with the description of this machine, and return both."""
    record = {"machine": describe_machine(), **result}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=2) + "\n")
    return record


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write JSON lines. Every row has the key `machine`: rows may be of several machines."""
    assert all("machine" in row for row in rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def save_machine(folder: Path) -> None:
    """Describe this machine in the folder of a run, whose result is collected later."""
    (folder / FILE).write_text(json.dumps(describe_machine()))


def load_machine(folder: Path) -> dict[str, str | int] | str:
    """Return the description of the machine that a run was made on, or UNKNOWN."""
    path = folder / FILE
    return json.loads(path.read_text()) if path.exists() else UNKNOWN
