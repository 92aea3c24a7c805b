"""Calibration of confidences: the map, its error, and the fit to which mentions are correct."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_mslm.inference.calibration import (
    FEATURES,
    Calibration,
    calibration_error,
    debiased_error,
    error_by_chance,
    features,
    from_temperature,
    logit,
    sigmoid,
    uncalibrated,
)
from spacy_mslm.scoring.calibrate import Observed, fit_calibration
from spacy_mslm.scoring.logistic import fit_logistic
from spacy_mslm.types import Evidence

LABELS = ("A", "B")


def evidence(*rows: Evidence) -> np.ndarray:
    return np.array(rows, dtype=np.float64)


def test_calibration_error_by_hand():
    """Bin 0.9-1: confidences 0.9 and 1, one of two right: |1.9 - 1| = 0.9. Bin 0.5-0.6: 0.5 and
    0.5, one right: 0. Bin 0.2-0.3: 0.25, wrong: 0.25. (0.9 + 0 + 0.25) / 5 = 0.23"""
    values = np.array([0.9, 1.0, 0.5, 0.5, 0.25])
    correct = np.array([True, False, True, False, False])
    assert calibration_error(values, correct) == pytest.approx(0.23)
    assert calibration_error(np.array([0.0, 1.0]), np.array([False, True])) == 0


def test_debiased_error_by_hand():
    """Four of 0.75, three right: a mean difference of 0. Four of 0.95, two right: the differences
    are -0.05 and 0.95, their mean is 0.45 and its variance 4 * 0.5^2 / 3 / 4 = 1/12."""
    values = np.array([0.75] * 4 + [0.95] * 4)
    correct = np.array([True, True, True, False, True, True, False, False])
    expected = np.sqrt(0.45**2 - 1 / 12) / 2
    assert debiased_error(values, correct) == pytest.approx(expected)
    assert debiased_error(values[:4], correct[:4]) == 0


def test_exact_confidences_have_the_error_of_chance_and_hardly_any_other():
    rng = np.random.default_rng(0)
    values = rng.beta(4, 1, 1000)
    draws = [rng.random(1000) < values for _ in range(200)]
    errors = [calibration_error(values, correct) for correct in draws]
    assert error_by_chance(values) == pytest.approx(np.mean(errors), rel=0.05)
    assert 0.02 < error_by_chance(values) < 0.04
    debiased = np.mean([debiased_error(values, correct) for correct in draws])
    assert debiased < 0.5 * np.mean(errors)
    # What is wrong by 10 % is still seen.
    low = np.mean([debiased_error(values * 0.9, correct) for correct in draws])
    assert low == pytest.approx(values.mean() * 0.1, abs=0.015)


def test_the_map_by_hand():
    # The logits of tags * type = 0.9, type, before and after are log 9, log 24, log 3 and 0.
    given_ = evidence(Evidence(tags=0.9375, before=0.75, after=0.5, type=0.96, tokens=2))
    assert uncalibrated(given_, np.array([0])).tolist() == pytest.approx([0.9])
    over = [np.log(9) + 2, np.log(9), np.log(9) - 2]
    expected = [np.log(9), *over, np.log(24), np.log(3), 0.0, np.log(2)]
    assert features(given_)[0].tolist() == pytest.approx(expected)
    weights = {"confidence": 0.5, "before": 1.0, "tokens": 1.0}
    calibration = Calibration(weights, offset=-np.log(2), types={"B": -np.log(9)})
    # log 3 + log 3 + log 2 - log 2 = log 9, for B log 1
    values = calibration.of(LABELS)(np.repeat(given_, 2, axis=0), np.array([0, 1]))
    assert values.tolist() == pytest.approx([0.9, 0.5])


def test_a_temperature_of_an_earlier_version_by_hand():
    # logit(0.9) = log 9; at temperature 2: sigmoid(log 3) = 3/4
    calibration = from_temperature(2.0)
    row = evidence(Evidence(tags=0.9, before=0.1, after=0.2, type=1.0, tokens=3))
    assert calibration.of(LABELS)(row, np.array([1])).tolist() == pytest.approx([0.75])
    assert from_temperature(1.0) is None


chance = st.floats(0, 1)


@given(
    st.tuples(*[chance] * 4),
    st.tuples(*[chance] * 4),
    st.lists(st.floats(0, 3), min_size=7, max_size=7),
    st.integers(1, 20),
)
def test_more_evidence_never_lowers_a_confidence(one, other, weights, tokens):
    low = Evidence(*np.minimum(one, other), tokens)
    high = Evidence(*np.maximum(one, other), tokens)
    calibration = Calibration(dict(zip(FEATURES, weights, strict=False)))
    values = calibration.of(LABELS)(evidence(low, high), np.array([0, 0]))
    assert 0 <= values[0] <= values[1] <= 1


def test_weights_of_a_later_version_are_an_error():
    with pytest.raises(ValueError, match=r"unknown weights: \['moon'\]. It was made by a later"):
        Calibration({"confidence": 1.0, "moon": 2.0})


# ---- the fit ----


def test_logistic_by_hand():
    """Three of four are right: without a pull, the offset is log 3. A bound of 2 holds it there."""
    x, y = np.ones((4, 1)), np.array([1.0, 1.0, 1.0, 0.0])
    weak, zero = np.array([1e-9]), np.zeros(1)
    assert fit_logistic(x, y, zero, weak, zero - np.inf).tolist() == pytest.approx([np.log(3)])
    assert fit_logistic(x, y, zero, weak, zero + 2).tolist() == [2.0]
    strong = fit_logistic(x, y, zero + 5, np.array([1e9]), zero)
    assert strong.tolist() == pytest.approx([5.0])


@given(st.integers(0, 1000))
def test_no_other_weights_are_better(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(40, 3)) * [1, 10, 0.1]
    y = (rng.random(40) < sigmoid(x @ [1.0, -0.3, 5.0])).astype(float)
    prior, strength, lower = np.array([1.0, 0, 0]), np.ones(3), np.array([0.0, 0.0, -np.inf])

    def loss(w):
        z = x @ w
        return (np.logaddexp(0, z) - y * z).sum() + ((w - prior) ** 2).sum() / 2

    found = fit_logistic(x, y, prior, strength, lower)
    assert (found >= lower).all()
    for _ in range(20):
        other = np.maximum(found + rng.normal(size=3) * 0.05, lower)
        assert loss(found) <= loss(other) + 1e-6


def made(n: int, seed: int = 0) -> Observed:
    """Mentions whose types the network is too sure of, most of all those of type B; long ones have
    too small products. Three mentions are in a document."""
    rng = np.random.default_rng(seed)
    tokens = rng.integers(1, 6, n)
    of_type = rng.beta(6, 1, n)
    types = rng.integers(0, 2, n)
    tags = rng.beta(8, 1, n) ** tokens
    sides = rng.beta(9, 1, (2, n))
    rows = np.stack([tags, *sides, of_type, tokens], axis=1)
    logits = 0.3 * logit(tags) + 0.6 * logit(of_type) + np.log(tokens) - 1.5 * types
    return Observed(np.arange(n) // 3, types, rows, rng.random(n) < sigmoid(logits))


def test_mentions_of_different_lengths_and_types_are_calibrated():
    """What one temperature cannot do: the error of that of best likelihood stays above 5 %."""
    fit = fit_calibration(made(6000), LABELS)
    assert (fit.mentions, fit.kind) == (6000, "logistic")  # without bends, which it has not
    assert not any(fit.calibration.weights[name] for name in ("over_12", "over_50", "over_88"))
    assert fit.error_debiased < fit.error_out_of_fold < 0.02
    assert fit.error_before > 0.1
    assert fit.error_out_of_fold < 0.02 and fit.error_fitted < 0.02
    _, types, rows, correct = made(6000, seed=1)
    values = fit.calibration.of(LABELS)(rows, types)
    assert calibration_error(values, correct) < 0.025
    for label in (0, 1):
        own = types == label
        assert abs(values[own].mean() - correct[own].mean()) < 0.02
    temperatures = np.exp(np.linspace(-2, 4, 60))
    of_temperature = [sigmoid(logit(uncalibrated(rows, types)) / t) for t in temperatures]
    assert min(calibration_error(v, correct) for v in of_temperature) > 0.05


def test_a_type_with_few_mentions_has_a_small_offset():
    observed = made(3000)
    types = np.zeros(3000, dtype=int)
    types[:2] = 1
    fit = fit_calibration(observed._replace(types=types), LABELS)
    assert abs(fit.calibration.types["B"]) < 0.3


def test_few_mentions_get_a_temperature():
    """Mentions of which only the product is too high. With 30 of them, the other weights would be
    fitted to chance; the temperature is chosen, and predicts others better."""
    rng = np.random.default_rng(3)

    def draw(n):
        tags, of_type = rng.beta(5, 1, n), rng.beta(20, 1, n)
        rows = np.stack([tags, *rng.beta(9, 1, (2, n)), of_type, rng.integers(1, 6, n)], axis=1)
        correct = rng.random(n) < sigmoid(logit(tags * of_type) / 2)
        return Observed(np.arange(n), rng.integers(0, 2, n), rows, correct)

    fits = [fit_calibration(draw(30), LABELS) for _ in range(20)]
    chosen = [fit for fit in fits if fit.kind == "temperature"]
    assert len(chosen) > 10
    weights = np.array([list(fit.calibration.weights.values()) for fit in chosen])
    assert (weights[:, 0] > 0).all() and not weights[:, 1:].any()
    assert all(fit.calibration.offset == 0 for fit in chosen)


def test_sure_mentions_are_calibrated_apart():
    """Mentions are right at their product's odds up to 0.88, and nearly always above."""
    rng = np.random.default_rng(0)
    tags = rng.uniform(0.3, 0.999, 6000)
    rows = np.stack([tags, *np.full((2, 6000), 0.9), *np.ones((2, 6000))], axis=1)
    right = np.where(logit(tags) > 2, 0.995, sigmoid(0.5 * logit(tags)))
    observed = Observed(np.arange(6000), np.zeros(6000, int), rows, rng.random(6000) < right)
    fit = fit_calibration(observed, LABELS)
    assert fit.kind == "logistic with bends" and fit.calibration.weights["over_88"] > 0.3
    assert fit.error_out_of_fold < 0.03


def test_folds_keep_documents_together():
    """Every document says the opposite of the others about the same evidence: what was fitted to
    its own mentions would look perfect."""
    n = 200
    rows = np.tile([0.8, 0.9, 0.9, 0.9, 1], (n, 1))
    correct = np.arange(n) < n // 2
    documents = (~correct).astype(int)
    fit = fit_calibration(Observed(documents, np.zeros(n, int), rows, correct), LABELS)
    assert fit.error_out_of_fold > 0.7 > 0.3 > fit.error_before


@pytest.mark.parametrize("n", [0, 3])
def test_less_than_two_documents_cannot_be_checked(n):
    observed = Observed(*(column[:n] for column in made(30)))
    with pytest.raises(ValueError, match=f"at least two documents, but there are {n} in"):
        fit_calibration(observed, LABELS)


def test_extremes_have_finite_weights():
    rows = np.ones((10, 5))
    for correct in (np.ones(10, dtype=bool), np.zeros(10, dtype=bool)):
        observed = Observed(np.arange(10), np.zeros(10, int), rows, correct)
        fit = fit_calibration(observed, LABELS)
        values = fit.calibration.of(LABELS)(rows, np.zeros(10, int))
        assert np.isfinite(values).all() and ((values > 0) & (values <= 1)).all()
