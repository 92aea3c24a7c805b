"""The paper's equations against numbers worked out by hand."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from spacy_mslm.masking.weights import (
    FixedWeights,
    MaskSpecificWeights,
    MaskSpecificWeightsV2,
    MaskWeights,
    UniformWeights,
)
from spacy_mslm.model.network import HeadOutputs, mean_pool
from spacy_mslm.training.losses import Terms, Totals, count_totals, joint_loss, piece_weights
from spacy_mslm.types import BLM, ELM, Block, PaddedBatch, no_ints


def test_mask_specific_weights_by_hand():
    # eq. 2: w_BLM = 1 - 75/100 = 0.25, w_ELM = 1 - 25/100 = 0.75; eq. 3 leaves both;
    # eq. 5: e^0.75 / (e^0.25 + e^0.75) = 1 / (1 + e^-0.5) = 0.6224593
    weights = MaskSpecificWeights()(n_blm=75, n_elm=25)
    assert weights.elm == pytest.approx(0.6224593, abs=1e-6)
    assert weights.blm == pytest.approx(0.3775407, abs=1e-6)


def test_the_authors_code_is_not_followed():
    """Their w_ELM = max(0.5, w_BLM) would give 0.5 here, hence 0.5 / 0.5 after clipping."""
    weights = MaskSpecificWeights()(n_blm=90, n_elm=10)
    # w_BLM = 0.1, w_ELM = 0.9: 1 / (1 + e^-0.8)
    assert weights.elm == pytest.approx(1 / (1 + math.exp(-0.8)))


def test_more_elm_than_blm_makes_the_weights_equal():
    # w_BLM = 0.7 -> 0.5, w_ELM = 0.3 -> 0.5
    assert MaskSpecificWeights()(n_blm=30, n_elm=70) == (0.5, 0.5)


def test_the_strongest_pair_and_a_temperature():
    # w_BLM = 0, w_ELM = 1: 1 / (1 + e^-1) = 0.7310586; at temperature 0.25: 1 / (1 + e^-4)
    assert MaskSpecificWeights()(100, 0).elm == pytest.approx(0.7310586, abs=1e-6)
    sharp = MaskSpecificWeights(temperature=0.25)(100, 0)
    assert sharp.elm == pytest.approx(1 / (1 + math.exp(-4)))
    # threshold 0.8: w_ELM = max(0.8, 0.3), w_BLM = min(0.8, 0.7)
    raised = MaskSpecificWeights(threshold=0.8)(30, 70)
    assert raised.elm == pytest.approx(1 / (1 + math.exp(-0.1)))


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_terms_never_weigh_less_than_words(n_blm, n_elm):
    weights = MaskSpecificWeights()(n_blm, n_elm)
    assert 0 <= weights.blm <= 0.5 <= weights.elm <= 0.7311
    assert weights.blm + weights.elm == pytest.approx(1)


def test_a_margin_keeps_terms_above_words_by_hand():
    # As many ELM as BLM pieces: w_BLM = min(0.4, 0.54) and w_ELM = max(0.6, 0.46), so that
    # 1 / (1 + e^(-0.2 / 0.25)) = 0.6899745; v1 gives 0.5 / 0.5.
    assert MaskSpecificWeightsV2()(n_blm=2642, n_elm=3131).elm == pytest.approx(0.6899745, abs=1e-6)
    assert MaskSpecificWeights(temperature=0.25)(2642, 3131) == (0.5, 0.5)
    # Outside of the margin, both are the same: 1 / (1 + e^(-0.5 / 0.25))
    sparse = MaskSpecificWeightsV2()(n_blm=75, n_elm=25)
    assert sparse == pytest.approx(MaskSpecificWeights(temperature=0.25)(75, 25))
    assert sparse.elm == pytest.approx(1 / (1 + math.exp(-2)))


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.floats(0.01, 0.5), st.floats(0.05, 4))
def test_with_a_margin_terms_always_weigh_more(n_blm, n_elm, margin, temperature):
    weights = MaskSpecificWeightsV2(margin, temperature)(n_blm, n_elm)
    assert 0 <= weights.blm < 0.5 < weights.elm
    assert weights.elm >= 1 / (1 + math.exp(-2 * margin / temperature)) - 1e-12
    rarer = MaskSpecificWeightsV2(margin, temperature)(n_blm + 1, n_elm)
    assert rarer.elm >= weights.elm - 1e-12


@pytest.mark.parametrize(
    ("settings", "name"), [({"margin": 0}, "v1"), ({"temperature": 0}, "temp")]
)
def test_a_margin_that_is_none_is_an_error(settings, name):
    with pytest.raises(ValueError, match=f"must be greater than 0|{name}"):
        MaskSpecificWeightsV2(**settings)


def test_other_weightings():
    assert UniformWeights()(1, 99) == (0.5, 0.5)
    assert FixedWeights(blm=1.0, elm=3.0)(1, 99) == (1.0, 3.0)
    with pytest.raises(ValueError, match="must be greater than 0"):
        FixedWeights(blm=0.0, elm=0.0)
    with pytest.raises(ValueError, match="temperature"):
        MaskSpecificWeights(temperature=0)


def batch(mask_ids=(), mask_kinds=(), tags=(), types=()) -> PaddedBatch:
    def ints(values):
        return np.array(values, dtype=np.int64)

    return PaddedBatch(
        blocks=[Block(ints([[0]]), ints([1]))],
        mask_at=ints([0] * len(mask_ids)),
        mask_ids=ints(mask_ids),
        mask_kinds=ints(mask_kinds),
        tag_at=ints([0] * len(tags)),
        tags=ints(tags),
        span_at=no_ints(),
        span_of=no_ints(),
        types=ints(types),
    )


def test_joint_loss_by_hand():
    """Probabilities 1/2, 1/4 at two masked pieces; 1/2 at one tagged token; 1/4 at one mention.

    L_MSLM = (0.25 ln 2 + 0.75 ln 4) / (0.25 + 0.75) = 1.75 ln 2;  L_ED = ln 2;  L_EL = 2 ln 2
    """
    data = batch(mask_ids=[0, 1], mask_kinds=[BLM, ELM], tags=[2], types=[0])
    outputs = HeadOutputs(
        mlm=torch.tensor([[0.5, 0.25, 0.25], [0.5, 0.25, 0.25]]).log(),
        ed=torch.tensor([[0.25, 0.25, 0.5]]).log(),
        el=torch.tensor([[0.25, 0.75]]).log(),
    )
    weights = MaskWeights(blm=0.25, elm=0.75)
    totals = count_totals([data], weights)
    assert totals == Totals(mlm=1.0, ed=1.0, el=1.0)
    terms, gradients = joint_loss(outputs, data, weights, Terms(0.1, 1.0, 2.0), totals)
    assert terms.tolist() == pytest.approx([1.75 * math.log(2), math.log(2), 2 * math.log(2)])
    # d cross-entropy / d logits = p - target, times mask weight and loss weight
    expected_mlm = [[0.1 * 0.25 * x for x in (-0.5, 0.25, 0.25)]]
    expected_mlm += [[0.1 * 0.75 * x for x in (0.5, -0.75, 0.25)]]
    assert gradients.mlm.numpy() == pytest.approx(np.array(expected_mlm), abs=1e-7)
    assert gradients.ed.numpy() == pytest.approx(np.array([[0.25, 0.25, -0.5]]), abs=1e-7)
    assert gradients.el.numpy() == pytest.approx(np.array([[-1.5, 1.5]]), abs=1e-7)


def test_a_loss_is_a_mean_over_the_update_however_it_is_batched():
    torch.manual_seed(0)
    logits = torch.randn(6, 3)
    tags = [0, 1, 2, 2, 1, 0]
    weights, ones = MaskWeights(0.5, 0.5), Terms(1.0, 1.0, 1.0)
    whole = batch(tags=tags)
    parts = [batch(tags=tags[:2]), batch(tags=tags[2:])]
    totals = count_totals(parts, weights)
    assert totals == count_totals([whole], weights)
    term, gradient = joint_loss(HeadOutputs(None, logits, None), whole, weights, ones, totals)
    pieces = [
        joint_loss(HeadOutputs(None, part, None), data, weights, ones, totals)
        for part, data in zip((logits[:2], logits[2:]), parts, strict=True)
    ]
    assert sum(p[0] for p in pieces).tolist() == pytest.approx(term.tolist())
    assert torch.allclose(torch.cat([p[1].ed for p in pieces]), gradient.ed)


def test_heads_that_read_nothing_contribute_nothing():
    terms, gradients = joint_loss(
        HeadOutputs(None, None, None),
        batch(),
        MaskWeights(0.5, 0.5),
        Terms(1.0, 1.0, 1.0),
        Totals(0.0, 0.0, 0.0),
    )
    assert terms.tolist() == [0.0, 0.0, 0.0] and set(gradients) == {None}


def test_piece_weights_and_mean_pool():
    weights = piece_weights(np.array([ELM, BLM, ELM]), MaskWeights(blm=0.25, elm=0.75))
    assert weights.tolist() == [0.75, 0.25, 0.75]
    # eq. 9: means of (1, 3) and (5)
    pooled = mean_pool(torch.tensor([[1.0], [3.0], [5.0]]), torch.tensor([0, 0, 1]), 2)
    assert pooled.tolist() == [[2.0], [5.0]]
