"""Constrained decoding gives the best legal sequence, and only legal ones."""

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spacy_mslm.batches import B, I, O
from spacy_mslm.decoding import bio_spans, decode_bio
from spacy_mslm.prediction import _find_spans


def legal(tags) -> bool:
    return all(not (t == I and before == O) for before, t in zip((O, *tags), tags, strict=False))


probabilities = st.lists(
    st.lists(st.floats(0.01, 1), min_size=3, max_size=3), min_size=1, max_size=6
).map(lambda rows: np.array(rows) / np.array(rows).sum(axis=1, keepdims=True))


@given(probabilities)
def test_viterbi_finds_the_best_legal_sequence(p):
    tags = decode_bio(p)
    assert legal(tags)

    def score(sequence):
        return float(np.log(p[np.arange(len(p)), list(sequence)]).sum())

    best = max(score(s) for s in product((B, I, O), repeat=len(p)) if legal(s))
    assert abs(score(tags) - best) < 1e-9


def test_an_inside_after_outside_is_mended():
    # Greedily O I: P(B I) = 0.4 * 0.9 beats P(O B) = 0.6 * 0.05 and P(O O) = 0.6 * 0.05.
    p = np.array([[0.4, 0.0, 0.6], [0.05, 0.9, 0.05]])
    assert decode_bio(p).tolist() == [B, I]


def test_spans():
    tags = np.array([B, I, B, O, B, I, I])
    assert bio_spans(tags).tolist() == [[0, 2], [2, 3], [4, 7]]
    assert bio_spans(np.array([O, O])).tolist() == []


def test_confidence_is_the_product_of_tag_probabilities():
    p = np.array([[0.8, 0.1, 0.1], [0.3, 0.5, 0.2], [0.1, 0.1, 0.8]])
    spans, confidences = _find_spans(p)
    assert spans.tolist() == [[0, 2]]
    assert abs(confidences[0] - 0.4) < 1e-6
