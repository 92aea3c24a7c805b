"""Calibration of confidences: a temperature, and the calibration error.

The confidence of a mention is a product over its tokens, and trained encoders are overconfident.
The temperature applies to the mention as a whole: `sigmoid(logit(confidence) / temperature)`. It is
fitted to how often mentions are correct at each confidence. It changes neither the predicted
mentions nor the order of their confidences.
"""

from typing import NamedTuple

import numpy as np

BINS = 10
# The minimum distance of confidences from 0 and 1, about the resolution of 32-bit floats.
EPSILON = 1e-7
# The range of 1 / temperature. With a temperature below 0.5, confidences would get closer to 1 than
# 64-bit floats can represent. Above 100, all of them are close to 0.5.
INVERSE_RANGE = (0.01, 2.0)


class Calibration(NamedTuple):
    """A fitted temperature and the calibration error before and after."""

    temperature: float
    error_before: float  # expected calibration error at temperature 1
    error_after: float
    mentions: int  # the number of mentions that it was fitted to


def fit_calibration(confidences: np.ndarray, correct: np.ndarray) -> Calibration:
    """Fit a temperature and measure its effect.

    Args:
        confidences: (n,) The confidences of predicted mentions, at temperature 1.
        correct: (n,) Whether each mention is correct.
    """
    temperature = fit_temperature(confidences, correct)
    return Calibration(
        temperature,
        calibration_error(confidences, correct),
        calibration_error(rescale(confidences, temperature), correct),
        len(confidences),
    )


def rescale(confidences: np.ndarray, temperature: float) -> np.ndarray:
    """Convert (n,) confidences at temperature 1 to (n,) confidences at another temperature."""
    if temperature == 1.0:
        return confidences
    return _sigmoid(_logit(confidences, EPSILON) / temperature)


def unscale(confidences: np.ndarray, temperature: float) -> np.ndarray:
    """Convert (n,) confidences at a temperature to (n,) confidences at temperature 1."""
    if temperature == 1.0:
        return confidences
    return _sigmoid(_logit(confidences, 1e-16) * temperature)


def fit_temperature(confidences: np.ndarray, correct: np.ndarray) -> float:
    """Return the maximum-likelihood temperature of confidences.

    Args:
        confidences: (n,) The confidences of predicted mentions, at temperature 1.
        correct: (n,) Whether each mention equals a gold mention in boundaries and type.

    Raises:
        ValueError: If there are no mentions.
    """
    if not len(confidences):
        raise ValueError(
            "A temperature cannot be fitted because no predicted mention has a confidence. Give "
            "annotated text in which the pipeline finds entities."
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
    """Return the expected calibration error.

    This is |mean confidence - share of correct mentions| in ten bins of equal width, averaged over
    the mentions.
    """
    bins = np.minimum((confidences * BINS).astype(np.int64), BINS - 1)
    gaps = np.bincount(bins, weights=confidences - correct, minlength=BINS)
    return float(np.abs(gaps).sum() / len(confidences))


def _logit(p: np.ndarray, epsilon: float) -> np.ndarray:
    p = np.asarray(p, dtype=np.float64)
    return np.log(np.maximum(p, epsilon)) - np.log(np.maximum(1 - p, epsilon))


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 0.5 * (1 + np.tanh(0.5 * x))
