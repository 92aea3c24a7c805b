"""Rows -> padded batches, sorted by length, within a budget of padded pieces."""

import sys
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import Protocol, TypeVar

import numpy as np

from ..types import UNMASKED, Block, PaddedBatch, Row, no_ints, one_hot
from .wordpieces import Wordpieces

# From this number of padded pieces on, overhead does not dominate a pass through the encoder.
WORTH_A_PASS = 512
# The same on a GPU, where a pass is some hundred operations that the CPU starts one by one, and
# which computes as many pieces in the meantime.
GPU_WORTH_A_PASS = 4096


class Sized(Protocol):
    """Anything with a length."""

    def __len__(self) -> int: ...


T = TypeVar("T", bound=Sized)


def batch_by_padded_size(
    items: Sequence[T], budget: int, extra: int, device: str = "cpu"
) -> Iterator[list[int]]:
    """Yield the indices of items in batches of limited padded size.

    The longest items come first, so that the first batch shows the peak of memory. A batch that is
    worth a pass takes no item that would be more than a quarter padding. On a GPU, that takes more
    pieces (GPU_WORTH_A_PASS) than on a CPU (WORTH_A_PASS).

    Args:
        items: The sequences of pieces.
        budget: The maximum number of padded pieces in a batch. A single item may exceed it.
        extra: The number of special pieces that are added to each item.
        device: The type of the device that reads them, such as "cuda".
    """
    worth_a_pass = WORTH_A_PASS if device == "cpu" else GPU_WORTH_A_PASS
    order = sorted(range(len(items)), key=lambda i: -len(items[i]))
    batch: list[int] = []
    width = 0
    for i in order:
        size = len(items[i]) + extra
        padded = width * len(batch)
        if batch and (padded + width > budget or (padded >= worth_a_pass and size < 0.75 * width)):
            yield batch
            batch = []
        if not batch:
            width = size
        batch.append(i)
    if batch:
        yield batch


def batch_rows(
    rows: Sequence[Row], budget: int, wordpieces: Wordpieces, device: str = "cpu"
) -> Iterator[PaddedBatch]:
    """Yield rows in padded batches of limited size.

    Blocks of similar length share a batch as long as they fit: the gradient of the masked-LM head
    is as large as the vocabulary, however few pieces are masked, and is computed once per batch.

    Args:
        rows: The rows.
        budget: The maximum number of padded pieces in a batch. A single row may exceed it.
        wordpieces: The special pieces.
        device: The type of the device that reads them, such as "cuda".
    """
    blocks: list[list[Row]] = []
    total = 0
    for indices in batch_by_padded_size(rows, budget, wordpieces.extra, device):
        block = [rows[i] for i in indices]
        padded = len(block) * (max(map(len, block)) + wordpieces.extra)
        if blocks and total + padded > budget:
            yield pad_rows(blocks, wordpieces)
            blocks, total = [], 0
        blocks.append(block)
        total += padded
    if blocks:
        yield pad_rows(blocks, wordpieces)


def share_rows(rows: Sequence[Row], n: int, extra: int) -> list[list[Row]]:
    """Divide rows into shares that take similar times to read.

    A share has rows of similar length, so that all together have little padding. A masked piece
    counts twice, because it is also projected onto the vocabulary.

    Args:
        rows: The rows.
        n: The number of shares.
        extra: The number of special pieces that are added to each row.

    Returns:
        The shares. Some are empty if there are few rows.
    """
    order = sorted(rows, key=lambda row: -len(row))
    sizes = cache(lambda start: _sizes(order[start:], extra))

    def ends(limit: int) -> list[int]:
        """Fill one share after the other up to a limit, and return their ends."""
        found = [0]
        while found[-1] < len(order) and len(found) <= n:
            taken = np.searchsorted(sizes(found[-1]), limit, side="right")
            found.append(found[-1] + int(taken))
        return found

    # The smallest limit by which the shares take all rows.
    low, high = 0, int(sizes(0)[-1]) if order else 0
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if ends(middle)[-1] == len(order) else (middle + 1, high)
    shares = [order[start:end] for start, end in pairwise(ends(high))]
    return [*shares, *([] for _ in range(n - len(shares)))]


def _sizes(rows: Sequence[Row], extra: int) -> np.ndarray:
    """Return the size of the first row, of the first two rows, and so on: (rows,)."""
    parts = [no_ints()]
    total = 0
    for indices in batch_by_padded_size(rows, sys.maxsize, extra):
        width = len(rows[indices[0]]) + extra
        parts.append(total + width * np.arange(1, len(indices) + 1))
        total = int(parts[-1][-1])
    masked = [np.count_nonzero(row.kinds != UNMASKED) for row in rows]
    return np.concatenate(parts) + np.cumsum(masked, dtype=np.int64)


def pad_ids(sequences: Sequence[np.ndarray], wordpieces: Wordpieces) -> Block:
    """Put special pieces around each sequence and pad all sequences to the longest."""
    lengths = np.array([len(ids) + wordpieces.extra for ids in sequences], dtype=np.int64)
    padded = np.full((len(sequences), int(lengths.max())), wordpieces.pad, dtype=np.int64)
    first = len(wordpieces.prefix)
    padded[:, :first] = wordpieces.prefix
    for row, ids in zip(padded, sequences, strict=True):
        end = first + len(ids)
        row[first:end] = ids
        row[end : end + len(wordpieces.suffix)] = wordpieces.suffix
    return Block(padded, lengths)


def pad_rows(blocks: Sequence[Sequence[Row]], wordpieces: Wordpieces) -> PaddedBatch:
    """Pad rows and convert the positions that the heads read to positions in the padded batch.

    Masked pieces are always replaced by the mask piece. BERT's 80/10/10 scheme is not used.

    Args:
        blocks: The rows of each block.
        wordpieces: The special pieces.
    """
    first = len(wordpieces.prefix)
    padded = []
    mask_at, mask_ids, mask_kinds, tag_at, tags = [], [], [], [], []
    span_at, span_of = [], []
    shared_at, shared_of = [], []
    types: list[int] = []
    offset = first
    for rows in blocks:
        block = pad_ids([row.ids for row in rows], wordpieces)
        padded.append(block)
        for row, ids in zip(rows, block.ids, strict=True):
            masked = np.flatnonzero(row.kinds != UNMASKED)
            ids[first + masked] = wordpieces.mask
            mask_at.append(offset + masked)
            mask_ids.append(row.ids[masked])
            mask_kinds.append(row.kinds[masked].astype(np.int64))
            tag_at.append(offset + row.tag_at)
            tags.append(row.tags)
            for pieces, type_ in row.mentions:
                span_at.append(offset + pieces)
                span_of.append(np.full(len(pieces), len(types), dtype=np.int64))
                types.append(type_)
            shared_at.append(offset + row.shared_at)
            shared_of.append(row.shared_of)
            offset += len(ids)
    return PaddedBatch(
        blocks=padded,
        mask_at=np.concatenate(mask_at),
        mask_ids=np.concatenate(mask_ids),
        mask_kinds=np.concatenate(mask_kinds),
        tag_at=np.concatenate(tag_at),
        tags=_join_tags(tags),
        span_at=np.concatenate(span_at) if span_at else no_ints(),
        span_of=np.concatenate(span_of) if span_of else no_ints(),
        types=np.array(types, dtype=np.int64),
        shared_at=np.concatenate(shared_at),
        shared_of=np.concatenate(shared_of),
    )


def _join_tags(tags: Sequence[np.ndarray]) -> np.ndarray:
    """Join the tags of rows, as probabilities if those of some rows are."""
    if any(own.dtype.kind == "f" for own in tags):
        tags = [own if own.dtype.kind == "f" else one_hot(own) for own in tags]
    return np.concatenate(tags)
