"""Masks that say nothing of where mentions are: every piece is masked at the same rate."""

from itertools import pairwise

import numpy as np

from spacy_mslm.types import BLM, ELM, UNMASKED, MaskableWindow


class EvenMasking:
    """Stretches of a sequence, each masked whole with the same probability `rate`.

    `mentions`: a mention is a stretch, and the words between mentions are cut into stretches as
    long, in pieces, as mentions are. `spans`: all words are cut so, wherever mentions are. `words`:
    each word is a stretch. In all three every piece is masked with probability `rate`: a mask says
    nothing of being in a mention, and as many are masked.

    lengths: of mentions, in pieces, to draw from.
    """

    def __init__(self, unit: str, rate: float, lengths: np.ndarray) -> None:
        if unit not in ("mentions", "spans", "words"):
            raise ValueError(unit)
        self.unit = unit
        self.rate = rate
        self.lengths = lengths

    def __call__(self, sequence: MaskableWindow, generator: np.random.Generator) -> np.ndarray:
        """(pieces,) of UNMASKED, BLM or ELM (in a mention)."""
        kinds = np.full(len(sequence.token_of), UNMASKED, dtype=np.int8)
        for start, end in self.stretches(sequence, generator):
            if generator.random() < self.rate:
                kinds[start:end] = BLM
        inside = np.zeros(len(kinds), dtype=bool)
        for first, last in sequence.mentions:
            inside |= (sequence.token_of >= first) & (sequence.token_of < last)
        kinds[(kinds == BLM) & inside] = ELM
        return kinds

    def stretches(
        self, sequence: MaskableWindow, generator: np.random.Generator
    ) -> list[tuple[int, int]]:
        """Piece ranges that cover the sequence; none divides a word."""
        n = len(sequence.token_of)
        # The first piece of every word, and the end.
        words = [*np.flatnonzero(np.diff(sequence.token_of, prepend=-1)).tolist(), n]
        if self.unit == "words":
            return list(pairwise(words))
        whole = []
        if self.unit == "mentions":
            for first, last in sequence.mentions:
                at = np.flatnonzero((sequence.token_of >= first) & (sequence.token_of < last))
                if len(at):
                    whole.append((int(at[0]), int(at[-1]) + 1))
        found = list(whole)
        begin = 0
        for start, end in [*sorted(whole), (n, n)]:
            found += self._cut([w for w in words if begin <= w <= start], generator)
            begin = end
        return found

    def _cut(self, words: list[int], generator: np.random.Generator) -> list[tuple[int, int]]:
        """Cut a gap, given by its word starts and its end, into stretches of drawn lengths; the
        first is a part of one, so that stretches do not all begin where a mention ends."""
        found = []
        i = 0
        while i < len(words) - 1:
            length = int(generator.choice(self.lengths))
            if i == 0 and len(words) > 2:
                length = int(generator.integers(1, length + 1))
            j = i + 1
            # To the word boundary that is nearest to the length.
            while j < len(words) - 1 and words[j + 1] - words[i] <= length:
                j += 1
            found.append((words[i], words[j]))
            i = j
        return found
