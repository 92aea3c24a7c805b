"""Rows -> padded batches: sorted by length, as many as fit into a budget of padded pieces."""

from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar

import numpy as np

from ..types import UNMASKED, Block, PaddedBatch, Row, no_ints
from .wordpieces import Wordpieces

# Padded pieces from which on a pass through the encoder is not dominated by its overhead.
WORTH_A_PASS = 512


class Sized(Protocol):
    def __len__(self) -> int: ...


T = TypeVar("T", bound=Sized)


def batch_by_padded_size(items: Sequence[T], budget: int, extra: int) -> Iterator[list[int]]:
    """Indices of `items` in batches of at most `budget` padded pieces (one item may exceed it).

    Longest first, so that the first batch shows the peak of memory. A batch that is large enough
    to be worth a pass of its own takes no item that would be more than a quarter padding.
    `extra` special pieces are added to each item.
    """
    order = sorted(range(len(items)), key=lambda i: -len(items[i]))
    batch: list[int] = []
    width = 0
    for i in order:
        size = len(items[i]) + extra
        padded = width * len(batch)
        if batch and (padded + width > budget or (padded >= WORTH_A_PASS and size < 0.75 * width)):
            yield batch
            batch = []
        if not batch:
            width = size
        batch.append(i)
    if batch:
        yield batch


def batch_rows(rows: Sequence[Row], budget: int, wordpieces: Wordpieces) -> Iterator[PaddedBatch]:
    """Rows in batches of at most `budget` padded pieces (one row may exceed it).

    Blocks of similar length share a batch as long as they fit: the gradient of the masked-LM head
    is as large as the vocabulary, however few pieces it is of, and is computed once for all.
    """
    blocks: list[list[Row]] = []
    total = 0
    for indices in batch_by_padded_size(rows, budget, wordpieces.extra):
        block = [rows[i] for i in indices]
        padded = len(block) * (max(map(len, block)) + wordpieces.extra)
        if blocks and total + padded > budget:
            yield pad_rows(blocks, wordpieces)
            blocks, total = [], 0
        blocks.append(block)
        total += padded
    if blocks:
        yield pad_rows(blocks, wordpieces)


def pad_ids(sequences: Sequence[np.ndarray], wordpieces: Wordpieces) -> Block:
    """Special pieces around each sequence, all padded to the longest."""
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
    """Put special pieces around the rows, replace what is masked by the mask piece (always: no
    80/10/10), and say in padded positions what each head reads."""
    first = len(wordpieces.prefix)
    padded = []
    mask_at, mask_ids, mask_kinds, tag_at, tags = [], [], [], [], []
    span_at, span_of = [], []
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
            offset += len(ids)
    return PaddedBatch(
        blocks=padded,
        mask_at=np.concatenate(mask_at),
        mask_ids=np.concatenate(mask_ids),
        mask_kinds=np.concatenate(mask_kinds),
        tag_at=np.concatenate(tag_at),
        tags=np.concatenate(tags),
        span_at=np.concatenate(span_at) if span_at else no_ints(),
        span_of=np.concatenate(span_of) if span_of else no_ints(),
        types=np.array(types, dtype=np.int64),
    )
