"""What the tagging heads look at in training (`shared/method.md` §4): windows -> rows.

    view     rows of a window                                  tagging heads read
    clean    one clean, one masked (for the masked-LM head)    the clean one
    masked   one masked                                        the masked one: the paper's code
    mixed    one, masked with probability p                    whichever it is

`masked` never shows a mention to the tagging heads, so a model trained with it finds none on
ordinary text: it exists to reproduce the paper.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from ..types import MISSING, UNMASKED, Gold, MaskableWindow, Pieces, Row, Window, no_ints

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


def gold_row(pieces: Pieces, window: Window, gold: Gold, labels: Sequence[str]) -> Row:
    """An unmasked window with the tags of the tokens that it owns, each at its first piece, and the
    mentions that begin there. A mention that leaves the window is pooled as far as it goes."""
    ids = pieces.ids[window.start : window.end]
    firsts = pieces.starts[pieces.tagged]
    tags = gold.tags[pieces.tagged]
    used = (firsts >= window.own_start) & (firsts < window.own_end) & (tags != MISSING)
    mentions = []
    for start, end, label in gold.mentions:
        first, last = pieces.starts[start], pieces.starts[end]
        if first < last and window.own_start <= first < window.own_end:
            at = np.arange(first, min(last, window.end)) - window.start
            mentions.append((at, labels.index(label)))
    kinds = np.full(len(ids), UNMASKED, dtype=np.int8)
    return Row(ids, kinds, firsts[used] - window.start, tags[used], mentions)


def maskable(pieces: Pieces, window: Window, gold: Gold) -> MaskableWindow:
    """The window as a masking strategy sees it."""
    mentions = np.array([(m.start, m.end) for m in gold.mentions], dtype=np.int64)
    token_of = pieces.token_of[window.start : window.end]
    return MaskableWindow(token_of, mentions.reshape(-1, 2), pieces.words)
