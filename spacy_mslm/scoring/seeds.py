"""Scores over several seeds: mean, standard deviation, paired differences, and what they mean."""

from collections.abc import Mapping, Sequence
from statistics import mean, stdev
from typing import NamedTuple, TypeVar

import numpy as np

from .bootstrap import Difference, paired_bootstrap

Seed = TypeVar("Seed", int, str)
# The scores that are compared, by what `rate_differences` returns.
F1, EM, UNSEEN = 0, 1, 2


class Spread(NamedTuple):
    """A score over seeds.

    Attributes:
        mean: The mean.
        sd: The standard deviation of the sample, None with one seed.
        seeds: The number of seeds.
    """

    mean: float
    sd: float | None
    seeds: int

    def __str__(self) -> str:
        return f"{self.mean:,.1f}" + ("" if self.sd is None else f" ± {self.sd:,.1f}")


def spread(values: Sequence[float]) -> Spread:
    """Return mean and standard deviation of a score, with one value per seed."""
    return Spread(mean(values), stdev(values) if len(values) > 1 else None, len(values))


class Comparison(NamedTuple):
    """A difference between two models, paired by seeds and sentences.

    Attributes:
        difference: The difference in points, with its interval.
        by_seed: The difference of each seed that both models have.
    """

    difference: Difference
    by_seed: tuple[float, ...]

    @property
    def words(self) -> str:
        """Whether the difference means anything.

        The interval says whether other sentences could turn the difference around. It says little
        about other seeds if there are few of them, so these are named.
        """
        seeds = len(self.by_seed)
        if self.difference.may_be_chance:
            return "may be chance"
        word = "better" if self.difference.mean > 0 else "worse"
        if seeds == 1:
            return f"{word} with this seed, others may differ"
        if all(value * self.difference.mean > 0 for value in self.by_seed):
            return f"{word} with {'both' if seeds == 2 else f'all {seeds}'} seeds"
        return f"{word} in the mean, but not with every seed"

    def __str__(self) -> str:
        return f"{self.difference}, {self.words}"


def pair_seeds(
    baseline: Mapping[Seed, np.ndarray], other: Mapping[Seed, np.ndarray]
) -> np.ndarray | None:
    """Return (2, seeds, documents, counts) of the seeds that two models have in common.

    Args:
        baseline, other: (documents, counts) by seed. The first count is the number of gold
            mentions.

    Returns:
        The counts, or None if no seed of both was scored on the same documents.
    """
    reference = next(iter(baseline.values()), None)
    if reference is None:
        return None
    both = [
        (baseline[seed], other[seed])
        for seed in sorted(baseline.keys() & other.keys())
        if _same(reference, baseline[seed]) and _same(reference, other[seed])
    ]
    return np.array(both).swapaxes(0, 1) if both else None


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    """Return whether two models were scored on the same documents, as far as counts tell."""
    return one.shape == other.shape and bool((one[:, 0] == other[:, 0]).all())


def compare_models(pairs: Sequence[np.ndarray]) -> list[Comparison]:
    """Compare two models in F1 and EM and, if the counts have them, EM on unseen mentions.

    The differences are means over the sets.

    Args:
        pairs: (2, seeds, documents, counts) of each set, the baseline first. The counts are those
            of `counts.COUNTS`, or the first three of them.
    """
    found = paired_bootstrap(pairs, rate_differences)
    seeds = min(pair.shape[1] for pair in pairs)
    by_seed = [
        np.mean([rate_differences(_totals(pair, seed)) for pair in pairs], axis=0)
        for seed in range(seeds)
    ]
    return [
        Comparison(difference, tuple(float(values[i]) for values in by_seed))
        for i, difference in enumerate(found)
    ]


def _totals(pair: np.ndarray, seed: int) -> np.ndarray:
    return pair[:, [seed]].sum(axis=2).astype(float)


def rate_differences(totals: np.ndarray) -> np.ndarray:
    """Return (k,) differences in points of F1, EM and, if counted, EM on unseen mentions.

    Args:
        totals: (2, seeds, counts) Counts summed over documents, the baseline first.
    """
    gold, predicted, exact, *unseen = np.moveaxis(totals, -1, 0)
    scores = [2 * exact / np.maximum(gold + predicted, 1), exact / np.maximum(gold, 1)]
    if unseen:
        scores.append(unseen[1] / np.maximum(unseen[0], 1))
    baseline, other = np.stack(scores).mean(axis=2).T
    return np.asarray(100 * (other - baseline))
