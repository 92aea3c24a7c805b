"""How much a masked piece of each kind weighs in the masked-LM loss (paper eqs. 2-5).

A weighting is a callable `(n_blm, n_elm) -> MaskWeights`, given in the config and called once, at
initialisation, with the numbers of masked pieces of each kind over the training set.
"""

import math
from typing import NamedTuple, Protocol

from ..errors import Errors


class MaskWeights(NamedTuple):
    blm: float
    elm: float


class MaskWeighting(Protocol):
    def __call__(self, n_blm: int, n_elm: int) -> MaskWeights: ...


class MaskSpecificWeights:
    """`spacy_mslm.MaskSpecificWeights.v1`: rare kinds weigh more, and ELM at least as much as BLM.

    eq. 2: w_x = 1 - N_x / (N_BLM + N_ELM);  eq. 3: w_BLM = min(threshold, w_BLM) and
    w_ELM = max(threshold, w_ELM);  eq. 5: softmax over the pair, here at a temperature.

    The paper's threshold of 0.5 and temperature of 1 keep the pair between 0.5 / 0.5 and
    0.27 / 0.73; where there are more ELM than BLM pieces it is 0.5 / 0.5, no distinction at all.
    A lower temperature sharpens it.
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
    """`spacy_mslm.UniformWeights.v1`: the ablation of Table 6, every masked piece counts alike."""

    def __call__(self, n_blm: int, n_elm: int) -> MaskWeights:
        return MaskWeights(0.5, 0.5)


class FixedWeights:
    """`spacy_mslm.FixedWeights.v1`: the pair as given, not normalised.

    Use it where the counts of a corpus do not tell how much a term should weigh: on a corpus with
    many mentions eqs. 2-5 give both kinds the same weight, and a fixed pair such as blm = 0.3 and
    elm = 0.7 keeps the distinction. It also repeats a run with the weights that another one has
    logged.
    """

    def __init__(self, blm: float, elm: float) -> None:
        if blm < 0 or elm < 0 or blm + elm == 0:
            raise ValueError(
                f"Mask weights of {blm} (BLM) and {elm} (ELM) cannot be used: neither may be "
                "negative, and one must be above 0."
            )
        self.weights = MaskWeights(blm, elm)

    def __call__(self, n_blm: int, n_elm: int) -> MaskWeights:
        return self.weights
