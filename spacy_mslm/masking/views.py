"""Views: windows -> the rows that are trained on.

    view     rows of a window                                  the tagging heads read
    clean    one clean, one masked (for the masked-LM head)    the clean row
    masked   one masked                                        the masked row (the paper's code)
    mixed    one, masked with a given probability              this row

In the `masked` view the tagging heads never see the words of a masked mention, so a model that is
trained with it finds hardly any mentions in ordinary text. It exists to reproduce the paper.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from ..types import MISSING, UNMASKED, Gold, MaskableWindow, Pieces, Row, Window

View = Literal["clean", "masked", "mixed"]


def view_rows(
    view: View, row: Row, kinds: Callable[[], np.ndarray], p: float, generator: np.random.Generator
) -> Iterator[Row]:
    """Yield the rows to train on for one window.

    Args:
        view: The view.
        row: The window, unmasked, with its gold annotation.
        kinds: Draws the masks of the window. It is called only if the view needs a masked row.
        p: The probability of masking in the `mixed` view.
        generator: The source of randomness of the `mixed` view.
    """
    if view == "masked" or (view == "mixed" and generator.random() < p):
        yield replace(row, kinds=kinds())
        return
    yield row
    if view == "clean":
        masked = Row(row.ids, kinds(), tags=row.tags[:0])
        if (masked.kinds != UNMASKED).any():
            yield masked


def gold_row(pieces: Pieces, window: Window, gold: Gold, labels: Sequence[str]) -> Row:
    """Return an unmasked window with its gold annotation.

    A tag is at the first piece of its token. The row has the tags of the tokens and the mentions
    that begin in the part that the window owns. A mention that extends beyond the window is pooled
    up to the end of the window. If each type is tagged separately, there is nothing to classify,
    so the row has no mentions.

    Args:
        pieces: The document.
        window: The window.
        gold: The annotation of the document.
        labels: The entity types. Types in the row are indices into this list.
    """
    ids = pieces.ids[window.start : window.end]
    firsts = pieces.starts[pieces.tagged]
    tags = gold.tags[pieces.tagged]
    typed = tags.ndim > 1
    known = (tags != MISSING).any(axis=1) if typed else tags != MISSING
    used = (firsts >= window.own_start) & (firsts < window.own_end) & known
    mentions = []
    for start, end, label in () if typed else gold.mentions:
        first, last = pieces.starts[start], pieces.starts[end]
        if first < last and window.own_start <= first < window.own_end:
            at = np.arange(first, min(last, window.end)) - window.start
            mentions.append((at, labels.index(label)))
    kinds = np.full(len(ids), UNMASKED, dtype=np.int8)
    taught = tags if gold.soft is None else gold.soft[pieces.tagged]
    return Row(ids, kinds, firsts[used] - window.start, taught[used], mentions)


def maskable(pieces: Pieces, window: Window, gold: Gold) -> MaskableWindow:
    """Return a window in the form that masking strategies take."""
    mentions = np.array([(m.start, m.end) for m in gold.mentions], dtype=np.int64)
    token_of = pieces.token_of[window.start : window.end]
    return MaskableWindow(token_of, mentions.reshape(-1, 2), pieces.words)
