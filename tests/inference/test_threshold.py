"""The threshold of a pipe: in its config, on a loaded pipe, and through `spacy find-threshold`."""

import re

import numpy as np
import pytest
import spacy
from spacy.tokens import DocBin
from thinc.api import Config

from spacy_mslm.inference.threshold import thresholds
from spacy_mslm.pipeline.saving import safe_save

from ..commands import run_spacy
from ..conftest import TEXTS, make_examples

SENTENCES = [text for text, _ in TEXTS]


@pytest.fixture(scope="module")
def trained(train_once):
    """A pipe that is sure of some mentions and not of others."""
    return train_once(35, drop=0.1)


def found(nlp) -> list[tuple[str, float]]:
    return [(e.label_, e._.confidence) for doc in nlp.pipe(SENTENCES) for e in doc.ents]


def test_by_hand():
    labels = ("A", "B")
    assert thresholds(0.5, labels).tolist() == [0.5, 0.5]
    assert thresholds({"B": 0.25}, labels).tolist() == [0.0, 0.25]
    assert thresholds({}, labels).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("threshold", "message"),
    [
        (1.5, "threshold is 1.5, but must be between 0 and 1"),
        (float("nan"), "threshold is nan, but"),
        ({"A": -1}, "threshold.A is -1, but"),
        ({"C": 0.5}, "does not have: C. Its types are: A, B."),
    ],
)
def test_a_wrong_threshold_is_an_error(threshold, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        thresholds(threshold, ("A", "B"))


def test_an_unknown_type_is_an_error_before_training(make_nlp):
    with pytest.raises(ValueError, match=r"does not have: Drug\. Its types are: Chemical, Disease"):
        make_nlp(threshold={"Drug": 0.5})


@pytest.mark.parametrize("spans_key", [None, "terms"])
def test_entities_below_the_threshold_are_left_out(train_once, spans_key):
    nlp = train_once(35, drop=0.1)
    pipe = nlp.get_pipe("mslm")
    pipe.spans_key = spans_key

    def read() -> list[tuple[str, float]]:
        docs = nlp.pipe(SENTENCES)
        spans = (doc.spans[spans_key] if spans_key else doc.ents for doc in docs)
        return [(span.label_, span._.confidence) for group in spans for span in group]

    everything = read()
    middle = float(np.median([value for _, value in everything]))
    pipe.cfg["threshold"] = middle
    kept = read()
    assert kept == [(label, value) for label, value in everything if value >= middle]
    assert 0 < len(kept) < len(everything)
    pipe.cfg["threshold"] = {"Disease": 1.0}
    assert read() == [(label, value) for label, value in everything if label != "Disease"]
    with pipe.without_threshold():
        assert read() == everything
    assert pipe.cfg["threshold"] == {"Disease": 1.0}


def test_it_is_saved_and_a_changed_config_wins(trained, tmp_path):
    nlp = trained
    nlp.to_disk(tmp_path / "none")
    nlp = spacy.load(tmp_path / "none")
    everything = found(nlp)
    nlp.get_pipe("mslm").cfg["threshold"] = 0.95
    nlp.to_disk(tmp_path / "set")
    kept = found(spacy.load(tmp_path / "set"))
    assert kept == [(label, value) for label, value in everything if value >= 0.95]
    assert len(kept) < len(everything)
    again = spacy.load(tmp_path / "set", config={"components": {"mslm": {"threshold": 0.97}}})
    assert again.get_pipe("mslm").cfg["threshold"] == 0.97
    again.to_disk(tmp_path / "again")
    assert spacy.load(tmp_path / "again").get_pipe("mslm").cfg["threshold"] == 0.97
    path = tmp_path / "again" / "config.cfg"
    config = Config().from_disk(path)
    config["components"]["mslm"]["threshold"] = {"Disease": 1.0}
    config.to_disk(path)
    kept = found(spacy.load(tmp_path / "again"))
    assert kept == [(label, value) for label, value in everything if label != "Disease"]


@pytest.mark.parametrize("key", ["threshold", "threshold.Disease"])
def test_spacy_find_threshold(train_once, tmp_path, key):
    """Its table has the scores of the pipeline with each threshold, and it names the best one."""
    types = key.count(".") == 1
    nlp = train_once(35, drop=0.1, **({"threshold": {"Disease": 0.0}} if types else {}))
    safe_save(nlp, tmp_path / "model")
    data = tmp_path / "dev.spacy"
    DocBin(docs=[example.reference for example in make_examples(nlp)]).to_disk(data)
    result = run_spacy("find-threshold", tmp_path / "model", data, "mslm", key, "ents_r", "-n", 3)
    assert result.returncode == 0, result.stderr
    rows = dict(re.findall(r"^(\d\.\d+|\d)\s+(\d\.\d+)", result.stdout, re.MULTILINE))
    expected = {}
    for value in (0.0, 0.5, 1.0):
        nlp.get_pipe("mslm").cfg["threshold"] = {"Disease": value} if types else value
        expected[value] = round(nlp.evaluate(make_examples(nlp))["ents_r"], 3)
    assert {float(k): float(v) for k, v in rows.items()} == expected
    assert expected[0.0] > expected[1.0]
    assert "Best threshold: 0.0 with ents_r" in result.stdout
