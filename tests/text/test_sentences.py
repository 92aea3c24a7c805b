"""Sentence boundaries, and windows that end at them."""

import numpy as np
import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.pipeline import Sentencizer
from spacy.tokens import Doc

from spacy_mslm.pieces.windows import WindowSettings
from spacy_mslm.text.sentences import sentence_starts
from spacy_mslm.types import Pieces

NLP = spacy.blank("en")


@pytest.mark.parametrize(
    ("words", "starts"),
    [
        ("He had gout . She had asthma .", [0, 4]),
        ("aspirin vs . placebo ( p < 0 . 05 ) .", [0]),
        ("No fever ! No cough ? None", [0, 3, 6]),
        ("", []),
    ],
)
def test_rule(words, starts):
    doc = Doc(NLP.vocab, words=words.split())
    assert sentence_starts(doc).tolist() == starts


@given(st.lists(st.sampled_from(["He", "gout", "5", ".", "!", "。", ")", "'", "\n\n", " ", "-"])))
def test_the_rule_is_that_of_spacy_but_before_small_letters_and_numbers(words):
    doc = Doc(NLP.vocab, words=words)
    guesses = Sentencizer().predict([doc])[0]
    expected = {i for i, guess in enumerate(guesses) if guess and words[i] not in ("gout", "5")}
    expected |= {i + 1 for i, word in enumerate(words[:-1]) if word == "\n\n"}
    assert sentence_starts(doc).tolist() == sorted(({0} if words else set()) | expected)


def test_blank_lines_end_a_sentence_and_line_breaks_do_not():
    doc = NLP.make_doc("congestive heart\nfailure\n\nplan: discharge")
    starts = sentence_starts(doc).tolist()
    assert [doc[i].text for i in starts] == ["congestive", "plan"]


def test_a_docs_own_sentences_come_first():
    doc = Doc(NLP.vocab, words=["a", ".", "B", "c"], sent_starts=[True, False, False, True])
    assert sentence_starts(doc).tolist() == [0, 3]


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=60),
    st.sets(st.integers(1, 59), max_size=8),
    st.booleans(),
)
def test_windows_cover_a_document_and_end_at_sentences(counts, breaks, split):
    sentences = [0, *sorted(b for b in breaks if b < len(counts))]
    token_of = np.repeat(np.arange(len(counts)), counts)
    pieces = Pieces(np.zeros_like(token_of), token_of, ["w"] * len(counts), np.array(sentences))
    windows = WindowSettings(10, 2, split).cover(pieces)
    assert [i for w in windows for i in range(w.own_start, w.own_end)] == list(range(len(token_of)))
    edges = {int(pieces.starts[s]) for s in sentences} if split else set()
    for w in windows:
        inside = [edge for edge in edges if w.start < edge < w.end]
        assert not inside
