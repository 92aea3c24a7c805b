"""Mention swap: new labelled windows, in which a mention is replaced by another of its type.

the patient had [heart failure] .    the window
no history of [asthma] .             another window
the patient had [asthma] .           the new window
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from ..types import Pieces, Prediction, Row, no_ints


def swap_mentions(
    rows: Sequence[Row], n: int, max_pieces: int, generator: random.Random
) -> list[Row]:
    """Return new windows, each with one mention replaced.

    Each mention is as likely to be replaced as any other, and to be put in its place, so that
    windows with many mentions are chosen often.

    Args:
        rows: Labelled windows, clean.
        n: The number of new windows.
        max_pieces: The maximum number of pieces in a window. Longer results are left out.
        generator: The source of randomness.

    Returns:
        Up to `n` windows, none if no mention has another of its type.
    """
    slots = [(row, k) for row in rows for k in range(len(row.mentions))]
    of_type: dict[int, list[tuple[Row, int]]] = {}
    for row, k in slots:
        of_type.setdefault(row.mentions[k][1], []).append((row, k))
    slots = [(row, k) for row, k in slots if len(of_type[row.mentions[k][1]]) > 1]
    found = []
    for _ in range(n if slots else 0):
        row, k = generator.choice(slots)
        other, j = generator.choice(of_type[row.mentions[k][1]])
        new = swapped(row, k, other, j)
        if len(new) <= max_pieces:
            found.append(new)
    return found


def confirmed(
    rows: Sequence[Row], predict: Callable[[list[Pieces]], list[Prediction]]
) -> Iterator[Row]:
    """Yield the windows of `swap_mentions` in which a model finds the new mention exactly.

    Args:
        rows: The windows. The new mention is the last one of each.
        predict: The prediction of the model.
    """
    documents = [_as_pieces(row) for row in rows]
    for row, pieces, prediction in zip(rows, documents, predict(documents), strict=True):
        at, type_ = row.mentions[-1]
        start, end = int(pieces.token_of[at[0]]), int(pieces.token_of[at[-1]]) + 1
        if any((e.start, e.end, e.type) == (start, end, type_) for e in prediction.entities):
            yield row


def _as_pieces(row: Row) -> Pieces:
    """Return a window as a document of one sentence, in which each tag begins a token."""
    begins = np.zeros(len(row), dtype=np.int64)
    begins[[0, *row.tag_at]] = 1
    token_of = np.cumsum(begins) - 1
    return Pieces(row.ids, token_of, [""] * int(begins.sum()), no_ints(1))


def swapped(row: Row, k: int, other: Row, j: int) -> Row:
    """Return a window with the mention `j` of another window in place of its mention `k`."""
    at, type_ = row.mentions[k]
    start, end = int(at[0]), int(at[-1]) + 1
    source = other.mentions[j][0]
    first, last = int(source[0]), int(source[-1]) + 1
    shift = (last - first) - (end - start)

    def spliced(own: np.ndarray, theirs: np.ndarray) -> np.ndarray:
        return np.concatenate([own[:start], theirs[first:last], own[end:]])

    before, after = row.tag_at < start, row.tag_at >= end
    taken = (other.tag_at >= first) & (other.tag_at < last)
    places = [row.tag_at[before], other.tag_at[taken] - first + start, row.tag_at[after] + shift]
    mentions = [
        (pieces + shift * bool(pieces[0] >= end), own_type)
        for index, (pieces, own_type) in enumerate(row.mentions)
        if index != k
    ]
    return replace(
        row,
        ids=spliced(row.ids, other.ids),
        kinds=spliced(row.kinds, other.kinds),
        tag_at=np.concatenate(places),
        tags=np.concatenate([row.tags[before], other.tags[taken], row.tags[after]]),
        mentions=[*mentions, (np.arange(start, start + last - first), type_)],
    )
