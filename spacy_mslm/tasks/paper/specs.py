"""The trials that fill the tables: specs for `spacy mslm sweep`, as data of the package."""

from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import srsly

NAMES = ("pair", "rates", "strategies", "weights", "across", "encoders", "clinical")
SPECS = "specs"  # folder for them beside the page


@cache
def read_spec(name: str) -> dict[str, Any]:
    """Read a spec."""
    found: dict[str, Any] = srsly.yaml_loads(spec_text(name))
    return found


def spec_text(name: str) -> str:
    """Return a spec as it is stored, with its comments."""
    return (files("spacy_mslm") / f"data/paper/{name}.yml").read_text("utf8")


def sets_of(trial: str) -> list[str]:
    """Return the sets that a spec runs a trial on."""
    content = read_spec(spec_of(trial))
    found: list[str] = content["trials"][trial].get("sets", content["sets"])
    return found


def spec_of(trial: str) -> str:
    """Return the name of the spec that has a trial."""
    return next(name for name in NAMES if trial in read_spec(name)["trials"])


def trials(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the trials of a spec with their settings."""
    for trial, content in read_spec(name)["trials"].items():
        yield trial, content.get("overrides", {})


def sweep_command(name: str, output: Path, results: Path) -> str:
    """Return the command that runs the trials of a spec, which is written beside the page."""
    return f"python -m spacy mslm sweep {output / SPECS / name}.yml {results / name}"
