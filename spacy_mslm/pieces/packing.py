"""Sentences -> blocks of nearly equal length, so that masked-LM training needs little padding.

    sentences   the patient had asthma .   no fever .   she was given albuterol at noon .
    blocks      [ the patient had asthma . no fever . ] [ she was given albuterol at noon . ]

A block takes whole sentences, in the order of the text, as long as they fit. A sentence longer than
a block is split. The pieces are in temporary files. Memory holds only the offsets of the blocks.
"""

import tempfile
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, NamedTuple

import numpy as np

from ..types import MaskableWindow, Pieces


class PackedBlock(NamedTuple):
    """One block of packed sentences."""

    ids: np.ndarray  # (pieces,) vocabulary ids
    window: MaskableWindow  # the same pieces for a masking strategy


class SentencePart(NamedTuple):
    """A sentence, or a part of a long one: a range of pieces and the range of their tokens."""

    start: int
    end: int
    first_token: int
    last_token: int


class PackedText:
    """Blocks of packed sentences, each of at most `length` pieces.

    Args:
        documents: The pieces of each document, and the token ranges of its mentions.
        length: The maximum number of pieces in a block.
    """

    def __init__(
        self, documents: Iterable[tuple[Pieces, Sequence[tuple[int, int]]]], length: int
    ) -> None:
        self.length = length
        self._strings: dict[str, int] = {}
        # The offsets of each block in the pieces, the words and the ends of mentions.
        self._piece_at, self._word_at, self._mention_at = (array("q", [0]) for _ in range(3))
        self._mentions = array("q")
        self._files: list[IO[bytes]] = [tempfile.TemporaryFile() for _ in range(3)]  # noqa: SIM115
        self._pieces = self._words = 0  # in the block that is being filled
        for pieces, mentions in documents:
            for part in _sentence_parts(pieces, length):
                self._add(pieces, part, mentions)
        self._close_block()
        for file in self._files:
            file.flush()
        self._names = list(self._strings)
        # An empty file cannot be mapped.
        self._ids, self._token_of, self._word_ids = (
            np.memmap(file, dtype=np.int32, mode="r") if len(self) else np.zeros(0, np.int32)
            for file in self._files
        )

    def __len__(self) -> int:
        return len(self._piece_at) - 1

    @property
    def n_pieces(self) -> int:
        """The number of pieces in all blocks."""
        return self._piece_at[-1]

    def __getitem__(self, index: int) -> PackedBlock:
        pieces = slice(self._piece_at[index], self._piece_at[index + 1])
        words = self._word_ids[self._word_at[index] : self._word_at[index + 1]]
        mentions = self._mentions[self._mention_at[index] : self._mention_at[index + 1]]
        window = MaskableWindow(
            np.asarray(self._token_of[pieces], dtype=np.int64),
            np.array(mentions, dtype=np.int64).reshape(-1, 2),
            [self._names[i] for i in words],
        )
        return PackedBlock(np.asarray(self._ids[pieces], dtype=np.int64), window)

    def _add(self, pieces: Pieces, part: SentencePart, mentions: Sequence[tuple[int, int]]) -> None:
        if self._pieces + part.end - part.start > self.length:
            self._close_block()
        offset = self._words - part.first_token
        ids = pieces.ids[part.start : part.end]
        token_of = pieces.token_of[part.start : part.end] + offset
        words = pieces.words[part.first_token : part.last_token]
        word_ids = [self._strings.setdefault(word, len(self._strings)) for word in words]
        for file, values in zip(self._files, (ids, token_of, word_ids), strict=True):
            file.write(np.asarray(values, dtype=np.int32).tobytes())
        for start, end in mentions:
            start, end = max(start, part.first_token), min(end, part.last_token)
            if start < end:
                self._mentions.extend((start + offset, end + offset))
        self._pieces += len(ids)
        self._words += len(words)

    def _close_block(self) -> None:
        if self._pieces:
            self._piece_at.append(self._piece_at[-1] + self._pieces)
            self._word_at.append(self._word_at[-1] + self._words)
            self._mention_at.append(len(self._mentions))
        self._pieces = self._words = 0


def _sentence_parts(pieces: Pieces, length: int) -> Iterator[SentencePart]:
    """Yield the sentences of a document. Long ones are split, between words where possible."""
    firsts = pieces.starts[pieces.sentences]
    for start, end in zip(firsts, [*firsts[1:], len(pieces.ids)], strict=True):
        while start < end:
            stop = min(start + length, end)
            if stop < end:
                word = pieces.starts[pieces.token_of[stop]]  # the first piece of the word at stop
                stop = int(word) if word > start else stop
            first, last = int(pieces.token_of[start]), int(pieces.token_of[stop - 1]) + 1
            yield SentencePart(int(start), int(stop), first, last)
            start = stop
