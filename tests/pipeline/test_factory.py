"""The factory: its defaults, and what a config made by somebody else can make it do."""

import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import spacy
from spacy.language import Language
from spacy.util import load_config, registry

from spacy_mslm.weak.medcat_setup import MARKER

from ..helpers import write_terms

CONFIG = Path(__file__).parents[2] / "configs" / "mslm.cfg"


def test_the_defaults_are_those_of_mslm_cfg() -> None:
    defaults = Language.get_factory_meta("mslm").default_config
    spacy.blank("en").add_pipe("mslm")  # The defaults are complete.
    shipped = load_config(CONFIG, interpolate=True)["components"]["mslm"]
    # The scorer and the seed of the config follow the run: its training set and --system.seed.
    for name, value in shipped.items():
        if name not in ("factory", "scorer"):
            assert defaults[name] == value, name


# ---- functions that a config can name ----


def hostile_settings(folder: Path) -> dict[str, dict[str, Any]]:
    """Registered functions with settings that name files, and two that would run code."""
    text = folder / "notes.txt"
    text.write_text("some text\n")
    terms = write_terms(folder / "terms.tsv", [("asthma", "T047")])
    patterns = folder / "patterns.tsv"
    patterns.write_text("T047\tasthma\n")
    clusters = folder / "clusters.yml"
    clusters.write_text("Disease:\n  T047: Disease or Syndrome\n")
    kb = folder / "kb.jsonl"
    kb.write_text("{}\n")
    spacy.blank("en").to_disk(folder / "pipeline")
    with zipfile.ZipFile(folder / "pack.zip", "w") as archive:
        archive.writestr("cdb.dat", "x")
    environment = folder / "environment"
    (environment / "bin").mkdir(parents=True)
    (environment / "bin" / "python").write_text("#!/bin/sh\ntouch ran")
    (environment / MARKER).write_text(json.dumps({"medcat": "1"}))
    return {
        "terminology": {"path": str(terms)},
        "regex": {"path": str(patterns)},
        "pipeline": {"model": str(folder / "pipeline")},
        "scispacy_linker": {"kb": str(kb)},
        "medcat": {"model": str(folder / "pack.zip"), "environment": str(environment)},
        "Clusters": {"path": str(clusters)},
        "Notes": {"path": str(text)},
        "PMIMasking": {"vocabulary": str(text)},
    }


NAMES = [
    *("terminology", "regex", "pipeline", "scispacy_linker", "medcat"),
    *("Clusters", "Notes", "PMIMasking"),
]
_opened: dict[str, Any] = {"folder": None, "paths": []}


def _note_paths(event: str, arguments: tuple) -> None:
    folder = _opened["folder"]
    if folder and event in ("open", "subprocess.Popen", "os.mkdir", "os.rename"):
        _opened["paths"] += [str(a) for a in arguments if str(a).startswith(folder)]


@pytest.fixture(scope="module")
def watched() -> dict[str, Any]:
    sys.addaudithook(_note_paths)
    return _opened


@pytest.mark.parametrize("name", NAMES)
def test_registered_functions_do_nothing_when_they_are_created(name, tmp_path, watched):
    """Any config may name them: they read, write and start nothing before they are used."""
    settings = {"@misc": f"spacy_mslm.{name}.v1", **hostile_settings(tmp_path)[name]}
    watched.update(folder=str(tmp_path), paths=[])
    try:
        registry.resolve({"part": settings})
    finally:
        watched["folder"] = None
    assert watched["paths"] == []


@pytest.mark.parametrize("setting", ["masking", "mask_weights", "scorer"])
@pytest.mark.parametrize("name", ["regex", "scispacy_linker", "medcat", "Notes"])
def test_functions_that_do_not_belong_in_a_pipe_are_refused(setting, name, tmp_path):
    forged = {"@misc": f"spacy_mslm.{name}.v1", **hostile_settings(tmp_path)[name]}
    if setting == "scorer":
        forged["@scorers"] = forged.pop("@misc")
        with pytest.raises(ValueError, match="spacy_mslm"):  # it is not registered there
            spacy.blank("en").add_pipe("mslm", config={setting: forged})
        return
    with pytest.raises(ValueError, match=f"The setting {setting} of the mslm pipe is .*, which is"):
        spacy.blank("en").add_pipe("mslm", config={setting: forged})
    assert not (tmp_path / "pack").exists()
