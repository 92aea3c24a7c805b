"""Weights of masked pieces in the masked-LM loss (paper eqs. 2-5).

A weighting is a callable `(n_blm, n_elm) -> MaskWeights` in the config. It is called once, at
initialization, with the number of masked pieces of each kind in the training set.
"""

import math
from typing import NamedTuple, Protocol

from ..errors import Errors


class MaskWeights(NamedTuple):
    """The weight of a masked piece of each kind."""

    blm: float
    elm: float


class MaskWeighting(Protocol):
    """Computes mask weights from the number of masked pieces of each kind."""

    def __call__(self, n_blm: int, n_elm: int) -> MaskWeights: ...


class MaskSpecificWeights:
    """`spacy_mslm.MaskSpecificWeights.v1`: gives more weight to rare kinds, and most to ELM.

    eq. 2: w_x = 1 - N_x / (N_BLM + N_ELM);  eq. 3: w_BLM = min(threshold, w_BLM) and w_ELM =
    max(threshold, w_ELM);  eq. 5: softmax over the pair, here with a temperature.

    ELM never weighs less than BLM. With the paper's threshold of 0.5 and temperature of 1, the
    weights (BLM / ELM) are between 0.5 / 0.5 and 0.27 / 0.73. If there are more ELM than BLM pieces
    they are 0.5 / 0.5, which makes no distinction; v2 keeps one.

    Args:
        threshold: The upper bound of w_BLM and the lower bound of w_ELM in eq. 3.
        temperature: The temperature of the softmax. A lower one makes the weights more different.
    """

    def __init__(self, threshold: float = 0.5, temperature: float = 1.0) -> None:
        if temperature <= 0:
            raise ValueError(Errors.M004.format(name="temperature", value=temperature))
        if not 0.0 <= threshold <= 1.0:
            raise ValueError(Errors.M003.format(name="threshold", value=threshold))
        self.threshold = threshold
        self.temperature = temperature

    def __call__(self, n_blm: int, n_elm: int) -> MaskWeights:
        total = n_blm + n_elm
        if not total:
            return MaskWeights(0.5, 0.5)
        blm = min(self.threshold, 1 - n_blm / total)
        elm = max(self.threshold, 1 - n_elm / total)
        return _softmax(blm, elm, self.temperature)


class MaskSpecificWeightsV2:
    """`spacy_mslm.MaskSpecificWeights.v2`: ELM weighs more than BLM at any density of mentions.

    Eqs. 2 and 5 are those of v1. Eq. 3 has a margin: w_BLM = min(0.5 - margin, w_BLM) and w_ELM =
    max(0.5 + margin, w_ELM). In a corpus with as many ELM pieces as BLM pieces or more, the
    difference is 2 * margin instead of 0. With the defaults, the weights (BLM / ELM) are between
    0.31 / 0.69 in such a corpus and 0.02 / 0.98 if hardly any term is masked.

    Args:
        margin: How far w_BLM is below 0.5 and w_ELM above it, at least.
        temperature: The temperature of the softmax. A lower one makes the weights more different.
    """

    def __init__(self, margin: float = 0.1, temperature: float = 0.25) -> None:
        if temperature <= 0:
            raise ValueError(Errors.M004.format(name="temperature", value=temperature))
        if not 0.0 < margin <= 0.5:
            raise ValueError(
                f"margin is {margin}, but must be greater than 0 and at most 0.5. For the paper's "
                "weights, which have no margin, use spacy_mslm.MaskSpecificWeights.v1."
            )
        self.margin = margin
        self.temperature = temperature

    def __call__(self, n_blm: int, n_elm: int) -> MaskWeights:
        share = n_elm / (n_blm + n_elm) if n_blm + n_elm else 0.5
        blm = min(0.5 - self.margin, share)
        elm = max(0.5 + self.margin, 1 - share)
        return _softmax(blm, elm, self.temperature)


def _softmax(blm: float, elm: float, temperature: float) -> MaskWeights:
    """Return the softmax over the pair (eq. 5)."""
    share = 1 / (1 + math.exp((blm - elm) / temperature))
    return MaskWeights(blm=1 - share, elm=share)


class UniformWeights:
    """`spacy_mslm.UniformWeights.v1`: gives all masked pieces the same weight (Table 6)."""

    def __call__(self, n_blm: int, n_elm: int) -> MaskWeights:
        return MaskWeights(0.5, 0.5)


class FixedWeights:
    """`spacy_mslm.FixedWeights.v1`: uses the given weights, without normalization.

    Use it if the counts of a corpus do not say how much a term should weigh, or to repeat a run
    with the weights that another run logged.

    Args:
        blm: The weight of a masked piece outside a mention.
        elm: The weight of a masked piece in a mention.
    """

    def __init__(self, blm: float, elm: float) -> None:
        if blm < 0 or elm < 0 or blm + elm == 0:
            raise ValueError(
                f"The mask weights {blm} (BLM) and {elm} (ELM) are not valid: neither may be "
                "negative, and one must be greater than 0."
            )
        self.weights = MaskWeights(blm, elm)

    def __call__(self, n_blm: int, n_elm: int) -> MaskWeights:
        return self.weights
