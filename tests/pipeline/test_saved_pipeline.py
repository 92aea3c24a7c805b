"""A pipeline that an earlier version has saved: it loads, and finds the same entities."""

import json

import pytest
import spacy

from ..conftest import TEXTS
from ..make_saved_pipeline import FOLDER


def test_a_pipeline_of_an_earlier_version_finds_the_same_entities() -> None:
    nlp = spacy.load(FOLDER)
    expected = json.loads((FOLDER / "expected.json").read_text(encoding="utf8"))
    for (text, _), entities in zip(TEXTS, expected, strict=True):
        found = nlp(text).ents
        assert [[e.start_char, e.end_char, e.label_] for e in found] == [e[:3] for e in entities]
        confidences = [entity[3] for entity in entities]
        assert [e._.confidence for e in found] == pytest.approx(confidences, abs=0.001)


def test_its_config_is_complete_without_changes() -> None:
    config = spacy.util.load_config(FOLDER / "config.cfg")
    nlp = spacy.util.load_model_from_config(config, auto_fill=False)
    assert nlp.pipe_names == ["mslm"]
