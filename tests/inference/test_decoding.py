"""Decoding gives the best legal sequence, and only legal ones."""

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_mslm.inference.decoding import (
    _viterbi,
    bio_spans,
    count_transitions,
    decode_bio,
    last_surely_outside,
    surely_outside,
    transition_scores,
)
from spacy_mslm.inference.predict import _spans_of_column
from spacy_mslm.types import MISSING, B, I, O

LEGAL = transition_scores(np.zeros((3, 3), dtype=np.int64), weight=0.5)


def legal(tags) -> bool:
    return all(not (t == I and before == O) for before, t in pairwise((O, *tags)))


probabilities = st.lists(
    st.lists(st.floats(0.01, 1), min_size=3, max_size=3), min_size=1, max_size=6
).map(lambda rows: np.array(rows) / np.array(rows).sum(axis=1, keepdims=True))
counts = st.lists(st.integers(0, 1000), min_size=9, max_size=9).map(
    lambda values: np.array(values).reshape(3, 3)
)


@given(probabilities, counts, st.sampled_from([0.0, 0.5, 1.0]))
def test_viterbi_finds_the_best_legal_sequence(p, counts, weight):
    transitions = transition_scores(counts, weight)
    tags = decode_bio(p, transitions)
    assert legal(tags)

    def score(sequence):
        emitted = np.log(p[np.arange(len(p)), list(sequence)]).sum()
        return float(emitted + sum(transitions[a, b] for a, b in pairwise(sequence)))

    best = max(score(s) for s in product((B, I, O), repeat=len(p)) if legal(s))
    assert abs(score(tags) - best) < 1e-9


def test_an_inside_after_outside_is_mended():
    # Greedily O I: P(B I) = 0.4 * 0.9 beats P(O B) = 0.6 * 0.05 and P(O O) = 0.6 * 0.05.
    p = np.array([[0.4, 0.0, 0.6], [0.05, 0.9, 0.05]])
    assert decode_bio(p, LEGAL).tolist() == [B, I]


def test_transitions_by_hand():
    # B I O O B: B-I, I-O, O-O, O-B; the missing token parts what is around it.
    tags = np.array([B, I, O, O, B, MISSING, B])
    counts = count_transitions(tags)
    assert counts.tolist() == [[0, 1, 0], [0, 0, 1], [1, 0, 1]]
    # frequency of B: (1 + 1) / (4 + 3) = 2/7; P(B | B) = (0 + 10 * 2/7) / (1 + 10) = 20/77
    scores = transition_scores(counts, weight=0.5)
    assert scores[B, B] == pytest.approx(0.5 * np.log(20 / 77 / (2 / 7)))
    assert scores[O, I] == -np.inf


def test_a_mention_is_not_broken_where_mentions_never_adjoin():
    never = np.array([[0, 1400, 1000], [0, 1600, 1400], [2200, 0, 53000]])
    often = np.array([[900, 1400, 100], [900, 1600, 500], [1200, 0, 53000]])
    p = np.array([[0.9, 0.05, 0.05], [0.55, 0.4, 0.05]])
    assert decode_bio(p, transition_scores(never, 0.5)).tolist() == [B, I]
    assert decode_bio(p, transition_scores(often, 0.5)).tolist() == [B, B]
    assert decode_bio(p, transition_scores(never, 0.0)).tolist() == [B, B]


def test_spans():
    tags = np.array([B, I, B, O, B, I, I])
    assert bio_spans(tags).tolist() == [[0, 2], [2, 3], [4, 7]]
    assert bio_spans(np.array([O, O])).tolist() == []


def test_confidence_is_the_product_of_tag_probabilities():
    p = np.array([[0.8, 0.1, 0.1], [0.3, 0.5, 0.2], [0.1, 0.1, 0.8]])
    spans, evidence = _spans_of_column(p, LEGAL)
    assert spans.tolist() == [[0, 2]]
    # 0.8 * 0.5; nothing before; I at the token after has 0.1
    assert evidence[0].tolist() == pytest.approx([0.4, 1.0, 0.9, 1.0, 2.0])


def test_evidence_of_the_tokens_around_a_mention():
    """O, B, B I: before the first mention O has 0.6, before the second there is a mention. I after
    the first has 0.3, and the second ends the text."""
    p = np.array([[0.1, 0.3, 0.6], [0.9, 0.05, 0.05], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1]])
    spans, evidence = _spans_of_column(p, LEGAL)
    assert spans.tolist() == [[1, 2], [2, 4]]
    assert evidence[0].tolist() == pytest.approx([0.9, 0.6, 0.7, 1.0, 1.0])
    assert evidence[1].tolist() == pytest.approx([0.48, 1.0, 1.0, 1.0, 2.0])


@given(
    st.lists(st.lists(st.floats(-12, 12), min_size=3, max_size=3), min_size=1, max_size=30),
    counts,
    st.sampled_from([0.0, 0.5, 1.0]),
    st.sampled_from([0.0, 4.0, 9.0]),
)
def test_tokens_that_are_surely_outside_change_nothing(logits, counts, weight, towards_outside):
    logits = np.add(logits, (0, 0, towards_outside))
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    transitions = transition_scores(counts, weight)
    log = np.log(np.maximum(p, 1e-30))
    sure = surely_outside(log, transitions)
    whole = np.array(_viterbi(log.tolist(), transitions))
    assert (whole[sure] == O).all()

    def score(tags):
        return log[np.arange(len(tags)), tags].sum() + transitions[tags[:-1], tags[1:]].sum()

    assert score(decode_bio(p, transitions)) == pytest.approx(score(whole))


def test_a_token_is_surely_outside_whatever_follows_the_part():
    p = np.array([[0, 0, 1], [0.9, 0.05, 0.05], [0, 0, 1], [0.05, 0.9, 0.05], [0, 0, 1]])
    # The third one is followed by what is hardly anything but inside, the last one by nobody knows.
    column, transitions = p[:, None], LEGAL[None]
    assert last_surely_outside(column[:4], transitions) == 2
    assert last_surely_outside(column[:2], transitions) == 0
    assert last_surely_outside(column, transitions) == 2
    # Outside in every column: here, only the first token.
    both = np.stack([p, p[[0, 2, 1, 3, 4]]], axis=1)
    assert last_surely_outside(both[:4], np.stack([LEGAL, LEGAL])) == 0
