"""What the tagging heads look at in training (`shared/method.md` §4): windows -> rows.

    view     rows of a window                                  tagging heads read
    clean    one clean, one masked (for the masked-LM head)    the clean one
    masked   one masked                                        the masked one: the paper's code
    mixed    one, masked with probability p                    whichever it is

`masked` never shows a mention to the tagging heads, so a model trained with it finds none on
ordinary text: it exists to reproduce the paper.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Literal

import numpy as np

from .batches import UNMASKED, Row, no_ints

View = Literal["clean", "masked", "mixed"]


def view_rows(
    view: View, row: Row, kinds: Callable[[], np.ndarray], p: float, generator: np.random.Generator
) -> Iterator[Row]:
    """Rows to train on for one window.

    row: the window, unmasked, with its gold.
    kinds: draws the masks of the window; called only where a masked row is wanted.
    p: the probability of masking in the `mixed` view.
    """
    if view == "masked" or (view == "mixed" and generator.random() < p):
        yield replace(row, kinds=kinds())
        return
    yield row
    if view == "clean":
        masked = replace(row, kinds=kinds(), tag_at=no_ints(), tags=no_ints(), mentions=[])
        if (masked.kinds != UNMASKED).any():
            yield masked
