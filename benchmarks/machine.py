"""Stored results, each with the machine that it was measured on."""

import json
import os
import platform
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("spacy", "spacy-transformers", "torch", "transformers", "onnxruntime")
FILE = "machine.json"
UNKNOWN = "not recorded"


def describe_machine() -> dict[str, str | int]:
    """Return processor, number of cores, versions and date."""
    cpu = _cpu_info()
    found: dict[str, str | int] = {
        "cpu": cpu.get("model name") or platform.processor(),
        "cores": os.cpu_count() or 0,
        "python": platform.python_version(),
    }
    # Virtual machines give the same name to processors of several generations.
    if "cpu family" in cpu:
        found["cpu_family_model"] = f"{cpu['cpu family']}/{cpu.get('model', '')}"
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return {**found, "date": date.today().isoformat()}


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


def _cpu_info() -> dict[str, str]:
    """Read the facts about the first processor (Linux only)."""
    path = Path("/proc/cpuinfo")
    text = path.read_text().partition("\n\n")[0] if path.exists() else ""
    pairs = (line.partition(":") for line in text.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}
