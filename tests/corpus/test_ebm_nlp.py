"""EBM-NLP: its layout and labels, and that it is not compared with the paper's version."""

import json

import pytest

from spacy_mslm.corpus.formats.ebm_nlp import is_ebm_nlp, read_ebm_nlp
from spacy_mslm.tasks import convert

from ..commands import run_spacy
from ..helpers import read_docs
from .conftest import LAYER, STARTS, TYPES


def test_command_converts_it_and_marks_it_as_not_comparable(ebm_nlp, tmp_path):
    result = run_spacy("mslm", "convert", ebm_nlp, tmp_path / "out")
    told = " ".join((result.stdout + result.stderr).split())
    assert result.returncode == 0, told
    assert "train ebm_nlp 10 120 30 dev ebm_nlp 2 24 6" in told
    assert all(f"{label} 10 2" in told for label in ("Mortality", "Pain", "Physical"))
    assert "not comparable" in told and "NOT COMPARABLE" in told
    assert "train: 10 gold mention(s) left out, each as it has no type" in told
    assert "101 41:47, 102 41:47" in told and "secret" not in told
    stats = json.loads((tmp_path / "out" / "stats.json").read_text(encoding="utf8"))
    assert stats["set"] == "ebm_nlp" and stats["paper"]["comparable"] is False
    assert stats["documents"] == {"train": 10, "dev": 2, "test": 2}
    assert stats["sentences"] == {"train": 20, "dev": 4, "test": 4}
    docs = read_docs(tmp_path / "out" / "train.spacy")
    assert [doc.user_data["id"] for doc in docs] == [str(n) for n in range(101, 112) if n != 110]
    doc = docs[0]
    assert [(e.start, e.end, e.label_) for e in doc.ents] == [
        (2, 4, "Physical"),
        (6, 7, "Pain"),
        (9, 10, "Mortality"),
    ]
    assert [token.ent_iob_ for token in doc] == [*list("OOBIOOBO"), "", "B", "O", "O"]


def test_dev_is_every_tenth_of_train(ebm_nlp):
    names = {split: [s.id for s in read_ebm_nlp(ebm_nlp, split)] for split in ("dev", "test")}
    assert names == {"dev": ["100", "110"], "test": ["200", "201"]}
    assert is_ebm_nlp(ebm_nlp) and not is_ebm_nlp(ebm_nlp / "documents")


def test_adjacent_labels_are_two_mentions_and_labels_are_data(ebm_nlp):
    path = ebm_nlp / LAYER.format("hierarchical_labels", "test/gold", 200)
    path.write_text("4,4,5,6,6,0,0,0,0,0,0,0\n", encoding="utf8")
    first, _ = read_ebm_nlp(ebm_nlp, "test")
    assert first.mentions == [(0, 2, "Adverse_effects"), (2, 3, "Mental"), (3, 5, "Other")]


@pytest.mark.parametrize(
    "layer, labels, message",
    [
        ("hierarchical_labels", TYPES[:-2], "line 1: .* one label"),
        ("hierarchical_labels", TYPES + ",0", "line 1: .* one label"),
        ("hierarchical_labels", "", "line 1: .* one label"),
        ("hierarchical_labels", TYPES[:-1] + "7", "line 1: .* whole number"),
        ("hierarchical_labels", TYPES[:-1] + "secret", "line 1: .* whole number"),
        ("starting_spans", STARTS[:-1] + "2", "line 1: .* whole number"),
        ("starting_spans", None, "is missing, but 201.AGGREGATED.ann needs it"),
    ],
)
def test_broken_labels(ebm_nlp, tmp_path, layer, labels, message):
    path = ebm_nlp / LAYER.format(layer, "test/gold", 201)
    path.unlink() if labels is None else path.write_text(labels, encoding="utf8")
    with pytest.raises(ValueError, match=message) as err:
        convert(ebm_nlp, tmp_path / "out")
    assert str(path) in str(err.value)
    assert "secret" not in str(err.value).replace(str(tmp_path), "")
    assert not (tmp_path / "out").exists()


def test_missing_documents_and_splits(ebm_nlp):
    tokens = ebm_nlp / "documents" / "201.tokens"
    tokens.write_text(" \n", encoding="utf8")
    with pytest.raises(ValueError, match=r"201\.tokens, line 1: .* at least one token"):
        list(read_ebm_nlp(ebm_nlp, "test"))
    tokens.unlink()
    with pytest.raises(ValueError, match=r"201\.tokens is missing"):
        list(read_ebm_nlp(ebm_nlp, "test"))
    for file in (ebm_nlp / LAYER.format("hierarchical_labels", "test/gold", 0)).parent.iterdir():
        file.unlink()
    with pytest.raises(ValueError, match="holds no document"):
        list(read_ebm_nlp(ebm_nlp, "test"))
