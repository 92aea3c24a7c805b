"""Even masking: whole stretches, and masks that do not tell where mentions are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from spacy.util import registry

from spacy_mslm.masking.even import EvenMasking
from spacy_mslm.types import BLM, ELM, UNMASKED, MaskableWindow

from .test_strategies import sequences

UNITS = ["mentions", "spans", "words"]


@given(sequences(), st.sampled_from(UNITS), st.sampled_from([0.0, 0.3, 1.0]), st.integers(0, 99))
def test_whole_words_in_whole_mentions(window, unit, rate, seed):
    masking = EvenMasking(unit, rate)
    kinds = masking(window, np.random.default_rng(seed))
    assert kinds.tolist() == masking(window, np.random.default_rng(seed)).tolist()
    for word in window.tokens:
        assert len(set(kinds[window.token_of == word].tolist())) == 1
    inside = np.zeros(len(kinds), dtype=bool)
    for start, end in window.mentions.tolist():
        mention = (window.token_of >= start) & (window.token_of < end)
        inside |= mention
        if unit == "mentions":
            assert len(set(kinds[mention].tolist())) <= 1
    assert not (kinds[inside] == BLM).any() and not (kinds[~inside] == ELM).any()
    if rate in (0.0, 1.0):
        assert ((kinds != UNMASKED) == bool(rate)).all()


@pytest.mark.parametrize("unit", UNITS)
def test_a_mask_says_nothing_of_being_in_a_mention(unit):
    """Each piece is masked with the same probability: in mentions, at their edges, elsewhere."""
    counts = [1, 2, 1, 3, 1, 1, 2, 1, 1, 1, 4, 1]
    token_of = np.repeat(np.arange(len(counts)), counts)
    window = MaskableWindow(token_of, np.array([[2, 4], [5, 6], [6, 9]]), ["w"] * len(counts))
    masking = EvenMasking(unit, 0.3)
    generator = np.random.default_rng(0)
    n = 4000
    masked = sum((masking(window, generator) != UNMASKED).astype(int) for _ in range(n))
    # Four standard deviations of a share of n draws are 0.029.
    assert np.abs(masked / n - 0.3).max() < 0.029


def test_joint_masking_does_tell():
    """What the property is good for: the paper's strategy does not have it."""
    joint = registry.misc.get("spacy_mslm.JointMasking.v1")(elm_rate=0.5, blm_rate=0.15)
    window = MaskableWindow(np.arange(12), np.array([[2, 4], [6, 9]]), ["w"] * 12)
    generator = np.random.default_rng(0)
    masked = sum((joint(window, generator) != UNMASKED).astype(int) for _ in range(500)) / 500
    assert masked[2] > 1.5 * masked[0]


def test_spans_have_the_given_lengths():
    window = MaskableWindow(np.arange(3000), np.array([[10, 20]]), ["w"] * 3000)
    masking = EvenMasking("spans", 0.01, lengths=[3])
    kinds = masking(window, np.random.default_rng(1))
    edges = np.flatnonzero(np.diff(kinds != UNMASKED))
    assert set(np.diff(edges)[::2].tolist()) == {3}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"unit": "pieces"}, r"'pieces'.*mentions, spans, words"),
        ({"rate": 1.5}, "rate"),
        ({"lengths": []}, "lengths"),
        ({"lengths": [2, 0]}, "lengths"),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        EvenMasking(**settings)
