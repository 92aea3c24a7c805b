"""Calibration: from what the network says about a mention to the probability that it is right.

Before calibration, the confidence of a mention is the product of the probabilities of its tags and
of its type. Trained encoders are overconfident in some of these probabilities and not in others,
and long mentions have small products. A calibration is a logistic model of the evidence for a
mention, fitted to which mentions are correct (`spacy_mslm.scoring.calibrate`):

    logit(confidence) = f(logit(tags * type)) + w_1 logit(type) + w_2 logit(before)
                        + w_3 logit(after) + w_4 log(tokens) + offset + offset of the type

f is linear between the KNOTS, with a slope that may grow at each of them: mentions with a small
product differ little in how often they are right, and few of those with a large one are wrong.

Weights of probabilities are not negative, so more evidence never lowers a confidence. Predicted
mentions do not depend on it. Earlier versions had a temperature T only: f(x) = x / T.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

# Converts (n, evidence) `types.Evidence` and (n,) types of mentions to (n,) confidences.
Calibrate = Callable[[np.ndarray, np.ndarray], np.ndarray]

# Logits of the uncalibrated confidence at which the slope may change: 0.12, 0.5 and 0.88.
KNOTS = (-2.0, 0.0, 2.0)
FEATURES = (
    *("confidence", "over_12", "over_50", "over_88"),
    *("type", "before", "after", "tokens"),
)
BINS = 10
# The minimum distance of probabilities from 0 and 1, about the resolution of 32-bit floats.
EPSILON = 1e-7


@dataclass(frozen=True)
class Calibration:
    """A fitted calibration, as it is stored in the `cfg` of a pipe.

    Args:
        weights: The weights by the names in FEATURES. Those that are missing are 0.
        offset: The offset of all mentions.
        types: Further offsets by entity type. Those that are missing are 0.
    """

    weights: dict[str, float]
    offset: float = 0.0
    types: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        unknown = self.weights.keys() - set(FEATURES)
        if unknown:
            raise ValueError(
                f"The calibration of this pipeline has unknown weights: {sorted(unknown)}. It was "
                "made by a later version of spacy-mslm. Install that version, or calibrate again."
            )

    def of(self, labels: Sequence[str]) -> Calibrate:
        """Return the calibration of a pipe with these entity types."""
        weights = np.array([self.weights.get(name, 0.0) for name in FEATURES])
        offsets = self.offset + np.array([self.types.get(label, 0.0) for label in labels])

        def calibrate(evidence: np.ndarray, types: np.ndarray) -> np.ndarray:
            return sigmoid(features(evidence) @ weights + offsets[types])

        return calibrate

    def to_dict(self) -> dict[str, Any]:
        """Return the calibration as JSON."""
        return asdict(self)


def from_temperature(temperature: float) -> Calibration | None:
    """Return the calibration of a pipe of an earlier version; None for temperature 1."""
    return None if temperature == 1.0 else Calibration({"confidence": 1 / temperature})


def uncalibrated(evidence: np.ndarray, types: np.ndarray) -> np.ndarray:
    """Return (n,) the products of the probabilities of tags and type."""
    tags, _, _, of_type, _ = evidence.T
    return tags * of_type


def features(evidence: np.ndarray) -> np.ndarray:
    """Convert (n, evidence) Evidence to (n, FEATURES) features."""
    tags, before, after, of_type, tokens = evidence.T
    confidence = logit(tags * of_type)
    over = [np.maximum(0, confidence - knot) for knot in KNOTS]
    others = map(logit, (of_type, before, after))
    return np.stack([confidence, *over, *others, np.log(tokens)], axis=1)


def calibration_error(confidences: np.ndarray, correct: np.ndarray) -> float:
    """Return the expected calibration error.

    This is |mean confidence - share of correct mentions| in ten bins of equal width, averaged over
    the mentions.
    """
    gaps = np.bincount(_bins(confidences), weights=confidences - correct, minlength=BINS)
    return float(np.abs(gaps).sum() / len(confidences))


def error_by_chance(confidences: np.ndarray) -> float:
    """Return the expected calibration error that these confidences would have if they were exact.

    It is not 0, because the share of correct mentions in a bin varies around its expectation: about
    3 % for 1,000 mentions. The variation is taken as normal.
    """
    variances = np.bincount(_bins(confidences), weights=confidences * (1 - confidences))
    return float(np.sqrt(2 / np.pi * variances).sum() / len(confidences))


def debiased_error(confidences: np.ndarray, correct: np.ndarray) -> float:
    """Return the expected calibration error without the part that chance explains.

    The square of the difference in each bin is reduced by its variance, as in the debiased
    estimator of Kumar et al. 2019, and is at least 0.
    """
    bins = _bins(confidences)
    differences = confidences - correct
    n = np.maximum(np.bincount(bins, minlength=BINS), 1)
    means = np.bincount(bins, weights=differences, minlength=BINS) / n
    squares = np.bincount(bins, weights=(differences - means[bins]) ** 2, minlength=BINS)
    variances = squares / np.maximum(n - 1, 1) / n
    gaps = np.sqrt(np.maximum(means**2 - variances, 0))
    return float((n * gaps).sum() / len(confidences))


def _bins(confidences: np.ndarray) -> np.ndarray:
    return np.minimum((confidences * BINS).astype(np.int64), BINS - 1)


def logit(p: np.ndarray) -> np.ndarray:
    """Return log(p / (1 - p)), which is finite also at 0 and 1."""
    p = np.asarray(p, dtype=np.float64)
    return np.log(np.maximum(p, EPSILON)) - np.log(np.maximum(1 - p, EPSILON))


def sigmoid(x: np.ndarray) -> np.ndarray:
    """Return 1 / (1 + exp(-x))."""
    return 0.5 * (1 + np.tanh(0.5 * x))
