"""Data that a spec asks for."""

import gzip
from pathlib import Path

import pytest

from spacy_mslm.corpus.formats.iob import read_iob
from spacy_mslm.tasks.sweeping.data import drop_mentions, write_text
from spacy_mslm.tasks.sweeping.spec import read_spec

from ...helpers import DEV, TRAIN, write_iob
from .specs import write_data, write_spec

ROOT = Path(__file__).resolve().parents[3]


def test_text_for_adaptation_has_no_sentence_of_dev_or_test(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    # Also not of sets that the spec does not name.
    write_data(tmp_path, ("tiny",))
    (tmp_path / "data" / "other").mkdir()
    write_iob(tmp_path / "data" / "other" / "test.tsv", ["no/O history/O of/O mice/O ./O"])
    held_out = DEV[0].replace("/O", "").replace("/B-Disease", "").replace("/B-Chemical", "")
    lines = ["Something else.", held_out.capitalize().replace(" .", "."), "No history of mice."]
    lines.append("no/O history/O")
    source = tmp_path / "text.txt.gz"
    source.write_bytes(gzip.compress("\n".join(lines).encode()))
    trials = {"x": {"config": "vanilla"}}
    spec = read_spec(write_spec(tmp_path, text=str(source), trials=trials), tmp_path / "out")
    for name in ("one", "two"):
        write_text(spec, tmp_path / name)
    left = gzip.decompress((tmp_path / "one").read_bytes()).decode().splitlines()
    assert left == [lines[0], lines[3]]
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_dropped_mentions_are_a_share_of_all(tmp_path):
    write_iob(tmp_path / "all.tsv", TRAIN * 40)
    before = list(read_iob(tmp_path / "all.tsv"))
    after = list(read_iob(drop_mentions(tmp_path / "all.tsv", tmp_path / "some.tsv", 0.2)))
    assert [sentence.words for sentence in after] == [sentence.words for sentence in before]
    for old, new in zip(before, after, strict=True):
        assert set(new.mentions) <= set(old.mentions)
    kept = sum(len(s.mentions) for s in after) / sum(len(s.mentions) for s in before)
    assert kept == pytest.approx(0.8, abs=0.05)
