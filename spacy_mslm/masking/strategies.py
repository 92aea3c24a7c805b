"""Masking strategies: which pieces of a window are masked, and as which kind (paper §2.1 and §3).

A strategy chooses words or whole mentions and masks all their pieces. Masks are drawn again each
time a window is used. Special pieces are not part of a window, so they are never masked.

    words      the    patient  had   [congestive  heart  failure]   yesterday   .
    pieces     the    patient  had    congest ##ive heart failure   yesterday   .
    joint       .       BLM     .      ELM    ELM    ELM   ELM          .       .
               `blm_rate` of all words, drawn outside every mention; `elm_rate` of the mentions
    span        .       BLM    BLM     .       .      .     .           .       .
    pmi         .        .      .      .       .     ELM   ELM          .       .
               `rate` of all words, drawn as spans of 2 to 4 words, or found as collocations of
               2 to 4 words ("heart failure"); pieces in a mention are ELM, all others BLM

A strategy is any callable `(window, generator) -> kinds` in the config. To add your own, register
it in spaCy's `misc` registry.
"""

import math
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np

from ..errors import Errors
from ..types import BLM, ELM, UNMASKED, MaskableWindow
from .collocations import SIZES, Trie, build_trie, find_collocations, read_collocations


class Masking(Protocol):
    """A masking strategy."""

    def __call__(self, window: MaskableWindow, generator: np.random.Generator) -> np.ndarray:
        """Draw the masks of a window.

        Args:
            window: The words of the window and the mentions in it.
            generator: The only source of randomness, so that runs can be repeated.

        Returns:
            (pieces,) UNMASKED, BLM or ELM.
        """
        ...


class JointMasking:
    """`spacy_mslm.JointMasking.v1`: masks mentions and other words (the paper's joint ELM-BLM).

    It masks `ceil(elm_rate * mentions)` whole mentions (ELM) and `ceil(blm_rate * words)` words
    outside all mentions (BLM), or all of these words if there are fewer.

    Args:
        elm_rate: The share of mentions to mask. 1 masks every mention.
        blm_rate: The number of words to mask, as a share of all words. 0 masks only mentions.
    """

    def __init__(self, elm_rate: float = 1.0, blm_rate: float = 0.075) -> None:
        self.elm_rate = check_rate("elm_rate", elm_rate)
        self.blm_rate = check_rate("blm_rate", blm_rate)

    def __call__(self, window: MaskableWindow, generator: np.random.Generator) -> np.ndarray:
        kinds = np.full(len(window.token_of), UNMASKED, dtype=np.int8)
        words = window.tokens
        mentions = [(s, e) for s, e in window.mentions if ((words >= s) & (words < e)).any()]
        inside = in_mentions(window, words)
        chosen = generator.permutation(len(mentions))[: budget(self.elm_rate, len(mentions))]
        for start, end in (mentions[i] for i in chosen):
            kinds[(window.token_of >= start) & (window.token_of < end)] = ELM
        outside = generator.permutation(words[~inside])[: budget(self.blm_rate, len(words))]
        kinds[np.isin(window.token_of, outside)] = BLM
        return kinds


class TokenMasking:
    """`spacy_mslm.TokenMasking.v1`: masks words anywhere, as in plain masked language modeling.

    All masked pieces are of the kind BLM, in mentions too.

    Args:
        rate: The share of words to mask. `ceil(rate * words)` words are masked.
    """

    def __init__(self, rate: float = 0.15) -> None:
        self.rate = check_rate("rate", rate)

    def __call__(self, window: MaskableWindow, generator: np.random.Generator) -> np.ndarray:
        words = window.tokens
        chosen = generator.permutation(words)[: budget(self.rate, len(words))]
        return np.where(np.isin(window.token_of, chosen), BLM, UNMASKED).astype(np.int8)


class SpanMasking:
    """`spacy_mslm.SpanMasking.v1`: masks random spans of 2 to 4 words (SPAN, Algorithm 1).

    Spans start at words in random order and have random lengths. A span is cut at the end of the
    window and where the budget is used up. A span that overlaps a masked word is skipped.

    Args:
        rate: The share of words to mask. At most `ceil(rate * words)` words are masked.
    """

    def __init__(self, rate: float = 0.15) -> None:
        self.rate = check_rate("rate", rate)

    def __call__(self, window: MaskableWindow, generator: np.random.Generator) -> np.ndarray:
        n = len(window.tokens)
        left = budget(self.rate, n)
        starts = generator.permutation(n).tolist()
        lengths = generator.integers(SIZES[0], SIZES[-1] + 1, size=n).tolist()
        masked = np.zeros(n, dtype=bool)
        for start, length in zip(starts, lengths, strict=True):
            if not left:
                break
            end = min(start + min(length, left), n)
            if not masked[start:end].any():
                masked[start:end] = True
                left -= end - start
        return mark_kinds(window, masked)


class PMIMasking:
    """`spacy_mslm.PMIMasking.v1`: masks collocations of a PMI vocabulary (PMI, Algorithm 2).

    Collocations are masked in the order of the vocabulary. One that overlaps a masked word is
    skipped, and the last one is cut where the budget is used up. Nothing is random: a window is
    always masked in the same way.

    Args:
        vocabulary: The file that `spacy mslm pmi` wrote. It is read when masks are first drawn, so
            that a trained pipeline does not need the file.
        rate: The share of words to mask. At most `ceil(rate * words)` words are masked.
        ranked: Always true. Earlier versions stored it in the config of a pipeline.
    """

    def __init__(self, vocabulary: str | None, rate: float = 0.15, ranked: bool = True) -> None:
        self.vocabulary = vocabulary
        self.rate = check_rate("rate", rate)
        if not ranked:
            raise ValueError("PMI masking in random order was removed. Leave out `ranked = false`.")

    @cached_property
    def trie(self) -> Trie:
        """The collocations of the vocabulary."""
        if self.vocabulary is None:
            raise ValueError(
                "PMI masking needs a vocabulary, and none is set. Create one from the training "
                "text with 'python -m spacy mslm pmi TRAIN OUTPUT', and give --paths.pmi "
                "OUTPUT."
            )
        return build_trie(c.words for c in read_collocations(Path(self.vocabulary)))

    def __call__(self, window: MaskableWindow, generator: np.random.Generator) -> np.ndarray:
        words = [window.words[token] for token in window.tokens.tolist()]
        found = find_collocations(self.trie, words)
        left = budget(self.rate, len(words))
        masked = np.zeros(len(words), dtype=bool)
        for start, end in found:
            if not left:
                break
            if not masked[start:end].any():
                end = min(end, start + left)
                masked[start:end] = True
                left -= end - start
        return mark_kinds(window, masked)


class NoMasking:
    """`spacy_mslm.NoMasking.v1`: masks nothing, for plain fine-tuning."""

    def __call__(self, window: MaskableWindow, generator: np.random.Generator) -> np.ndarray:
        return np.full(len(window.token_of), UNMASKED, dtype=np.int8)


def in_mentions(window: MaskableWindow, tokens: np.ndarray) -> np.ndarray:
    """Return (n,) whether each of (n,) token indices is in a mention."""
    inside = np.zeros(len(tokens), dtype=bool)
    for start, end in window.mentions:
        inside |= (tokens >= start) & (tokens < end)
    return inside


def mark_kinds(window: MaskableWindow, masked: np.ndarray) -> np.ndarray:
    """Return (pieces,) the kinds of pieces: ELM in a mention, BLM elsewhere, UNMASKED.

    Args:
        window: The window.
        masked: (words,) Which words of the window are masked.
    """
    chosen = np.isin(window.token_of, window.tokens[masked])
    kinds = np.where(in_mentions(window, window.token_of), ELM, BLM)
    return np.where(chosen, kinds, UNMASKED).astype(np.int8)


def budget(rate: float, n: int) -> int:
    """Return `ceil(rate * n)`.

    A small tolerance makes the result that of the decimal rate: in floating point, 0.07 * 100 is
    slightly more than 7.
    """
    return math.ceil(rate * n - 1e-9)


def check_rate(name: str, rate: float) -> float:
    """Return the rate, or raise a ValueError if it is not between 0 and 1."""
    if not 0.0 <= rate <= 1.0:  # also true of NaN
        raise ValueError(Errors.M003.format(name=name, value=rate))
    return rate
