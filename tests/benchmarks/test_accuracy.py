"""The stored results of specs, and the figures of the report. The runner itself is tested in
tests/tasks/sweeping."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from benchmarks.accuracy_report import N_COUNTS, compare, unpack
from spacy_mslm.scoring.counts import COUNTS, pack

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
@given(arrays(np.uint8, st.tuples(st.integers(0, 40), st.just(N_COUNTS))))
def test_counts_survive_the_way_through_json(counts):
    assert len(COUNTS) == N_COUNTS
    assert np.array_equal(unpack(json.loads(json.dumps(pack(counts)))), counts)


def test_differences_by_hand():
    # Ten sentences of one gold mention; the baseline finds 5 and predicts 10, the trial finds 8 and
    # predicts 10; of 4 unseen mentions they find 1 and 3.
    counts = np.zeros((2, 1, 10, N_COUNTS), dtype=np.uint8)
    counts[..., 0] = counts[..., 1] = 1
    counts[0, 0, :5, 2] = 1
    counts[1, 0, :8, 2] = 1
    counts[:, 0, 4:8, 3] = 1
    counts[0, 0, 4:5, 4] = 1
    counts[1, 0, 4:7, 4] = 1
    f, em, unseen = compare([counts])
    assert f.mean == pytest.approx(100 * (16 / 20 - 10 / 20))
    assert em.mean == pytest.approx(100 * (8 / 10 - 5 / 10))
    assert unseen.mean == pytest.approx(100 * (3 / 4 - 1 / 4))
    # Of ten draws, the number k of sentences 5, 6, 7 is binomial: 10 k / 10 points of EM.
    draws = np.random.default_rng(1).binomial(10, 0.3, size=100_000)
    assert (em.low, em.high) == pytest.approx(tuple(np.percentile(draws, [2.5, 97.5]) * 10))


def test_seeds_are_drawn_too():
    """Where sentences do not differ, the interval is that of the seeds."""
    counts = np.zeros((2, 2, 50, N_COUNTS), dtype=np.uint8)
    counts[..., :2] = 1
    counts[1, 1, :, 2] = 1  # one seed of the trial finds all, everything else nothing
    _, em, _ = compare([counts])
    assert (em.mean, em.low, em.high) == (50.0, 0.0, 100.0)
    same, _, _ = compare([counts[[0, 0]]])
    assert tuple(same) == (0.0, 0.0, 0.0)


def test_sets_are_pooled_with_equal_weight():
    small, large = (np.zeros((2, 1, n, N_COUNTS), dtype=np.uint8) for n in (10, 1000))
    for counts in (small, large):
        counts[..., :2] = 1
    small[1, 0, :, 2] = 1
    _, em, _ = compare([small, large])
    assert em.mean == 50.0
