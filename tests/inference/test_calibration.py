"""Temperature scaling of confidences, and the error that is left."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_mslm.inference.calibration import (
    calibration_error,
    fit_calibration,
    fit_temperature,
    rescale,
    unscale,
)


def test_calibration_error_by_hand():
    """Bin 0.9-1: confidences 0.9 and 1, one of two right: |1.9 - 1| = 0.9. Bin 0.5-0.6: 0.5 and
    0.5, one right: 0. Bin 0.2-0.3: 0.25, wrong: 0.25. (0.9 + 0 + 0.25) / 5 = 0.23"""
    values = np.array([0.9, 1.0, 0.5, 0.5, 0.25])
    correct = np.array([True, False, True, False, False])
    assert calibration_error(values, correct) == pytest.approx(0.23)
    assert calibration_error(np.array([0.0, 1.0]), np.array([False, True])) == 0


def test_rescale_by_hand():
    # logit(0.9) = log 9; at temperature 2: sigmoid(log 3) = 3/4
    assert rescale(np.array([0.9]), 2.0).tolist() == pytest.approx([0.75])
    assert rescale(np.array([0.5, 0.1]), 0.5).tolist() == pytest.approx([0.5, 1 / 82])


@given(st.lists(st.floats(0, 1), min_size=1), st.floats(0.5, 20))
def test_rescaling_keeps_the_order_and_can_be_undone(values, temperature):
    values = np.array(sorted(values))
    scaled = rescale(values, temperature)
    assert (np.diff(scaled) >= 0).all() and (scaled >= 0).all() and (scaled <= 1).all()
    np.testing.assert_allclose(unscale(scaled, temperature), values, atol=2e-7)


@pytest.mark.parametrize("temperature", [0.7, 1.0, 3.0])
def test_the_temperature_that_made_the_data_is_found(temperature):
    rng = np.random.default_rng(0)
    true = rng.random(200_000)
    correct = rng.random(len(true)) < true
    stated = unscale(true, temperature)  # surer than it is, for temperatures above 1
    fit = fit_calibration(stated, correct)
    assert fit.temperature == pytest.approx(temperature, rel=0.02)
    assert fit.error_after < 0.005
    if temperature != 1:
        assert fit.error_before > 10 * fit.error_after


def test_extremes_have_a_finite_temperature():
    ones = np.ones(10)
    for correct in (np.ones(10, dtype=bool), np.zeros(10, dtype=bool)):
        temperature = fit_temperature(ones, correct)
        assert 0.5 <= temperature < 101
        assert np.isfinite(rescale(ones, temperature)).all()


def test_nothing_to_fit_is_one_clear_message():
    with pytest.raises(ValueError, match="no predicted mention has a confidence"):
        fit_temperature(np.zeros(0), np.zeros(0, dtype=bool))
