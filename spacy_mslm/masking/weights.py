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
    they are 0.5 / 0.5, which makes no distinction.

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
        share = 1 / (1 + math.exp((blm - elm) / self.temperature))
        return MaskWeights(blm=1 - share, elm=share)


class UniformWeights:
    """`spacy_mslm.UniformWeights.v1`: gives all masked pieces the same weight (Table 6)."""

    def __call__(self, n_blm: int, n_elm: int) -> MaskWeights:
        return MaskWeights(0.5, 0.5)


class FixedWeights:
    """`spacy_mslm.FixedWeights.v1`: uses the given weights, without normalization.

    Use it if the counts of a corpus do not say how much a term should weigh: on a corpus with many
    mentions, eqs. 2-5 give both kinds the same weight, and a fixed pair such as blm = 0.3 and elm =
    0.7 keeps the distinction. It can also repeat a run with the weights that another run logged.

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
