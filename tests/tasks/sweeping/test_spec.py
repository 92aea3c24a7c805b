"""What a spec says, and what is wrong with it."""

from pathlib import Path

import pytest
import srsly
from hypothesis import given
from hypothesis import strategies as st

from spacy_mslm.tasks.sweeping.search import shown
from spacy_mslm.tasks.sweeping.spec import Spec, read_spec

from .specs import write_data, write_spec

ROOT = Path(__file__).resolve().parents[3]
SPECS = ROOT / "benchmarks" / "specs"


@pytest.fixture(autouse=True)
def in_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    """Configs are found by their names."""
    monkeypatch.chdir(ROOT)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("specs")
    write_data(path, ("a", "b"))
    return path


def read(root: Path, **content: object) -> Spec:
    return read_spec(write_spec(root, **{"sets": ["a"], **content}), root / "runs")


def test_trials_are_overrides_times_sets_times_seeds(root: Path) -> None:
    spec = read(
        root,
        sets=["a", "b"],
        seeds=[0, 1],
        overrides={"vars.limit": 500, "paths.text": "{output}/{name}/{set}-{seed}.txt"},
        trials={
            "vanilla": {"config": "mslm"},
            "other": {
                "config": "mslm",
                "sets": ["b"],
                "overrides": {"vars.limit": 2500, "system.seed": "{seed}"},
            },
        },
    )
    keys = ["vanilla-a-s0", "vanilla-b-s0", "vanilla-a-s1", "vanilla-b-s1"]
    assert [trial.key for trial in spec.trials] == [*keys, "other-b-s0", "other-b-s1"]
    text = f"{root}/runs/vanilla/a-0.txt"
    assert spec.trials[0].overrides == {"vars.limit": 500, "paths.text": text}
    assert spec.trials[0].varied == {}
    # What is written as text is read as an option of a command is.
    assert spec.trials[5].overrides["system.seed"] == 1
    assert spec.trials[5].varied == {"vars.limit": 2500, "system.seed": "{seed}"}


def test_a_grid_has_all_combinations(root: Path) -> None:
    weights = [{"@misc": "spacy_mslm.UniformWeights.v1"}, "${maskings.none}"]
    grid = {"vars.elm_rate": [0.5, 1.0], "vars.mask_weights": weights}
    trials = read(root, config="mslm", grid=grid).trials
    assert [trial.varied for trial in trials] == [
        {"vars.elm_rate": rate, "vars.mask_weights": weight}
        for rate in (0.5, 1.0)
        for weight in weights
    ]
    assert trials[1].name == "elm_rate=0.5,mask_weights=maskings.none"
    assert trials[0].name.startswith("elm_rate=0.5,mask_weights=spacy_mslm.UniformWeights.v1-")


def test_settings_with_the_same_end_are_named_in_full(root: Path) -> None:
    rates = ("training.optimizer.learn_rate.rate", "training.optimizer.head_learn_rate.rate")
    (trial,) = read(root, config="mslm", grid={name: [0.1] for name in rates}).trials
    assert trial.name == f"{rates[0]}=0.1,{rates[1]}=0.1"


def test_sets_can_be_files_of_any_name(root: Path) -> None:
    a, b = root / "data" / "a", root / "data" / "b"
    files = {
        "train": str(a / "train.tsv"),
        "dev": str(a / "devel.tsv"),
        "test": str(b / "test.tsv"),
    }
    spec = read(root, data=None, sets={"a-to-b": files}, trials={"x": {"config": "vanilla"}})
    assert spec.sets["a-to-b"]._asdict() == files
    assert [trial.key for trial in spec.trials] == ["x-a-to-b-s0"]


def test_a_trial_may_have_a_set_that_others_have_not(root: Path) -> None:
    trials = {"x": {"config": "vanilla"}, "y": {"config": "vanilla", "sets": ["b"]}}
    assert [trial.key for trial in read(root, trials=trials).trials] == ["x-a-s0", "y-b-s0"]


ONE = {"trials": {"x": {"config": "mslm"}}}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({**ONE, "overides": {}}, "unknown key 'overides' in the spec. Did you mean 'overrides'"),
        ({"trials": {"x": {"konfig": "mslm"}}}, "'konfig' in the trial x. Did you mean 'config'"),
        ({**ONE, "grid": {"vars.elm_rate": [1.0]}}, "needs the 'config' that it varies"),
        ({**ONE, "grid": {"vars.elm_rate": 1.0}}, "settings to lists of values"),
        ({}, "nothing to run"),
        ({**ONE, "split": "train"}, "split is 'train'"),
        ({**ONE, "split": None}, "has no 'split'"),
        ({**ONE, "seeds": [0, 0]}, "different whole numbers"),
        ({**ONE, "seeds": []}, "different whole numbers"),
        ({**ONE, "measure": ["speed"]}, "measure is 'speed'"),
        ({**ONE, "sets": ["c"]}, "has no train set"),
        ({**ONE, "sets": "a", "data": None}, "sets must be a list"),
        ({**ONE, "encoder": "./nothing"}, "no encoder in ./nothing"),
        ({**ONE, "encoder": "configs/nothing"}, "no encoder in configs/nothing"),
        ({**ONE, "text": "nothing.txt"}, "no text nothing.txt"),
        ({"trials": {"x/y": {"config": "mslm"}}}, "'x/y' is no name for a trial"),
        ({"trials": {"x": {"config": "msml"}}}, "configs/msml.cfg: there is no such file"),
        ({"trials": {"x": None}}, "the trial x must be a mapping"),
        (
            {"trials": {"x": {"config": "mslm", "overrides": {"vars.elmrate": 1}}}},
            "trial x: configs/mslm.cfg has no setting vars.elmrate. Did you mean --vars.elm_rate",
        ),
        (
            {"trials": {"x": {"config": "mslm", "overrides": {"vars.masking": "${maskings.no}"}}}},
            "trial x: ",
        ),
        (
            {"trials": {"x": {"config": "mslm", "overrides": {"training.dropout": 7}}}},
            "training.dropout is 7",
        ),
        (
            {"config": "mslm", "grid": {"vars.pmi": [1]}, "trials": {}},
            "has no setting vars.pmi",
        ),
        (
            {"config": "mslm", "grid": {"vars.masking": ["${maskings.none}", "maskings.none"]}},
            "two trials masking=maskings.none-a-s0",
        ),
        ({"trials": {"x": {"config": "mslm", "drop_mentions": 2}}}, "between 0 and 1"),
        ({**ONE, "overrides": ["x"]}, "overrides of the spec must be a mapping"),
        ({"config": "mslm", "search": {"trials": 3}}, "no 'values'"),
        ({"config": "mslm", "search": {"values": {"a": [1]}, "trials": "x"}}, "a whole number"),
        ({"config": "mslm", "search": {"values": {"a": [1]}, "metod": "x"}}, "mean 'method'"),
        (
            {"config": "mslm", "search": {"values": {"a": {"low": 1}}}},
            "needs numbers 'low' and 'high'",
        ),
        ({"config": "mslm", "search": {"values": {"a": {"low": 2, "high": 1}}}}, "less than"),
        (
            {"config": "mslm", "search": {"values": {"a": [1]}, "method": "asha"}},
            "method is 'asha'",
        ),
        (
            {"config": "mslm", "search": {"values": {"vars.rate": [1]}, "method": "halving"}},
            "halving needs 'steps'",
        ),
        (
            {
                "config": "mslm",
                "search": {"values": {"vars.rat": [1]}, "method": "halving", "steps": [1, 2]},
            },
            "Did you mean --vars.rat",
        ),
    ],
)
def test_what_is_wrong_is_said_before_any_trial(root, content, message) -> None:
    with pytest.raises(ValueError) as caught:
        read(root, **content)
    assert message in str(caught.value) and "\n" not in str(caught.value)
    assert str(root / "spec.yml") in str(caught.value)
    assert not (root / "runs").exists()


def test_a_name_that_occurs_twice_is_an_error(root: Path) -> None:
    path = root / "twice.yml"
    path.write_text(write_spec(root, **ONE).read_text() + "\ntrials: {}\n")
    with pytest.raises(ValueError, match='duplicate key "trials"'):
        read_spec(path, root / "runs")


@given(st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=3, unique=True), max_size=3))
def test_names_of_a_grid_are_different(values: list[list[float]]) -> None:
    for own in values:
        assert len({shown(value) for value in own}) == len(own)


@pytest.mark.shared
@pytest.mark.skipif(not (ROOT / "../shared/blurb").exists(), reason="needs ../shared")
@pytest.mark.parametrize("path", sorted(SPECS.glob("*.yml")), ids=lambda path: path.stem)
def test_shipped_specs_are_read(path: Path) -> None:
    trials = read_spec(path, Path("runs")).trials
    assert len({trial.key for trial in trials}) == len(trials)
    assert any(trial.config == "vanilla" for trial in trials)


def test_the_search_keeps_to_its_budget() -> None:
    spec = srsly.read_yaml(SPECS / "search.yml")
    runs = [
        len(trial.get("sets", spec["sets"])) * len(trial.get("seeds", spec["seeds"]))
        for trial in spec["trials"].values()
        if trial["config"] != "vanilla"
    ]
    assert sum(runs) <= 24 and spec["split"] == "dev"
