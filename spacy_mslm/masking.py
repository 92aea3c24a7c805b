"""Which pieces of a sequence are masked, and of what kind (paper §2.1 and §3 "Setup").

A strategy chooses words or whole mentions and masks every piece of what it chose; it is drawn anew
each time a sequence is seen. Special pieces are not part of a sequence, so they are never masked.

    words      the    patient  had   [congestive  heart  failure]   yesterday   .
    pieces     the    patient  had    congest ##ive heart failure   yesterday   .
    joint       .       BLM     .      ELM    ELM    ELM   ELM          .       .
               `blm_rate` of all words, drawn outside every mention; `elm_rate` of the mentions

A strategy is any callable `(sequence, generator) -> kinds` given in the config; register one in
spaCy's `misc` registry to add your own.
"""

import math
from typing import Protocol

import numpy as np

from .batches import BLM, ELM, UNMASKED, Sequence
from .errors import Errors


class Masking(Protocol):
    """A masking strategy.

    sequence: one window.
    generator: the only source of chance, so that a run repeats.
    returns: (pieces,) of UNMASKED, BLM or ELM.
    """

    def __call__(self, sequence: Sequence, generator: np.random.Generator) -> np.ndarray: ...


class JointMasking:
    """`spacy_mslm.JointMasking.v1`: the paper's joint ELM-BLM strategy.

    `ceil(elm_rate * mentions)` mentions are masked whole (ELM) and `ceil(blm_rate * words)` words
    outside every mention (BLM; fewer where there are not enough of them). `blm_rate = 0` is
    entity-only masking, `elm_rate = 1` masks every mention.
    """

    def __init__(self, elm_rate: float = 1.0, blm_rate: float = 0.075) -> None:
        self.elm_rate = check_rate("elm_rate", elm_rate)
        self.blm_rate = check_rate("blm_rate", blm_rate)

    def __call__(self, sequence: Sequence, generator: np.random.Generator) -> np.ndarray:
        kinds = np.full(len(sequence.token_of), UNMASKED, dtype=np.int8)
        words = sequence.tokens
        mentions = [(s, e) for s, e in sequence.mentions if ((words >= s) & (words < e)).any()]
        inside = np.zeros(len(words), dtype=bool)
        for start, end in mentions:
            inside |= (words >= start) & (words < end)
        chosen = generator.permutation(len(mentions))[: budget(self.elm_rate, len(mentions))]
        for start, end in (mentions[i] for i in chosen):
            kinds[(sequence.token_of >= start) & (sequence.token_of < end)] = ELM
        outside = generator.permutation(words[~inside])[: budget(self.blm_rate, len(words))]
        kinds[np.isin(sequence.token_of, outside)] = BLM
        return kinds


class TokenMasking:
    """`spacy_mslm.TokenMasking.v1`: plain masked-LM (BLM alone), `ceil(rate * words)` words
    wherever they stand; all of them are of kind BLM."""

    def __init__(self, rate: float = 0.15) -> None:
        self.rate = check_rate("rate", rate)

    def __call__(self, sequence: Sequence, generator: np.random.Generator) -> np.ndarray:
        words = sequence.tokens
        chosen = generator.permutation(words)[: budget(self.rate, len(words))]
        return np.where(np.isin(sequence.token_of, chosen), BLM, UNMASKED).astype(np.int8)


class NoMasking:
    """`spacy_mslm.NoMasking.v1`: vanilla fine-tuning; nothing is masked in any view."""

    def __call__(self, sequence: Sequence, generator: np.random.Generator) -> np.ndarray:
        return np.full(len(sequence.token_of), UNMASKED, dtype=np.int8)


def budget(rate: float, n: int) -> int:
    """`ceil(rate * n)`, in the arithmetic of the decimal rate and not of its binary neighbour
    (0.07 * 100 is a little more than 7 in floating point)."""
    return math.ceil(rate * n - 1e-9)


def check_rate(name: str, rate: float) -> float:
    if not 0.0 <= rate <= 1.0:  # also refuses NaN
        raise ValueError(Errors.M003.format(name=name, value=rate))
    return rate
