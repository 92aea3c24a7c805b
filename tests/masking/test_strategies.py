"""Masking: budgets, disjointness, whole words and whole mentions, repeatability."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_mslm.masking.collocations import Collocation, write_collocations
from spacy_mslm.masking.strategies import (
    JointMasking,
    NoMasking,
    PMIMasking,
    SpanMasking,
    TokenMasking,
    budget,
)
from spacy_mslm.types import BLM, ELM, UNMASKED, MaskableWindow

RATES = [0.0, 0.07, 0.075, 0.15, 0.225, 0.25, 0.5, 0.75, 1.0]


@st.composite
def sequences(draw) -> MaskableWindow:
    """Words of 0 to 3 pieces, disjoint mentions, possibly a window out of the middle."""
    counts = draw(st.lists(st.integers(0, 3), max_size=30))
    token_of = np.repeat(np.arange(len(counts)), counts)
    cuts = draw(st.lists(st.integers(0, len(counts)), max_size=10, unique=True).map(sorted))
    mentions = [(s, e) for s, e in zip(cuts[::2], cuts[1::2], strict=False) if s < e]
    start = draw(st.integers(0, len(token_of)))
    window = token_of[start : draw(st.integers(start, len(token_of)))]
    words = draw(st.lists(st.sampled_from("abc"), min_size=len(counts), max_size=len(counts)))
    return MaskableWindow(window, np.array(mentions, dtype=np.int64).reshape(-1, 2), words)


def words_of(sequence: MaskableWindow, kinds: np.ndarray, kind: int) -> set[int]:
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


class Scripted:
    """A generator whose draws are known: a permutation, and span lengths."""

    def __init__(self, order: list[int], lengths: list[int]) -> None:
        self.order, self.lengths = order, lengths

    def permutation(self, n: int) -> np.ndarray:
        assert n == len(self.order)
        return np.array(self.order)

    def integers(self, low: int, high: int, size: int) -> np.ndarray:
        assert (low, high, size) == (2, 5, len(self.lengths))
        return np.array(self.lengths)


def test_span_masking_by_hand():
    """Algorithm 1 on ten words, half of them to be masked: budget 5.

    start 7, length 4: words 7 8 9, cut at the end; 3 masked
    start 9, length 2: touches a masked word
    start 6, length 3: cut to the 2 that are left, 6 7: touches a masked word
    start 2, length 4: cut to 2 3; 5 masked, the budget is spent
    start 0, length 2: not reached
    """
    sequence = MaskableWindow(np.arange(10), np.array([[3, 5]]), ["w"] * 10)
    draws = Scripted([7, 9, 6, 2, 0, 1, 3, 4, 5, 8], [4, 2, 3, 4, 2, 2, 2, 2, 2, 2])
    kinds = SpanMasking(0.5)(sequence, draws)
    # Word 3 lies in the mention 3:5.
    assert kinds.tolist() == [0, 0, BLM, ELM, 0, 0, 0, BLM, BLM, BLM]


def test_spans_have_two_to_four_words():
    sequence = MaskableWindow(np.arange(1000), np.zeros((0, 2), dtype=np.int64), ["w"] * 1000)
    masked = SpanMasking(0.01)(sequence, np.random.default_rng(0)) != UNMASKED
    edges = np.flatnonzero(np.diff(masked.astype(int)))
    assert masked.sum() == 10
    lengths = np.diff(edges)[::2].tolist()
    assert set(lengths) <= {1, 2, 3, 4}
    assert lengths.count(1) <= 1  # what was left of the budget


@given(sequences(), st.sampled_from(RATES), st.integers(0, 99))
def test_span_masking(sequence, rate, seed):
    check_spans(sequence, SpanMasking(rate), rate, seed)


def check_spans(sequence, masking, rate, seed) -> np.ndarray:
    """What SPAN and PMI masking have in common: budget, whole words, kinds, repeatability."""
    kinds = masking(sequence, np.random.default_rng(seed))
    assert kinds.tolist() == masking(sequence, np.random.default_rng(seed)).tolist()
    words = set(sequence.token_of.tolist())
    masked = words_of(sequence, kinds, BLM) | words_of(sequence, kinds, ELM)
    assert len(masked) <= math.ceil(Fraction(str(rate)) * len(words))
    inside = set().union(*(range(s, e) for s, e in sequence.mentions.tolist()))
    assert words_of(sequence, kinds, ELM) == masked & inside
    assert not masked & words_of(sequence, kinds, UNMASKED)
    return kinds


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    """Of the letters that random sequences are made of, and of the sentence worked by hand."""
    path = tmp_path_factory.mktemp("pmi") / "vocabulary.txt"
    phrases = ["chronic heart failure", "heart failure", "left ventricular", "a b c", "b b", "c a"]
    entries = [Collocation(tuple(phrase.split()), 1.0, 5) for phrase in phrases]
    write_collocations(path, entries, ["made by hand"])
    return str(path)


def pmi_words(vocabulary: str, text: str, rate: float) -> str:
    words = text.split()
    sequence = MaskableWindow(np.arange(len(words)), np.array([[0, 3]]), words)
    kinds = PMIMasking(vocabulary, rate)(sequence, np.random.default_rng(0))
    return " ".join({UNMASKED: w, BLM: "B", ELM: "E"}[k] for w, k in zip(words, kinds, strict=True))


def test_pmi_masking_by_hand(vocabulary):
    """Algorithm 2: collocations in the order of the vocabulary, until the budget is spent. A
    mention stands at 0:3."""
    text = "chronic heart failure with left ventricular dysfunction and heart failure"
    # ceil(0.3 * 10) = 3: the first entry spends it.
    assert pmi_words(vocabulary, text, 0.3) == (
        "E E E with left ventricular dysfunction and heart failure"
    )
    # 5: then "heart failure" where it is not masked yet.
    assert pmi_words(vocabulary, text, 0.5) == ("E E E with left ventricular dysfunction and B B")
    # 6: one word of the third entry is left over.
    assert pmi_words(vocabulary, text, 0.6) == "E E E with B ventricular dysfunction and B B"
    # 10: no collocation is left, the budget is not spent.
    assert pmi_words(vocabulary, text, 1.0) == "E E E with B B dysfunction and B B"
    # Contiguous only, and as written.
    assert pmi_words(vocabulary, "heart and failure Heart failure", 1.0) == (
        "heart and failure Heart failure"
    )


@given(sequence=sequences(), rate=st.sampled_from(RATES), seed=st.integers(0, 9))
def test_pmi_masking(vocabulary, sequence, rate, seed):
    kinds = check_spans(sequence, PMIMasking(vocabulary, rate), rate, seed)
    tokens = sequence.tokens.tolist()
    text = "".join(sequence.words[token] for token in tokens)
    found = set()
    for phrase in ("abc", "bb", "ca"):
        for start in range(len(text)):
            if text.startswith(phrase, start):
                found |= set(tokens[start : start + len(phrase)])
    masked = set(sequence.token_of[kinds != UNMASKED].tolist())
    assert masked <= found
    if found and rate:
        assert masked


def test_pmi_masks_are_the_same_each_time(vocabulary):
    words = list("abcaabbacabcabbbcac") * 3
    sequence = MaskableWindow(np.arange(len(words)), np.zeros((0, 2), dtype=np.int64), words)
    masking = PMIMasking(vocabulary, 0.15)
    generator = np.random.default_rng(0)
    assert len({tuple(masking(sequence, generator).tolist()) for _ in range(20)}) == 1


def test_the_setting_of_earlier_versions_is_accepted_where_it_changes_nothing(vocabulary):
    PMIMasking(vocabulary, 0.15, ranked=True)
    with pytest.raises(ValueError, match="was removed"):
        PMIMasking(vocabulary, 0.15, ranked=False)


def test_the_pmi_vocabulary_is_read_when_it_is_needed(tmp_path):
    sequence = MaskableWindow(np.arange(2), np.zeros((0, 2), dtype=np.int64), ["a", "b"])
    for path, message in [
        (None, "needs a vocabulary"),
        (str(tmp_path / "absent.txt"), r"Could not read .*absent.txt \(FileNotFoundError\)"),
    ]:
        masking = PMIMasking(path)  # as when a trained pipeline is loaded where the file is not
        with pytest.raises(ValueError, match=message):
            masking(sequence, np.random.default_rng(0))


def test_corner_cases_of_joint_masking():
    """Entity-only masking, and every mention whole: the span masking of entities."""
    token_of = np.array([0, 1, 2, 2, 2, 3, 4, 5, 5])
    sequence = MaskableWindow(token_of, np.array([[1, 3], [5, 6]]), ["w"] * 6)
    for seed in range(5):
        kinds = JointMasking(1.0, 0.0)(sequence, np.random.default_rng(seed))
        assert kinds.tolist() == [0, ELM, ELM, ELM, ELM, 0, 0, ELM, ELM]
        kinds = JointMasking(0.0, 0.0)(sequence, np.random.default_rng(seed))
        assert not kinds.any()
        # ceil(0.25 * 2) = 1 of the mentions, whole
        kinds = JointMasking(0.25, 0.0)(sequence, np.random.default_rng(seed)).tolist()
        assert kinds in ([0, ELM, ELM, ELM, ELM, 0, 0, 0, 0], [0] * 7 + [ELM, ELM])


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
    sequence = MaskableWindow(
        np.arange(40), np.array([[3, 5], [10, 12], [20, 21], [30, 33]]), ["w"] * 40
    )
    generator = np.random.default_rng(0)
    draws = {tuple(JointMasking(0.5, 0.15)(sequence, generator).tolist()) for _ in range(20)}
    assert len(draws) > 10


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan")])
def test_rates_out_of_range_are_refused(rate):
    with pytest.raises(ValueError, match="must be between 0 and 1"):
        JointMasking(elm_rate=rate)
    for strategy in (TokenMasking, SpanMasking, lambda rate: PMIMasking("x", rate)):
        with pytest.raises(ValueError, match="must be between 0 and 1"):
            strategy(rate)
