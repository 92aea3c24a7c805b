"""Tuning: what is tried, that the comparison is fair, and what is written."""

import json
from pathlib import Path

import numpy as np
import pytest
import spacy
from thinc.api import Config

from spacy_mslm.scoring.bootstrap import Difference
from spacy_mslm.tasks import tuning
from spacy_mslm.tasks.tuning import Space, Tuned, f1, name_of, tune, write
from spacy_mslm.util.locks import read_lines

from ..commands import run_spacy
from .sweeping.specs import LEARNING, write_data

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "configs" / "mslm.cfg"


@pytest.fixture
def overrides(tmp_path: Path) -> dict:
    data = write_data(tmp_path) / "tiny"
    paths = {"paths.train": str(data / "train.tsv"), "paths.dev": str(data / "devel.tsv")}
    return {**paths, "vars.encoder": str(tmp_path / "encoder"), **LEARNING}


def test_without_text_masks_matter_in_the_mixed_view_only(overrides):
    space = Space(CONFIG, overrides)
    found = space.candidates()
    assert {settings["vars.view"] for settings in found} == {"mixed"}
    assert len(found) == 4 * 4
    # Beside a masked-LM loss they matter in both; the default is not among them.
    loss = {"components.mslm.loss_weights.mlm": 0.1}
    found = Space(CONFIG, {**overrides, **loss, "vars.blm_rate": 0.15}).candidates()
    own = {"vars.view": "clean", "vars.elm_rate": 0.5, "vars.blm_rate": 0.15}
    assert len(found) == 2 * 4 * 4 - 1 and own not in found
    assert len({name_of(settings) for settings in found}) == len(found)


def test_with_text_the_adaptation_has_three_lengths(overrides, tmp_path):
    text = {"paths.text": "text.txt", "paths.adapted": "adapted"}
    space = Space(CONFIG, {**overrides, **text})
    name = "initialize.components.mslm.adaptation.steps"
    found = space.candidates()
    assert {settings[name] for settings in found} == {200, 400, 800}
    assert len(found) == 2 * 4 * 4 * 3 - 1
    short = space.short({name: 800, "vars.view": "mixed"})
    assert (short["training.max_steps"], short[name]) == (LEARNING["training.max_steps"] // 3, 266)
    # Each training adapts an encoder of its own, with its own seed.
    trial = space.spec(tmp_path / "out", seed=7).make_trials("x", {}, seeds=[7])[0]
    assert trial.overrides["paths.adapted"] == f"{tmp_path}/out/adapted/x-s7"
    assert trial.overrides["initialize.components.mslm.adaptation.seed"] == 7


def test_a_config_without_masks_has_nothing_to_tune(overrides):
    with pytest.raises(ValueError, match="has no masks, so there is nothing to tune"):
        Space(ROOT / "configs" / "vanilla.cfg", overrides)


def test_missing_paths_are_told(overrides, tmp_path):
    del overrides["paths.dev"]
    with pytest.raises(ValueError, match=r"dev of \[paths\] is missing"):
        tune(CONFIG, tmp_path / "out", overrides)
    assert not (tmp_path / "out").exists()


def test_f1_by_hand():
    # 4 gold and 2 predicted mentions, 1 of them exact: precision 1/2, recall 1/4.
    assert f1(np.array([[3, 1, 1, 0, 0], [1, 1, 0, 0, 0]])) == pytest.approx(100 / 3)
    assert f1(np.zeros((3, 5), dtype=int)) == 0.0


@pytest.mark.parametrize("low", [-0.1, 0.2])
def test_the_config_that_is_written_is_complete(overrides, tmp_path, low):
    settings = {"vars.view": "mixed", "vars.elm_rate": 0.25, "vars.blm_rate": 0.225}
    found = Tuned(
        *(tmp_path / "config.cfg", low > 0, settings, Difference(1.0, low, 2.0)),
        *(70.0, 71.0, 100, (1, 2), 9, 4),
    )
    write(found, Space(CONFIG, overrides))
    config = Config().from_disk(found.path)
    expected = settings if low > 0 else {"vars.view": "clean", "vars.elm_rate": 0.5}
    for name, value in expected.items():
        assert config["vars"][name.removeprefix("vars.")] == value
    # With what the user has set, and without what only trials have.
    assert config["paths"]["train"] == overrides["paths.train"]
    assert "limit" not in config["corpora"]["dev"]
    nlp = spacy.util.load_model_from_config(config, auto_fill=True, validate=True)
    assert nlp.pipe_names == ["mslm"]
    assert json.loads((tmp_path / "tuning.json").read_text())["better"] is (low > 0)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_search_compares_on_what_it_has_not_seen(overrides, tmp_path, monkeypatch):
    monkeypatch.setattr(tuning, "ELM_RATES", (0.5,))
    monkeypatch.setattr(tuning, "BLM_RATES", (0.0,))
    found = tune(CONFIG, tmp_path / "out", overrides, minutes=600, seed=3, seeds=1, threads=1)
    rows = read_lines(tmp_path / "out" / "results.jsonl")
    name = "view=mixed,elm_rate=0.5,blm_rate=0.0"
    assert [(row["trial"], row["seed"]) for row in rows] == [
        *(("default", 3), (f"{name}@short", 3), (name, 3), ("default", 4), (name, 4)),
    ]
    assert (found.trials, found.tried, found.seeds, found.documents) == (5, 1, (4,), 1)
    assert found.better is (found.difference.low > 0)
    # Repeated, nothing is trained, and the result is the same.
    again = tune(CONFIG, tmp_path / "out", overrides, minutes=600, seed=3, seeds=1, threads=1)
    assert again == found
    assert len(read_lines(tmp_path / "out" / "results.jsonl")) == 5
    result = run_spacy("train", found.path, "--output", tmp_path / "model", cwd=ROOT)
    assert result.returncode == 0, result.stderr
