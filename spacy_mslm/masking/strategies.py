"""Which pieces of a sequence are masked, and of what kind (paper §2.1 and §3 "Setup").

A strategy chooses words or whole mentions and masks every piece of what it chose; it is drawn anew
each time a sequence is seen. Special pieces are not part of a window, so they are never masked.

    words      the    patient  had   [congestive  heart  failure]   yesterday   .
    pieces     the    patient  had    congest ##ive heart failure   yesterday   .
    joint       .       BLM     .      ELM    ELM    ELM   ELM          .       .
               `blm_rate` of all words, drawn outside every mention; `elm_rate` of the mentions
    span        .       BLM    BLM     .       .      .     .           .       .
    pmi         .        .      .      .       .     ELM   ELM          .       .
               `rate` of all words, drawn as spans of 2 to 4, or found as collocations of 2 to 4
               ("heart failure"), wherever they stand; what lies in a mention is ELM

A strategy is any callable `(window, generator) -> kinds` given in the config; register one in
spaCy's `misc` registry to add your own.
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
    """A masking strategy.

    window: the words of one window and the mentions in it.
    generator: the only source of chance, so that a run repeats.
    returns: (pieces,) of UNMASKED, BLM or ELM.
    """

    def __call__(self, window: MaskableWindow, generator: np.random.Generator) -> np.ndarray: ...


class JointMasking:
    """`spacy_mslm.JointMasking.v1`: the paper's joint ELM-BLM strategy.

    `ceil(elm_rate * mentions)` mentions are masked whole (ELM) and `ceil(blm_rate * words)` words
    outside every mention (BLM; fewer where there are not enough of them). `blm_rate = 0` is
    entity-only masking, `elm_rate = 1` masks every mention.
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
    """`spacy_mslm.TokenMasking.v1`: plain masked-LM (BLM alone), `ceil(rate * words)` words
    wherever they stand; all of them are of kind BLM."""

    def __init__(self, rate: float = 0.15) -> None:
        self.rate = check_rate("rate", rate)

    def __call__(self, window: MaskableWindow, generator: np.random.Generator) -> np.ndarray:
        words = window.tokens
        chosen = generator.permutation(words)[: budget(self.rate, len(words))]
        return np.where(np.isin(window.token_of, chosen), BLM, UNMASKED).astype(np.int8)


class SpanMasking:
    """`spacy_mslm.SpanMasking.v1`: SPAN, Algorithm 1. Up to `ceil(rate * words)` words in spans of
    2 to 4.

    Starts come in random order, each with a random length, which is cut to what is left of the
    budget and to the end of the sequence; a span that would touch a masked word is passed over.
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
    """`spacy_mslm.PMIMasking.v1`: PMI, Algorithm 2. Collocations of a vocabulary that
    `spacy mslm pmi` wrote, as they are found in the window, up to `ceil(rate * words)` words.

    They are masked in the order of the vocabulary; one that would touch a masked word is passed
    over, the last is cut to what is left of the budget. Nothing is random: a sequence is masked in
    the same way each time.

    vocabulary: the file. It is read when masks are first drawn, so that a trained pipeline can be
        used where the file is not.
    ranked: Always true. Earlier versions stored it in the config of a pipeline.
    """

    def __init__(self, vocabulary: str | None, rate: float = 0.15, ranked: bool = True) -> None:
        self.vocabulary = vocabulary
        self.rate = check_rate("rate", rate)
        if not ranked:
            raise ValueError("PMI masking in random order was removed. Leave out `ranked = false`.")

    @cached_property
    def trie(self) -> Trie:
        if self.vocabulary is None:
            raise ValueError(
                "PMI masking needs a vocabulary, and none is set. Write one from the training "
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
    """`spacy_mslm.NoMasking.v1`: vanilla fine-tuning; nothing is masked in any view."""

    def __call__(self, window: MaskableWindow, generator: np.random.Generator) -> np.ndarray:
        return np.full(len(window.token_of), UNMASKED, dtype=np.int8)


def in_mentions(window: MaskableWindow, tokens: np.ndarray) -> np.ndarray:
    """(n,) token indices -> (n,) whether each lies in a mention."""
    inside = np.zeros(len(tokens), dtype=bool)
    for start, end in window.mentions:
        inside |= (tokens >= start) & (tokens < end)
    return inside


def mark_kinds(window: MaskableWindow, masked: np.ndarray) -> np.ndarray:
    """(words,) which words are masked -> (pieces,) ELM in a mention, BLM elsewhere, UNMASKED."""
    chosen = np.isin(window.token_of, window.tokens[masked])
    kinds = np.where(in_mentions(window, window.token_of), ELM, BLM)
    return np.where(chosen, kinds, UNMASKED).astype(np.int8)


def budget(rate: float, n: int) -> int:
    """`ceil(rate * n)`, in the arithmetic of the decimal rate and not of its binary neighbour
    (0.07 * 100 is a little more than 7 in floating point)."""
    return math.ceil(rate * n - 1e-9)


def check_rate(name: str, rate: float) -> float:
    if not 0.0 <= rate <= 1.0:  # also refuses NaN
        raise ValueError(Errors.M003.format(name=name, value=rate))
    return rate
