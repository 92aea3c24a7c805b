"""The counts of Table 9 beside the paper's, and what a tokenizer can express in running text."""

import json
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_mslm.corpus.convert import load_tokenizer
from spacy_mslm.corpus.detokenise import count_expressible, detokenise
from spacy_mslm.corpus.formats.iob import read_iob
from spacy_mslm.corpus.formats.records import Sentence
from spacy_mslm.tasks import convert
from spacy_mslm.tasks.table9 import compare, read_paper

BLURB = Path(__file__).parents[3] / "shared" / "blurb"
NLP = load_tokenizer("blank:en")


def write_set(folder: Path) -> Path:
    folder.mkdir()
    (folder / "train.tsv").write_text(
        "A\tB-D\nB\tI-D\nC\tB-C\nD\tO\n\nE\tO\nF\tO\n", encoding="utf8"
    )
    (folder / "devel.tsv").write_text("A\tB-D\nB\tI-D\nC\tI-D\n", encoding="utf8")
    (folder / "test.tsv").write_text("A\tO\n\nB\tB-D\n", encoding="utf8")
    return folder


FIGURES = {
    "sentences": {"train": 2, "dev": 1, "test": 2},
    "classes": 2,
    "sentence_length": 11 / 5,
    "mentions": {"train": 2, "dev": 1, "test": 1},
    "mentions_per_sentence": 1.0,
    "mention_length": 7 / 4,
}


def test_figures_by_hand(tmp_path):
    conversion = convert(write_set(tmp_path / "in"), tmp_path / "out")
    stats = json.loads((tmp_path / "out" / "stats.json").read_text(encoding="utf8"))
    assert stats == conversion.statistics
    assert {name: stats[name] for name in FIGURES} == FIGURES
    assert stats["labels"]["train"] == {"C": 1, "D": 1}
    assert stats["paper"] is None and stats["differences"] == []
    assert stats["detokenised"]["train"] == {"mentions": 2, "expressible": 2}
    assert not any(row.differs for row in conversion.rows)


def test_a_set_of_the_paper_is_compared_by_the_name_of_the_folder_or_by_option(tmp_path):
    source = write_set(tmp_path / "in")
    by_folder = convert(source, tmp_path / "bc2gm").statistics
    by_name = convert(source, tmp_path / "x", set_name="bc2gm").statistics
    assert by_folder == by_name
    assert by_name["paper"]["mentions"]["train"] == 15197
    # Two types, and the paper has 2 classes.
    assert "mentions, train" in by_name["differences"] and "classes" not in by_name["differences"]


def test_means_are_compared_at_the_papers_decimals():
    paper = {"sentence_length": 2.2, "mention_length": 1.8, "mentions_per_sentence": 1.01}
    rows = {row.name: row for row in compare(FIGURES, paper)}
    assert not rows["sentence_length"].differs and not rows["mention_length"].differs
    assert rows["mentions_per_sentence"].differs
    assert rows["sentences, dev"].paper is None and not rows["sentences, dev"].differs
    empty = compare({**FIGURES, "mentions_per_sentence": None}, paper)
    assert not any(row.differs for row in empty)


def test_the_papers_table_is_whole():
    table = json.loads((files("spacy_mslm") / "data/table9.json").read_text("utf8"))
    assert len(table["sets"]) == 7
    for name in table["sets"]:
        paper = read_paper(name)
        assert FIGURES.keys() <= paper.keys() and table["note"] in paper["notes"]
        assert paper["sentences"].keys() == paper["mentions"].keys() == {"train", "dev", "test"}
    assert any("rotated" in note for note in read_paper("bc5cdr_chem")["notes"])
    assert not read_paper("ebm_nlp")["comparable"]
    assert read_paper("bc5cdr") == {}


# ---- detokenised text ----


@pytest.mark.parametrize(
    "split, text",
    [
        ("S - 100 ( 90 % ) , HMB - 45 .", "S-100 (90%), HMB-45."),
        ("Parkinson ' s [ A / B ] : p = 0 . 05", "Parkinson's [A/B]: p = 0.05"),
        ("the 5 ' UTR ; x . 5", "the 5' UTR; x. 5"),
        ("- a -", "-a-"),
    ],
)
def test_rules(split, text):
    words = split.split(" ")
    joined, starts = detokenise(words)
    assert joined == text
    assert [joined[s : s + len(w)] for s, w in zip(starts, words, strict=True)] == words


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(min_size=1, max_size=4) | st.sampled_from(".-(')%0s"), max_size=12))
def test_every_word_stays_where_its_offset_says(words):
    text, starts = detokenise(words)
    assert [text[s : s + len(w)] for s, w in zip(starts, words, strict=True)] == words
    assert text.replace(" ", "") == "".join(words).replace(" ", "")


def test_what_spacy_keeps_whole_cannot_be_expressed():
    words = ["the", "anti", "-", "CD", "4", "+", "and", "the", "IL", "-", "2R"]
    mentions = [(3, 5, "X"), (8, 11, "X")]
    sentences = [Sentence("a", words, mentions, 1), Sentence("b", words, [], 9)]
    assert count_expressible(sentences, NLP.tokenizer)[0] == 2
    whole = Sentence("c", ["IL", "-", "2"], [(0, 1, "X"), (0, 3, "X")], 1)
    assert count_expressible([whole], NLP.tokenizer)[0] == 1


@pytest.mark.shared
@pytest.mark.skipif(not BLURB.is_dir(), reason="needs ../shared/blurb")
def test_ncbi_disease(tmp_path):
    statistics = convert(BLURB / "ncbi_disease", tmp_path / "ncbi_disease").statistics
    assert statistics["mentions"] == {"train": 5134, "dev": 787, "test": 960}
    assert statistics["differences"] == [
        "sentences, train",
        "sentences, test",
        "classes",
        "sentence_length",
        "mentions, test",
    ]
    assert statistics["detokenised"]["test"] == {"mentions": 960, "expressible": 958}
    sentences = list(read_iob(BLURB / "ncbi_disease" / "test.tsv"))
    assert statistics["sentences"]["test"] == len(sentences)
