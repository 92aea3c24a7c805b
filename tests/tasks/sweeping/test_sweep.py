"""The command: trials are run once, whatever happens to it."""

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from spacy_mslm.scoring.counts import unpack
from spacy_mslm.util.locks import claimed, read_lines

from ...commands import run_spacy
from ...helpers import DEV
from .specs import FEW_STEPS, LEARNING, write_data, write_spec

ROOT = Path(__file__).resolve().parents[3]
NAN = {"training.optimizer.learn_rate.rate": 1e30, "training.optimizer.grad_clip": 0.0}
TRIALS = {"good": {"config": "vanilla"}, "nan": {"config": "vanilla", "overrides": NAN}}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_data(tmp_path)
    return tmp_path


def sweep(root: Path, *options: str, spec: str = "spec.yml") -> subprocess.CompletedProcess[str]:
    command = ["mslm", "sweep", root / spec, root / "out", *options]
    return run_spacy(*command, cwd=ROOT)


def said(result: subprocess.CompletedProcess[str]) -> str:
    """What the command printed, in one line: messages are wrapped."""
    return " ".join(result.stdout.split())


def test_nothing_is_written_if_something_is_wrong(root):
    write_spec(root, trials={"x": {"config": "vanilla", "overrides": {"vars.elm": 1}}})
    result = sweep(root)
    assert result.returncode == 1
    assert "vanilla.cfg has no setting vars.elm. Did you mean" in said(result)
    write_spec(root, trials=TRIALS)
    result = sweep(root, "--engine", "ray", "--address", "127.0.0.1:1")
    assert result.returncode == 1 and "No Ray cluster answers at 127.0.0.1:1" in said(result)
    result = sweep(root, "--address", "127.0.0.1:1")
    assert result.returncode == 1 and "--engine ray" in said(result)
    result = sweep(root, "--engine", "ray", "--threads", "2")
    assert result.returncode == 1 and "--threads are settings of this machine" in said(result)
    assert not (root / "out").exists()


@pytest.mark.slow
def test_a_trial_that_fails_does_not_stop_the_others(root):
    trials = dict(reversed(TRIALS.items()))
    write_spec(
        root,
        trials=trials,
        measure=["masked", "perplexity"],
        overrides=FEW_STEPS | {"training.max_steps": 4},
    )
    result = sweep(root, "--threads", "1")
    assert result.returncode == 1
    assert "1 of 2 trials failed" in said(result)
    (row,) = read_lines(root / "out" / "results.jsonl")
    (failure,) = read_lines(root / "out" / "failures.jsonl")
    assert (failure["trial"], failure["set"], failure["seed"]) == ("nan", "tiny", 0)
    assert "NaN or infinite" in failure["reason"] and Path(failure["log"]).is_file()
    assert f"nan-tiny-s0: {failure['reason']}" in said(result)
    # The row: scores, and the counts behind them.
    assert (row["trial"], row["protocol"], row["overrides"]) == ("good", "clean", {})
    totals = unpack(row["counts"]).sum(axis=0, dtype=int)
    assert len(unpack(row["counts"])) == len(DEV)
    assert totals[0] == sum(sentence.count("/B-") for sentence in DEV)
    assert row["em"] == totals[2] / totals[0]
    assert row["cpu_seconds"] > 0 and row["perplexity"] > 1 and row["masked_f"] is not None
    # No weights are left.
    assert os.listdir(root / "out" / "good-tiny-s0") == ["train.log"]

    # Repaired, only that one is run.
    log = root / "out" / "good-tiny-s0" / "train.log"
    stamp = log.stat().st_mtime_ns
    write_spec(
        root,
        "other.yml",
        trials={**TRIALS, "nan": {"config": "vanilla"}},
        measure=["masked", "perplexity"],
    )
    result = sweep(root, spec="other.yml")
    assert result.returncode == 1 and "another spec" in said(result)
    assert log.stat().st_mtime_ns == stamp


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_an_interrupted_sweep_continues(root, number):
    config = {"config": "vanilla", "grid": {"training.dropout": [0.0, 0.1]}}
    write_spec(root, overrides=LEARNING, **config)
    command = [sys.executable, "-m", "spacy", "mslm", "sweep", root / "spec.yml", root / "out"]
    process = subprocess.Popen(
        [*command, "--threads", "1"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        start_new_session=True,
        # Where tests run in the background of a shell, processes inherit that Ctrl-C is ignored.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    checkpoint = root / "out" / "dropout=0.0-tiny-s0" / "checkpoint"
    while not checkpoint.exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(number)
    output = process.communicate()[0].decode()
    if number == signal.SIGINT:
        assert process.returncode == 130 and "Repeat the command" in output
    # The training ends, too: it has held the lock of the trial.
    until = time.monotonic() + 600
    while True:
        with claimed(root / "out" / "dropout=0.0-tiny-s0.lock") as lock:
            if lock is not None:
                break
        assert time.monotonic() < until
        time.sleep(0.1)
    assert sweep(root, "--threads", "1").returncode == 0
    rows = read_lines(root / "out" / "results.jsonl")
    assert sorted(row["trial"] for row in rows) == ["dropout=0.0", "dropout=0.1"]
