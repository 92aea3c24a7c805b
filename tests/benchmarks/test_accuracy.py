"""The stored results of specs, and the figures of the report. The runner itself is tested in
tests/tasks/sweeping."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from spacy_mslm.scoring.counts import COUNTS, pack, unpack

from ..commands import run_python
from ..helpers import DEV
from ..tasks.sweeping.specs import write_spec

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two trials of a few steps."""
    trials = {
        "vanilla": {"config": "vanilla"},
        "joint": {
            "config": "mslm",
            "overrides": {"vars.elm_rate": 0.5},
            "drop_mentions": 0.5,
        },
    }
    return write_spec(tmp_path_factory.mktemp("accuracy"), "tiny.yml", trials=trials)


def run(*arguments: object) -> str:
    result = run_python("-m", "benchmarks", "accuracy", *arguments, cwd=ROOT)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.slow
def test_trials_run_once_and_are_reported(spec, tmp_path):
    folders = ("--output", tmp_path / "runs", "--store", tmp_path / "results")
    run(spec, *folders)
    results = tmp_path / "results" / "tiny.jsonl"
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    assert [(row["trial"], row["set"], row["seed"]) for row in rows] == [
        ("vanilla", "tiny", 0),
        ("joint", "tiny", 0),
    ]
    for row in rows:
        totals = unpack(row["counts"]).sum(axis=0, dtype=int)
        assert len(unpack(row["counts"])) == len(DEV)
        assert totals[0] == sum(sentence.count("/B-") for sentence in DEV)
        assert row["em"] == totals[2] / totals[0]
        assert row["cpu_seconds"] > 0
    # Trained on a file that lacks some of the mentions, in a folder of its own.
    assert (tmp_path / "runs" / "tiny" / "joint-tiny-s0" / "train.tsv").exists()

    # Half of the results are lost: only that trial is run again. Results of earlier versions have
    # fewer fields.
    old = {k: v for k, v in rows[0].items() if k not in ("overrides", "protocol")}
    results.write_text(json.dumps(old) + "\n")
    log = tmp_path / "runs" / "tiny" / "vanilla-tiny-s0" / "train.log"
    stamp = log.stat().st_mtime_ns
    assert "joint-tiny-s0" in run(spec, *folders)
    assert log.stat().st_mtime_ns == stamp
    again = [json.loads(line) for line in results.read_text().splitlines()]
    same = {"p", "em", "f", "em_unseen", "ece", "counts"}
    assert [{k: row[k] for k in same} for row in again] == [
        {k: row[k] for k in same} for row in rows
    ]

    table = run("report", results)
    assert "tiny: test sets, clean text" in table
    assert "ΔF1 to vanilla" in table and "joint" in table
    assert "ΔF1 to joint" in run("report", results, "--against", "joint")


# ---- figures ----


@settings(deadline=None)
@given(arrays(np.uint8, st.tuples(st.integers(0, 40), st.just(len(COUNTS)))))
def test_counts_survive_the_way_through_json(counts):
    assert np.array_equal(unpack(json.loads(json.dumps(pack(counts)))), counts)
