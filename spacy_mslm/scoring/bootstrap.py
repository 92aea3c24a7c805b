"""Paired bootstrap: how sure a difference between two models on the same documents is."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

RESAMPLES = 2000


class Difference(NamedTuple):
    """A difference in points, with its 95 % interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:+.1f} [{self.low:+.1f}, {self.high:+.1f}]"

    @property
    def may_be_chance(self) -> bool:
        """Whether the interval contains 0."""
        return self.low <= 0 <= self.high


def paired_bootstrap(
    pairs: Sequence[np.ndarray], differences: Callable[[np.ndarray], np.ndarray]
) -> list[Difference]:
    """Return differences with their intervals, as means over sets of documents.

    Seeds and documents of each set are drawn with replacement, the same for both models. The score
    of a draw is the mean over its seeds.

    Args:
        pairs: (2, seeds, documents, counts) of each set, the baseline first.
        differences: Converts (2, seeds, counts), the counts summed over documents, to (k,)
            differences in points.
    """
    observed = np.mean([differences(pair.sum(axis=2).astype(float)) for pair in pairs], axis=0)
    generator = np.random.default_rng(0)
    drawn = np.mean([_resample(pair, differences, generator) for pair in pairs], axis=0)
    low, high = np.percentile(drawn, [2.5, 97.5], axis=0)
    return [Difference(*values) for values in np.stack([observed, low, high], axis=1).tolist()]


def _resample(
    pair: np.ndarray,
    differences: Callable[[np.ndarray], np.ndarray],
    generator: np.random.Generator,
) -> np.ndarray:
    """Return (RESAMPLES, k) differences of resampled sets."""
    _, seeds, documents, _ = pair.shape
    values = []
    for _ in range(RESAMPLES):
        chosen = generator.integers(seeds, size=seeds)
        weights = np.bincount(generator.integers(documents, size=documents), minlength=documents)
        totals = np.einsum("bstc,t->bsc", pair[:, chosen], weights.astype(float))
        values.append(differences(totals))
    return np.array(values)


def f1_difference(totals: np.ndarray) -> np.ndarray:
    """Return (1,) the difference of F1 in points.

    Args:
        totals: (2, seeds, 3) The numbers of gold, predicted and exactly matched mentions.
    """
    gold, predicted, exact = np.moveaxis(totals, -1, 0)
    baseline, other = (2 * exact / np.maximum(gold + predicted, 1)).mean(axis=1)
    return np.array([100 * (other - baseline)])
