"""Selection of spans that do not overlap.

A span is a tuple that begins with its start and its end (exclusive), in tokens or characters.
"""

from collections.abc import Iterable
from typing import TypeVar

SpanT = TypeVar("SpanT", bound=tuple)


def longest_first(span: tuple) -> tuple[int, int]:
    """Return a sort key: longer spans first, and spans of equal length by their position.

    This is the order in which `spacy.util.filter_spans` selects.
    """
    return span[0] - span[1], span[0]


def most_confident_first(entity: tuple) -> tuple[float, int, int]:
    """Return a sort key of entities (start, end, type, confidence, ...), most confident first.

    Of equally confident entities, the longer one comes first, then the earlier one.
    """
    start, end, _, confidence, *_ = entity
    return -confidence, start - end, start


def drop_overlapping(spans: Iterable[SpanT]) -> list[SpanT]:
    """Keep each span that does not overlap a span kept before it.

    Args:
        spans: The spans in order of preference, for example sorted by `longest_first`.

    Returns:
        The spans that are kept, sorted by position.
    """
    taken: set[int] = set()
    kept = []
    for span in spans:
        positions = range(span[0], span[1])
        if taken.isdisjoint(positions):
            taken.update(positions)
            kept.append(span)
    return sorted(kept)
