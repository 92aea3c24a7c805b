"""The folder of a sweep: which spec it belongs to, what is finished and what has failed."""

from pathlib import Path

import pytest

from spacy_mslm.tasks.sweeping.results import SweepFolder, row_key
from spacy_mslm.tasks.sweeping.spec import Spec, read_spec
from spacy_mslm.tasks.sweeping.trial import _reason
from spacy_mslm.util.locks import append_line

from ...helpers import DEV, write_iob
from .specs import write_data, write_spec

ROOT = Path(__file__).resolve().parents[3]
TRIALS = {"x": {"config": "vanilla"}, "y": {"config": "mslm", "overrides": {"vars.elm_rate": 0.5}}}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(ROOT)
    write_data(tmp_path, ("tiny", "other"))
    return tmp_path


def read(root: Path, **content: object) -> Spec:
    return read_spec(write_spec(root, **{"trials": TRIALS, **content}), root / "out")


def open_folder(root: Path, **content: object) -> SweepFolder:
    folder = SweepFolder(root / "out")
    folder.open(read(root, **content))
    return folder


def test_a_spec_may_grow_and_shrink(root):
    open_folder(root)
    more = {**TRIALS, "z": {"config": "vanilla", "overrides": {"training.dropout": 0.0}}}
    open_folder(root, trials=more, sets=["tiny", "other"], seeds=[0, 1])
    open_folder(root, trials={"x": TRIALS["x"]})
    # What was left out is still known.
    with pytest.raises(ValueError, match=r"trials\.y differ from"):
        open_folder(root, trials={**TRIALS, "y": {"config": "vanilla"}})


@pytest.mark.parametrize(
    ("content", "differs"),
    [
        ({"split": "dev"}, "split"),
        ({"bf16": True}, "bf16"),
        ({"measure": ["masked"]}, "measure"),
        ({"overrides": {"training.max_steps": 3}}, "trials.x, trials.y"),
        ({"trials": {"x": {"config": "vanilla", "drop_mentions": 0.5}}}, "trials.x"),
        ({"trials": {"other": {"config": "vanilla"}}}, "it knows none of the trials"),
        ({"config": "mslm", "search": {"values": {"vars.rate": [0.1]}}}, "search"),
    ],
)
def test_a_folder_of_another_spec_is_refused(root, content, differs):
    folder = open_folder(root)
    folder.store({"trial": "x", "set": "tiny", "seed": 0, "f": 1.0})
    before = {path: path.read_bytes() for path in (root / "out").iterdir()}
    with pytest.raises(ValueError) as caught:
        open_folder(root, **content)
    assert f"{root / 'out'} has the trials of another spec" in str(caught.value)
    assert differs in str(caught.value)
    assert {path: path.read_bytes() for path in (root / "out").iterdir()} == before


def test_files_are_compared_by_their_content(root):
    open_folder(root)
    write_iob(root / "data" / "tiny" / "test.tsv", DEV[:1])
    with pytest.raises(ValueError, match=r"sets\.tiny differ"):
        open_folder(root)


def test_results_of_unknown_origin_are_refused(root):
    (root / "out").mkdir()
    (root / "out" / "results.jsonl").touch()
    with pytest.raises(ValueError, match=r"has a results\.jsonl, but no sweep\.json"):
        open_folder(root)


def test_a_folder_that_is_a_file_is_refused(root):
    (root / "out").touch()
    with pytest.raises(ValueError, match="is a file"):
        open_folder(root)


def test_a_trial_that_failed_and_then_succeeded_is_no_failure(root):
    folder = open_folder(root)
    x, y = folder_trials = read(root).trials
    for trial in [*folder_trials, x]:
        folder.fail(trial, "NaN loss", root / "train.log")
    assert [row_key(row) for row in folder.failed()] == [x.key, y.key]
    folder.store({"trial": "x", "set": "tiny", "seed": 0, "f": 0.5})
    folder.forget_failures()
    assert [row["reason"] for row in folder.failed()] == ["NaN loss"]
    assert len(folder.failures.read_text().splitlines()) == 1
    assert folder.done() == {x.key: 0.5}
    append_line(folder.results, {"trial": "y", "set": "tiny", "seed": 0, "f": 0.6})
    folder.forget_failures()
    assert not folder.failures.exists()


@pytest.mark.parametrize(
    ("log", "code", "reason"),
    [
        ("epoch 1\n\n✘ The training failed\nNaN loss in step 3.\n  Lower it.\n", 1, None),
        ("Traceback\n  File x\nRuntimeError: no memory\n", 1, "RuntimeError: no memory"),
        ("", 3, "exit code 3"),
        ("epoch 1\n", -9, "The process was killed by signal 9. If memory ran out"),
    ],
)
def test_the_reason_is_one_line(log, code, reason):
    expected = reason or "NaN loss in step 3. Lower it."
    found = _reason(log, code)
    assert found.startswith(expected) and "\n" not in found
    assert len(_reason("x" * 1000, 1)) == 300
