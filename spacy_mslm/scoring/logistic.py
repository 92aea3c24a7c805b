"""Logistic regression with bounds and a prior, by projected Newton steps."""

import numpy as np

from ..inference.calibration import sigmoid

MAX_STEPS = 100
TOLERANCE = 1e-8


def fit_logistic(
    x: np.ndarray, y: np.ndarray, prior: np.ndarray, strength: np.ndarray, lower: np.ndarray
) -> np.ndarray:
    """Return the weights that minimize the log-loss and the distance from a prior.

    The objective is `sum(log(1 + exp(x w)) - y x w) + sum(strength * (w - prior)^2) / 2`, which is
    strictly convex.

    Args:
        x: (n, k) The features.
        y: (n,) 0 or 1.
        prior: (k,) The expected weights.
        strength: (k,) How much each is pulled to the prior, greater than 0.
        lower: (k,) Lower bounds of the weights, or minus infinity.

    Returns:
        (k,) The weights.
    """
    weights = np.maximum(prior, lower)
    value = _objective(x, y, weights, prior, strength)
    for _ in range(MAX_STEPS):
        p = sigmoid(x @ weights)
        slope = x.T @ (p - y) + strength * (weights - prior)
        curvature = (x.T * (p * (1 - p))) @ x + np.diag(strength)
        # A weight at its bound that the gradient pushes further down stays there.
        free = (weights > lower) | (slope < 0)
        direction = np.zeros_like(weights)
        direction[free] = np.linalg.solve(curvature[np.ix_(free, free)], slope[free])
        before = value
        weights, value = _step(x, y, prior, strength, lower, weights, value, direction)
        if before - value < TOLERANCE:
            break
    return weights


def _step(
    x: np.ndarray,
    y: np.ndarray,
    prior: np.ndarray,
    strength: np.ndarray,
    lower: np.ndarray,
    weights: np.ndarray,
    value: float,
    direction: np.ndarray,
) -> tuple[np.ndarray, float]:
    """Return the weights after the longest of the halved steps that lowers the objective."""
    size = 1.0
    while size > 1e-10:
        moved = np.maximum(weights - size * direction, lower)
        found = _objective(x, y, moved, prior, strength)
        if found < value:
            return moved, found
        size /= 2
    return weights, value


def _objective(
    x: np.ndarray, y: np.ndarray, weights: np.ndarray, prior: np.ndarray, strength: np.ndarray
) -> float:
    z = x @ weights
    loss = (np.logaddexp(0, z) - y * z).sum()
    return float(loss + (strength * (weights - prior) ** 2).sum() / 2)
