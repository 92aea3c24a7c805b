"""Confidences that mean probabilities: a temperature, and the error that is left.

A mention's confidence is a product over its tokens, and a trained encoder is too sure of itself.
The temperature acts on the mention as a whole, `sigmoid(logit(confidence) / temperature)`: it is
fitted to how often mentions of a confidence are right, changes no prediction and keeps their order.
"""

from typing import NamedTuple

import numpy as np

BINS = 10
# Confidences are kept this far from 0 and 1, about what 32-bit floats resolve.
EPSILON = 1e-7
# 1 / temperature is looked for between these. A temperature below 0.5 would push confidences closer
# to 1 than 64-bit floats can tell apart from it; above 100, all of them are 0.5.
INVERSE_RANGE = (0.01, 2.0)


class Calibration(NamedTuple):
    """A fitted temperature, and what it was fitted to."""

    temperature: float
    error_before: float  # expected calibration error at temperature 1
    error_after: float
    mentions: int


def calibrate(confidences: np.ndarray, correct: np.ndarray) -> Calibration:
    """Fit a temperature to (n,) confidences and (n,) whether the mentions are right."""
    temperature = fit_temperature(confidences, correct)
    return Calibration(
        temperature,
        calibration_error(confidences, correct),
        calibration_error(rescale(confidences, temperature), correct),
        len(confidences),
    )


def rescale(confidences: np.ndarray, temperature: float) -> np.ndarray:
    """(n,) confidences at temperature 1 -> (n,) at another."""
    if temperature == 1.0:
        return confidences
    return _sigmoid(_logit(confidences, EPSILON) / temperature)


def unscale(confidences: np.ndarray, temperature: float) -> np.ndarray:
    """(n,) confidences at a temperature -> (n,) what they were at temperature 1."""
    if temperature == 1.0:
        return confidences
    return _sigmoid(_logit(confidences, 1e-16) * temperature)


def fit_temperature(confidences: np.ndarray, correct: np.ndarray) -> float:
    """The temperature at which the confidences are likeliest, given which mentions were correct.

    confidences: (n,) of predicted mentions, at temperature 1.
    correct: (n,) whether each is a gold mention, in boundaries and type.
    """
    if not len(confidences):
        raise ValueError(
            "No predicted mention has a confidence, so there is nothing to fit a temperature "
            "to. Give annotated text in which the pipeline finds entities."
        )
    logits = _logit(confidences, EPSILON)

    def slope(inverse: float) -> float:
        """Derivative of the negative log-likelihood, which is convex in 1 / temperature."""
        return float((logits * (_sigmoid(inverse * logits) - correct)).sum())

    low, high = INVERSE_RANGE
    for _ in range(60):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    return 1 / low


def calibration_error(confidences: np.ndarray, correct: np.ndarray) -> float:
    """Expected calibration error: |mean confidence - share of correct ones| in ten bins of equal
    width, averaged over the mentions."""
    bins = np.minimum((confidences * BINS).astype(np.int64), BINS - 1)
    gaps = np.bincount(bins, weights=confidences - correct, minlength=BINS)
    return float(np.abs(gaps).sum() / len(confidences))


def _logit(p: np.ndarray, epsilon: float) -> np.ndarray:
    p = np.asarray(p, dtype=np.float64)
    return np.log(np.maximum(p, epsilon)) - np.log(np.maximum(1 - p, epsilon))


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 0.5 * (1 + np.tanh(0.5 * x))
