"""The first look at a pipeline: entities of one text, as a function and as a command."""

from pathlib import Path

import pytest
import spacy

from spacy_mslm.pipeline.saving import safe_save
from spacy_mslm.tasks import find_entities

from ..commands import run_spacy

TEXT = "the patient had acute renal failure after cisplatin ."


@pytest.fixture
def model(train_once, tmp_path: Path) -> str:
    nlp = train_once(60, masking={"@misc": "spacy_mslm.NoMasking.v1"})
    safe_save(nlp, tmp_path / "model")
    return str(tmp_path / "model")


def test_entities_of_a_text(model: str) -> None:
    found = find_entities(TEXT, model)
    assert [(e.text, e.label) for e in found] == [
        ("acute renal failure", "Disease"),
        ("cisplatin", "Chemical"),
    ]
    assert all(TEXT[e.start : e.end] == e.text for e in found)
    assert all(e.confidence is not None and 0 < e.confidence <= 1 for e in found)


def test_the_command_prints_them(model: str) -> None:
    shown = run_spacy("mslm", "try", TEXT, "--model", model)
    assert shown.returncode == 0, shown.stdout
    (line,) = (line for line in shown.stdout.splitlines() if "renal" in line)
    confidence = find_entities(TEXT, model)[0].confidence
    assert line.split() == ["acute", "renal", "failure", "Disease", f"{confidence:.2f}"]


def test_nothing_found_and_nothing_given(model: str) -> None:
    nothing = run_spacy("mslm", "try", "follow up in two weeks .", "--model", model)
    assert nothing.returncode == 1 and "No entities found" in nothing.stdout
    empty = run_spacy("mslm", "try", "  ", "--model", model)
    assert empty.returncode == 1 and "There is no text" in empty.stdout


@pytest.mark.skipif(spacy.util.is_package("en_mslm_mini"), reason="en_mslm_mini is installed")
def test_without_the_default_pipeline_the_message_says_what_to_do() -> None:
    shown = run_spacy("mslm", "try", TEXT)
    assert shown.returncode == 1
    assert "pip install models/en_mslm_mini" in " ".join(shown.stdout.split())
