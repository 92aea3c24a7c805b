"""Even masking: masks that say nothing of where mentions are, because every piece is masked at the
same rate."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal, get_args

import numpy as np

from ..types import MaskableWindow
from .strategies import check_rate, mark_kinds

Unit = Literal["mentions", "spans", "words"]
# Deciles of the lengths of mentions in NCBI-disease, BC2GM and BC5CDR, in pieces.
LENGTHS = (1, 2, 2, 2, 3, 4, 4, 5, 6, 9)


class EvenMasking:
    """`spacy_mslm.EvenMasking.v1`: masks stretches of a window, each with the same probability.

    A window is cut into stretches of whole words. Each stretch is masked whole with probability
    `rate`, so every piece is masked with probability `rate`, in a mention or not. A tagger that
    reads masked text cannot learn from such masks where mentions are. All other strategies tell it.

        text       the patient had [congestive heart failure] yesterday .
        mentions   |-| |---------| |------------------------| |---------|
        spans      |---------| |--------------| |-----------| |---------|
        words      |-| |-----| |-| |----------| |---| |-----| |-------| |

    Args:
        unit: What a stretch is. `mentions`: a mention, and spans of the words between mentions.
            `spans`: a span of words, wherever mentions are. `words`: a single word.
        rate: The probability of masking.
        lengths: The lengths of spans, in pieces, to draw from. By default, the lengths of mentions
            in biomedical corpora.
    """

    def __init__(
        self, unit: Unit = "mentions", rate: float = 0.3, lengths: Sequence[int] = LENGTHS
    ) -> None:
        if unit not in get_args(Unit):
            raise ValueError(f"Unknown unit {unit!r}. Use one of: {', '.join(get_args(Unit))}.")
        if not len(lengths) or min(lengths) < 1:
            raise ValueError("lengths must be a list of positive numbers of pieces.")
        self.unit = unit
        self.rate = check_rate("rate", rate)
        self.lengths = np.array(lengths)

    def __call__(self, window: MaskableWindow, generator: np.random.Generator) -> np.ndarray:
        words = window.tokens
        masked = np.zeros(len(words), dtype=bool)
        for start, end in self._stretches(window, generator):
            masked[start:end] = generator.random() < self.rate
        return mark_kinds(window, masked)

    def _stretches(
        self, window: MaskableWindow, generator: np.random.Generator
    ) -> Iterator[tuple[int, int]]:
        """Yield ranges of words that cover the window."""
        words, sizes = np.unique(window.token_of, return_counts=True)
        if self.unit == "words":
            yield from pairwise(range(len(words) + 1))
            return
        begin = 0
        for first, last in self._mentions(window, words):
            yield from self._spans(sizes, begin, first, generator)
            yield first, last
            begin = last
        yield from self._spans(sizes, begin, len(words), generator)

    def _mentions(self, window: MaskableWindow, words: np.ndarray) -> list[tuple[int, int]]:
        """Return the ranges of words of the mentions in the window that are masked whole."""
        if self.unit != "mentions":
            return []
        places = np.searchsorted(words, window.mentions).tolist()
        return sorted((first, last) for first, last in places if first < last)

    def _spans(
        self, sizes: np.ndarray, start: int, end: int, generator: np.random.Generator
    ) -> Iterator[tuple[int, int]]:
        """Cut words into spans of random lengths. The first one is a part of a span, as spans would
        otherwise begin wherever a mention ends.

        Args:
            sizes: (words,) The number of pieces of each word of the window.
            start, end: The words to cut.
            generator: The source of randomness.
        """
        i = start
        while i < end:
            length = int(generator.choice(self.lengths))
            if i == start and end - start > 1:
                length = int(generator.integers(1, length + 1))
            # Words up to that length, and at least one.
            fits = int(np.searchsorted(np.cumsum(sizes[i:end]), length, side="right"))
            j = i + max(1, fits)
            yield i, j
            i = j
