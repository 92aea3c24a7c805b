"""The PMI vocabulary: counts and PMI against numbers worked out by hand, its file, its command."""

import math
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.tokens import Doc, DocBin, Span

from spacy_mslm.masking import pmi as pmi_module
from spacy_mslm.masking.collocations import (
    Collocation,
    build_trie,
    find_collocations,
    read_collocations,
    write_collocations,
)
from spacy_mslm.masking.pmi import Level, find_vocabulary, pmi
from spacy_mslm.tasks.pmi import compare_with_mentions

from ..commands import run_spacy

VOCAB = spacy.blank("en").vocab


def make_docs(sentences: list[list[str]]) -> list[Doc]:
    return [
        Doc(VOCAB, words=words, sent_starts=[i == 0 for i in range(len(words))])
        for words in sentences
    ]


def vocabulary(sentences: list[list[str]], **settings: object) -> dict[str, tuple[float, int]]:
    found = find_vocabulary(make_docs(sentences), VOCAB, **{"min_chars": 0, **settings})
    return {" ".join(c.words): (c.pmi, c.occurrences) for c in found}


def test_pmi_of_two_words_by_hand():
    """`a b` and `c d e`, four times each: 20 words, 4 + 8 pairs, 4 triples.

    p(a b) = 4/12, p(a) = p(b) = 4/20: log((4/12) / (4/20)^2) = log(25/3)
    """
    found = vocabulary([["a", "b"], ["c", "d", "e"]] * 4, min_count=4)
    assert found["a b"] == (pytest.approx(math.log(25 / 3)), 4)
    assert set(found) == {"a b", "c d", "d e", "c d e"}


def test_pmi_of_three_words_by_hand():
    """The same text. p(c d e) = 4/4 = 1; the cuts of `c d e` explain it by

    c | d e   (4/20) (4/12) = 1/15     c d | e   1/15     c | d | e   (4/20)^3 = 1/125

    The best explanation, 1/15, gives the minimum: log 15.
    """
    found = vocabulary([["a", "b"], ["c", "d", "e"]] * 4, min_count=4)
    assert found["c d e"] == (pytest.approx(math.log(15)), 4)


def test_pmi_of_four_words_by_hand():
    """Counts given: p(w x y z) = 2/10, single words 5/100, pairs `w x` 4/40 and `y z` 8/40, `x y`
    2/40, triples 2/20. The cut into `w x` and `y z` explains most: (1/10) (1/5) = 1/50, more than
    w | x y z = (1/20) (1/10) = 1/200 or any with single words. log((1/5) / (1/50)) = log 10."""
    levels = {
        1: Level(100, {(i,): 5 for i in range(4)}),
        2: Level(40, {(0, 1): 4, (1, 2): 2, (2, 3): 8}),
        3: Level(20, {(0, 1, 2): 2, (1, 2, 3): 2}),
        4: Level(10, {(0, 1, 2, 3): 2}),
    }
    assert pmi((0, 1, 2, 3), levels) == pytest.approx(math.log(10))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.sampled_from("abcd"), max_size=12), max_size=12), st.integers(1, 3))
def test_counts_are_those_of_a_plain_count(sentences, min_count):
    counts: Counter[tuple[str, ...]] = Counter()
    for words in sentences:
        for n in (2, 3, 4):
            counts.update(tuple(words[i : i + n]) for i in range(len(words) - n + 1))
    expected = {" ".join(ngram): c for ngram, c in counts.items() if c >= min_count}
    found = vocabulary(sentences, min_count=min_count)
    assert {phrase: count for phrase, (_, count) in found.items()} == expected


def test_chunks_do_not_change_the_counts(monkeypatch):
    sentences = [list("abcab"), list("bca"), list("abc"), list("cabc")] * 5
    whole = vocabulary(sentences, min_count=2)
    for size in (1, 3, 7, 8):
        monkeypatch.setattr(pmi_module, "CHUNK", size)
        assert vocabulary(sentences, min_count=2) == whole


def test_ngrams_stay_within_sentences_and_pass_over_white_space():
    doc = Doc(VOCAB, words=["a", "b", ".", "A", "\n", "b"], sent_starts=[1, 0, 0, 1, 0, 0])
    found = find_vocabulary([doc], VOCAB, min_count=1, min_chars=0)
    assert {" ".join(c.words) for c in found} == {"a b", "b .", "a b .", "A b"}


def test_documents_are_read_once_and_not_kept():
    docs = (doc for doc in make_docs([["a", "b"]] * 5))
    assert [c.words for c in find_vocabulary(docs, VOCAB, min_chars=0)] == [("a", "b")]


def test_filters_leave_probabilities_alone():
    sentences = [
        ["The", "heart", "failure", "of", "T", "cell"],
        ["heart", "failure", ",", "IV"],
    ] * 3
    every = vocabulary(sentences, min_count=3)
    kept = vocabulary(sentences, min_count=3, min_chars=2, stop_words={"the", "of"})
    assert set(kept) == {"heart failure"}
    assert kept["heart failure"] == every["heart failure"]
    single = vocabulary(sentences, min_count=3, min_chars=1, stop_words={"the", "of"})
    assert set(single) == {"heart failure", "T cell"}


def test_words_with_spaces_are_left_out():
    """The file could not tell them from two words."""
    assert vocabulary([["New York", "City Hall", "is", "big"]] * 5).keys() == {"is big"}


def test_longest_first_and_ranked_within_each_length():
    sentences = [list("abcd"), list("ab"), list("xd"), list("ad")] * 5
    found = find_vocabulary(make_docs(sentences), VOCAB, min_chars=0)
    keys = [(-len(c.words), -c.pmi) for c in found]
    assert keys == sorted(keys)
    assert [len(found[0].words), len(found[-1].words)] == [4, 2]


# ---- finding ----


phrases = st.lists(st.sampled_from("ab"), min_size=2, max_size=4)


@given(st.lists(phrases, max_size=8), st.lists(st.sampled_from("abc"), max_size=15))
def test_the_trie_finds_what_a_scan_finds(collocations, words):
    expected = []
    for rank, phrase in enumerate(collocations):
        if phrase in collocations[:rank]:
            continue
        for start in range(len(words)):
            if words[start : start + len(phrase)] == phrase:
                expected.append((start, start + len(phrase)))
    assert find_collocations(build_trie(collocations), words) == expected


# ---- overlap with domain terms ----


def test_overlap_by_hand():
    entries = [Collocation(tuple(p.split()), 1.0, 5) for p in ("a b", "b c", "c d", "a b c d")]
    overlap = compare_with_mentions(entries, [("a", "b"), ("x", "b", "c"), ("a", "b", "c", "d")])
    assert [" ".join(c.words) for c in overlap.terms] == ["a b", "a b c d"]
    # "c d" is a part of "a b c d"
    assert [" ".join(c.words) for c in overlap.parts] == ["b c", "c d"]
    assert overlap.others == []


# ---- the file ----


def test_the_file_comes_back_as_it_was_written(tmp_path):
    path = tmp_path / "pmi.txt"
    entries = [
        Collocation(("#1", "β-catenin", "x\u2028y"), 1.25, 7),
        Collocation(("a", "#"), -0.5, 5),
    ]
    write_collocations(path, entries, ["a note"])
    assert path.read_text(encoding="utf8").startswith("# a note\n# PMI")
    assert list(read_collocations(path)) == entries
    assert [p.name for p in tmp_path.iterdir()] == ["pmi.txt"]


def test_a_file_that_an_editor_has_saved_is_read(tmp_path):
    path = tmp_path / "pmi.txt"
    path.write_bytes("\ufeff1.0\t5\ta b\r\n \r\n2.0\t5\tc d\r\n".encode())
    assert [c.words for c in read_collocations(path)] == [("a", "b"), ("c", "d")]


@pytest.mark.parametrize(
    "line", ["1.0\t5\tone", "x\t5\ta b", "a b", "1.0\t5\ta b c d e", "1\t5\ta  b"]
)
def test_a_broken_line_is_named_and_not_quoted(tmp_path, line):
    path = tmp_path / "pmi.txt"
    path.write_text(f"# x\n1.0\t5\tfine one\n{line}\n", encoding="utf8")
    with pytest.raises(
        ValueError, match=r"pmi\.txt, line 3: this is not a line of a PMI vocabulary"
    ):
        list(read_collocations(path))


# ---- the command ----


run = partial(run_spacy, "mslm", "pmi")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    docs = make_docs([["the", "heart", "failure", "gene", "was", "found"]] * 6)
    for doc in docs:
        doc.ents = [Span(doc, 1, 3, label="Disease")]
    path = tmp_path / "train.spacy"
    DocBin(docs=docs).to_disk(path)
    return path


def test_command_writes_a_vocabulary_and_shows_the_overlap(corpus, tmp_path):
    out = tmp_path / "deep" / "pmi.txt"
    result = run(corpus, out, "--overlap", fresh=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert [" ".join(c.words) for c in read_collocations(out)] == [
        "heart failure gene",
        "failure gene",
        "heart failure",
    ]
    told = " ".join(result.stdout.split())
    assert "2 words 2 3 words 1 4 words 0 in all 3" in told
    assert "an entity mention 1 33.3%" in told and "an entity mention: heart failure" in told
    assert "neither 2 66.7%" in told
    every = run(corpus, out, "--no-stop-words", "--min-chars", 0)
    assert "in all 12" in " ".join(every.stdout.split())


def test_command_takes_the_entities_of_a_span_group(corpus, tmp_path):
    docs = list(DocBin().from_disk(corpus).get_docs(VOCAB))
    for doc in docs:
        doc.spans["terms"] = list(doc.ents)
        doc.ents = []
    DocBin(docs=docs).to_disk(corpus)
    result = run(corpus, tmp_path / "pmi.txt", "--overlap", "--spans-key", "terms")
    assert "an entity mention 1 33.3%" in " ".join(result.stdout.split())


def test_command_says_what_to_do_when_there_is_nothing(corpus, tmp_path):
    result = run(corpus, tmp_path / "pmi.txt", "--min-count", 7)
    assert result.returncode == 1
    assert "Lower --min-count" in " ".join((result.stdout + result.stderr).split())
    assert not (tmp_path / "pmi.txt").exists()
    result = run(tmp_path / "absent.spacy", tmp_path / "pmi.txt")
    assert result.returncode == 1
    assert "Traceback" not in result.stdout + result.stderr
