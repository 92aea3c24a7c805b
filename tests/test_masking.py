"""Masking: budgets, disjointness, whole words and whole mentions, repeatability."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_mslm.batches import BLM, ELM, UNMASKED, Sequence
from spacy_mslm.masking import JointMasking, NoMasking, TokenMasking, budget

RATES = [0.0, 0.07, 0.075, 0.15, 0.225, 0.25, 0.5, 0.75, 1.0]


@st.composite
def sequences(draw) -> Sequence:
    """Words of 0 to 3 pieces, disjoint mentions, possibly a window out of the middle."""
    counts = draw(st.lists(st.integers(0, 3), max_size=30))
    token_of = np.repeat(np.arange(len(counts)), counts)
    cuts = draw(st.lists(st.integers(0, len(counts)), max_size=10, unique=True).map(sorted))
    mentions = [(s, e) for s, e in zip(cuts[::2], cuts[1::2], strict=False) if s < e]
    start = draw(st.integers(0, len(token_of)))
    window = token_of[start : draw(st.integers(start, len(token_of)))]
    return Sequence(window, np.array(mentions, dtype=np.int64).reshape(-1, 2), ["w"] * len(counts))


def words_of(sequence: Sequence, kinds: np.ndarray, kind: int) -> set[int]:
    return set(sequence.token_of[kinds == kind].tolist())


@given(sequences(), st.sampled_from(RATES), st.sampled_from(RATES), st.integers(0, 99))
def test_joint_masking(sequence, elm_rate, blm_rate, seed):
    masking = JointMasking(elm_rate, blm_rate)
    kinds = masking(sequence, np.random.default_rng(seed))
    again = masking(sequence, np.random.default_rng(seed))
    assert kinds.tolist() == again.tolist()
    words = set(sequence.token_of.tolist())
    inside = [words & set(range(s, e)) for s, e in sequence.mentions.tolist()]
    inside = [mention for mention in inside if mention]
    everywhere = set().union(*inside)
    elm, blm = words_of(sequence, kinds, ELM), words_of(sequence, kinds, BLM)
    # whole mentions, ceil(rate x mentions) of them
    chosen = [mention for mention in inside if mention <= elm]
    assert elm == set().union(*chosen)
    assert len(chosen) == math.ceil(Fraction(str(elm_rate)) * len(inside))
    # whole words outside every mention, ceil(rate x all words) as far as there are any
    assert not blm & everywhere
    wanted = math.ceil(Fraction(str(blm_rate)) * len(words))
    assert len(blm) == min(wanted, len(words - everywhere))
    for word in words:
        assert len(set(kinds[sequence.token_of == word].tolist())) == 1


@given(sequences(), st.sampled_from(RATES), st.integers(0, 99))
def test_token_masking(sequence, rate, seed):
    kinds = TokenMasking(rate)(sequence, np.random.default_rng(seed))
    words = set(sequence.token_of.tolist())
    assert not words_of(sequence, kinds, ELM)
    assert len(words_of(sequence, kinds, BLM)) == math.ceil(Fraction(str(rate)) * len(words))
    assert not words_of(sequence, kinds, BLM) & words_of(sequence, kinds, UNMASKED)


@given(sequences())
def test_no_masking(sequence):
    assert not NoMasking()(sequence, np.random.default_rng(0)).any()


def test_the_papers_examples():
    """§3 Setup: 25 % of 4 mentions is 1 mention, and of 3 mentions is rounded up to 1."""
    assert budget(0.25, 4) == 1
    assert budget(0.25, 3) == 1
    assert budget(0.25, 0) == 0
    # 0.07 * 100 is 7.000000000000001 in floating point; 7 words, not 8.
    assert budget(0.07, 100) == 7


def test_masks_are_drawn_anew_each_time():
    sequence = Sequence(np.arange(40), np.array([[3, 5], [10, 12], [20, 21], [30, 33]]), ["w"] * 40)
    generator = np.random.default_rng(0)
    draws = {tuple(JointMasking(0.5, 0.15)(sequence, generator).tolist()) for _ in range(20)}
    assert len(draws) > 10


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan")])
def test_rates_out_of_range_are_refused(rate):
    with pytest.raises(ValueError, match="must be from 0 to 1"):
        JointMasking(elm_rate=rate)
    with pytest.raises(ValueError, match="must be from 0 to 1"):
        TokenMasking(rate)
