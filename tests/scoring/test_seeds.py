"""Scores over seeds: worked out by hand."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_mslm.scoring.counts import COUNTS
from spacy_mslm.scoring.seeds import (
    EM,
    F1,
    UNSEEN,
    Spread,
    compare_models,
    pair_seeds,
    spread,
)


def found(*numbers: int, documents: int = 40) -> np.ndarray:
    """(2, seeds, documents, 3) counts: one gold and one predicted mention in each document, of
    which the baseline finds none and the other model finds the given numbers, one per seed."""
    counts = np.zeros((2, len(numbers), documents, 3), dtype=int)
    counts[..., :2] = 1
    for seed, number in enumerate(numbers):
        counts[1, seed, :number, 2] = 1
    return counts


def test_mean_and_standard_deviation() -> None:
    # Of the sample: sqrt(((-2)² + 0² + 2²) / 2) = 2.
    assert spread([70.0, 72.0, 74.0]) == Spread(72.0, 2.0, 3)
    assert str(spread([70.0, 72.0, 74.0])) == "72.0 ± 2.0"
    assert str(spread([71.25])) == "71.2" and spread([71.25]).sd is None
    assert str(spread([13601.4])) == "13,601.4"


@given(st.lists(st.floats(0, 100), min_size=1, max_size=6))
def test_the_mean_is_between_the_seeds(values: list[float]) -> None:
    result = spread(values)
    assert min(values) - 1e-9 <= result.mean <= max(values) + 1e-9
    assert result.seeds == len(values) and (result.sd is None) == (len(values) == 1)


def test_differences_by_hand() -> None:
    # Ten sentences of one gold mention; the baseline finds 5 and predicts 10, the trial finds 8 and
    # predicts 10; of 4 unseen mentions they find 1 and 3.
    counts = np.zeros((2, 1, 10, len(COUNTS)), dtype=np.uint8)
    counts[..., 0] = counts[..., 1] = 1
    counts[0, 0, :5, 2] = 1
    counts[1, 0, :8, 2] = 1
    counts[:, 0, 4:8, 3] = 1
    counts[0, 0, 4:5, 4] = 1
    counts[1, 0, 4:7, 4] = 1
    compared = compare_models([counts])
    f, em, unseen = (compared[i].difference for i in (F1, EM, UNSEEN))
    assert f.mean == pytest.approx(100 * (16 / 20 - 10 / 20))
    assert em.mean == pytest.approx(100 * (8 / 10 - 5 / 10))
    assert unseen.mean == pytest.approx(100 * (3 / 4 - 1 / 4))
    assert compared[EM].by_seed == pytest.approx((30.0,))
    # Of ten draws, the number k of sentences 5, 6, 7 is binomial: 10 k / 10 points of EM.
    draws = np.random.default_rng(1).binomial(10, 0.3, size=100_000)
    assert (em.low, em.high) == pytest.approx(tuple(np.percentile(draws, [2.5, 97.5]) * 10))


def test_seeds_are_drawn_too() -> None:
    """Where sentences do not differ, the interval is that of the seeds."""
    counts = found(0, 40)  # one seed of the trial finds all, everything else nothing
    compared = compare_models([counts])[EM]
    assert tuple(compared.difference) == (50.0, 0.0, 100.0)
    assert compared.by_seed == (0.0, 100.0)
    assert compared.words == "may be chance"
    (same, _) = compare_models([counts[[0, 0]]])
    assert tuple(same.difference) == (0.0, 0.0, 0.0) and same.words == "may be chance"


def test_sets_are_pooled_with_equal_weight() -> None:
    compared = compare_models([found(10, documents=10), found(0, documents=1000)])
    assert compared[EM].difference.mean == 50.0 and compared[EM].by_seed == (50.0,)


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ((1,), "may be chance"),
        ((30,), "better with this seed, others may differ"),
        ((30, 32), "better with both seeds"),
        ((30, 32, 34), "better with all 3 seeds"),
    ],
)
def test_words_say_whether_a_difference_means_anything(
    numbers: tuple[int, ...], words: str
) -> None:
    compared = compare_models([found(*numbers)])[F1]
    assert compared.words == words
    assert re.fullmatch(rf"\+\d+\.\d \[\+\d+\.\d, \+\d+\.\d\], {words}", str(compared)) or (
        words == "may be chance"
    )
    worse = compare_models([found(*numbers)[::-1]])[F1]
    assert worse.words == words.replace("better", "worse")


def test_seeds_that_disagree_are_named() -> None:
    counts = found(39, 39, 39, 39, 39, 39, 39, 39, 39, 0)
    counts[0, 9, :2, 2] = 1  # the baseline is better with one of ten seeds
    compared = compare_models([counts])[EM]
    assert not compared.difference.may_be_chance
    assert compared.words == "better in the mean, but not with every seed"


def test_only_runs_on_the_same_documents_are_paired() -> None:
    base, other = found(3, documents=5)[:, 0]
    assert pair_seeds({}, {0: other}) is None
    assert pair_seeds({0: base}, {1: other}) is None
    assert pair_seeds({0: base}, {0: other[:4]}) is None
    another = other.copy()
    another[0, 0] = 2  # another gold mention
    assert pair_seeds({0: base}, {0: another}) is None
    pair = pair_seeds({0: base, 1: base, 2: base}, {2: other, 0: other, 3: other})
    assert pair is not None and pair.shape == (2, 2, 5, 3)
    assert np.array_equal(pair[1, 0], other) and np.array_equal(pair[0, 1], base)
