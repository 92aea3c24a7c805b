"""The threshold of a pipe: predicted mentions with a lower confidence are left out."""

from collections.abc import Sequence

import numpy as np

from ..errors import Errors, listing
from ..types import Prediction

# A threshold for all entity types, or one for each; those of types that are not listed are 0.
Threshold = float | dict[str, float]


def thresholds(threshold: Threshold, labels: Sequence[str]) -> np.ndarray:
    """Return (labels,) the threshold of each entity type.

    Raises:
        ValueError: If a threshold is not between 0 and 1, or its type is not one of the labels.
    """
    by_type = threshold if isinstance(threshold, dict) else {None: threshold}
    for label, value in by_type.items():
        if not 0 <= value <= 1:  # also true of NaN
            name = "threshold" if label is None else f"threshold.{label}"
            raise ValueError(Errors.M003.format(name=name, value=value))
    if not isinstance(threshold, dict):
        return np.full(len(labels), threshold, dtype=np.float64)
    unknown = threshold.keys() - set(labels)
    if unknown:
        raise ValueError(
            f"threshold names entity types that the pipe does not have: {listing(sorted(unknown))}."
            f" Its types are: {listing(labels)}."
        )
    return np.array([threshold.get(label, 0.0) for label in labels], dtype=np.float64)


def apply_threshold(predictions: Sequence[Prediction], values: np.ndarray) -> None:
    """Remove the entities whose confidence is below the threshold of their type.

    Args:
        predictions: The predictions, which are changed.
        values: (labels,) The threshold of each type.
    """
    if values.any():
        for prediction in predictions:
            prediction.entities = [e for e in prediction.entities if e.confidence >= values[e.type]]
