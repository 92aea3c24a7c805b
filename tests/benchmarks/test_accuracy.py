"""The trial runner: what a spec says, that no trial is run twice, and the figures of the report."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
import srsly
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from benchmarks.accuracy import COUNTS, SPECS, drop_mentions, pack, read_spec, write_text
from spacy_mslm.corpus.formats.iob import read_iob
from spacy_mslm.scoring.counts import unpack

from ..commands import run_python
from ..conftest import build_encoder
from ..helpers import DEV, TRAIN, write_iob

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two trials of a few steps."""
    root = tmp_path_factory.mktemp("accuracy")
    data = root / "blurb" / "tiny"
    data.mkdir(parents=True)
    for split, sentences in (("train", TRAIN), ("devel", DEV), ("test", DEV)):
        write_iob(data / f"{split}.tsv", sentences)
    path = root / "tiny.yml"
    srsly.write_yaml(
        path,
        {
            "split": "test",
            "data": str(root / "blurb"),
            "encoder": str(build_encoder(root / "encoder", max_position_embeddings=300)),
            "sets": ["tiny"],
            "seeds": [0],
            "overrides": {
                "vars.limit": 4,
                "vars.sample_seed": 0,
                "training.max_steps": 2,
                "training.eval_frequency": 2,
            },
            "trials": {
                "vanilla": {"config": "vanilla"},
                "joint": {
                    "config": "mslm",
                    "overrides": {"vars.elm_rate": 0.5},
                    "drop_mentions": 0.5,
                },
            },
        },
    )
    return path


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

    # Half of the results are lost: only that trial is run again.
    results.write_text(json.dumps(rows[0]) + "\n")
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


@pytest.mark.parametrize("path", sorted(SPECS.glob("*.yml")), ids=lambda path: path.stem)
def test_shipped_specs_are_read(path: Path) -> None:
    trials = read_spec(path, Path("runs")).trials
    assert len({trial.key for trial in trials}) == len(trials)
    assert any(trial.config == "vanilla" for trial in trials)
    for trial in trials:
        assert (ROOT / "configs" / f"{trial.config}.cfg").exists()


def test_trials_are_overrides_times_sets_times_seeds(tmp_path: Path) -> None:
    spec = {"split": "dev", "data": "data", "encoder": "encoder", "sets": ["a", "b"]}
    spec |= {
        "seeds": [0, 1],
        "overrides": {"vars.limit": 500, "paths.text": "{output}/{set}-{seed}.txt"},
    }
    spec["trials"] = {
        "vanilla": {"config": "vanilla"},
        "other": {"config": "mslm", "sets": ["b"], "overrides": {"vars.limit": 2500}},
    }
    srsly.write_yaml(tmp_path / "spec.yml", spec)
    trials = read_spec(tmp_path / "spec.yml", Path("/runs")).trials
    keys = ["vanilla-a-s0", "vanilla-b-s0", "vanilla-a-s1", "vanilla-b-s1"]
    assert [trial.key for trial in trials] == [*keys, "other-b-s0", "other-b-s1"]
    assert trials[0].overrides == {"vars.limit": 500, "paths.text": "/runs/a-0.txt"}
    assert trials[4].overrides == {"vars.limit": 2500, "paths.text": "/runs/b-0.txt"}


def test_the_search_keeps_to_its_budget() -> None:
    spec = read_spec(SPECS / "search.yml", Path("runs"))
    trials = spec.trials
    assert sum(trial.config != "vanilla" for trial in trials) <= 24
    assert spec.split == "dev"
    assert {trial.overrides["vars.limit"] for trial in trials} <= {500, 2500}


def test_text_for_adaptation_has_no_sentence_of_dev_or_test(spec, tmp_path):
    held_out = DEV[0].replace("/O", "").replace("/B-Disease", "").replace("/B-Chemical", "")
    lines = ["Something else.", held_out.capitalize().replace(" .", "."), "no/O history/O"]
    source, target = tmp_path / "text.txt.gz", tmp_path / "copy.txt.gz"
    source.write_bytes(gzip.compress("\n".join(lines).encode()))
    write_text(source, spec.parent / "blurb", target)
    assert gzip.decompress(target.read_bytes()).decode().splitlines() == [lines[0], lines[2]]


def test_dropped_mentions_are_a_share_of_all(tmp_path):
    write_iob(tmp_path / "all.tsv", TRAIN * 40)
    before = list(read_iob(tmp_path / "all.tsv"))
    after = list(read_iob(drop_mentions(tmp_path / "all.tsv", tmp_path / "some.tsv", 0.2)))
    assert [sentence.words for sentence in after] == [sentence.words for sentence in before]
    for old, new in zip(before, after, strict=True):
        assert set(new.mentions) <= set(old.mentions)
    kept = sum(len(s.mentions) for s in after) / sum(len(s.mentions) for s in before)
    assert kept == pytest.approx(0.8, abs=0.05)


# ---- figures ----


@settings(deadline=None)
@given(arrays(np.uint8, st.tuples(st.integers(0, 40), st.just(len(COUNTS)))))
def test_counts_survive_the_way_through_json(counts):
    assert np.array_equal(unpack(json.loads(json.dumps(pack(counts)))), counts)
