"""Precision and recall at each threshold of the confidence."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..util.extensions import confidence_of
from .scorer import Judged, judged_spans

MAX_POINTS = 200


class Point(NamedTuple):
    """The scores of the mentions whose confidence is at least `threshold`."""

    threshold: float
    precision: float
    recall: float
    f: float


class Curve(NamedTuple):
    """The scores at each threshold, from low to high thresholds."""

    points: list[Point]

    def thin(self) -> list[Point]:
        """Return at most 200 of the points, at equal distances, with the first and the last."""
        at = np.linspace(0, len(self.points) - 1, min(len(self.points), MAX_POINTS))
        return [self.points[i] for i in at.round().astype(int)]

    def at_precision(self, precision: float) -> Point | None:
        """Return the point with the lowest threshold that reaches a precision, None if none does.

        It has the highest recall of those that reach it.
        """
        return next((point for point in self.points if point.precision >= precision), None)


def precision_recall(judged: Sequence[Judged], label: str | None = None) -> Curve:
    """Return the curve of the predicted mentions that have a confidence.

    Args:
        judged: The mentions of each document, predicted without a threshold.
        label: Only mentions of this type, or None for all.
    """
    found = [
        (value, correct)
        for span, correct in judged_spans(judged)
        if (label is None or span.label_ == label) and (value := confidence_of(span)) is not None
    ]
    gold = sum(label is None or m.label == label for mentions in judged for m in mentions.gold)
    if not found:
        return Curve([])
    values, correct = (np.array(column) for column in zip(*found, strict=True))
    order = np.argsort(-values, kind="stable")
    values = values[order]
    # Mentions of equal confidence are above a threshold together: the last of them counts.
    last = np.append(values[1:] != values[:-1], True)
    right = np.cumsum(correct[order])[last]
    predicted = np.arange(1, len(values) + 1)[last]
    columns = (
        values[last],
        right / predicted,
        right / max(gold, 1),
        2 * right / (predicted + gold),
    )
    return Curve([Point(*map(float, row)) for row in zip(*columns, strict=True)][::-1])
