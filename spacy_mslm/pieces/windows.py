"""Pieces -> windows that cover documents of any length without truncation.

Each sentence is a window: encoders are tuned on sentences, predictions do not depend on other
sentences of the document, and no piece is encoded twice. A sentence longer than a window, or a
whole document if sentences are not split, is covered by overlapping windows:

    size = 10, context = 2 on 19 pieces; `=` is predicted from this window, `-` is context

    pieces    0         1
              0123456789012345678
    window 0  ========--
    window 1        --====----
    window 2           ---=======      the last window ends where the document ends

Neighbouring windows overlap by at least `2 * context` pieces and divide the overlap in the middle.
Each piece is predicted from the window in which it is most central: it has at least `context`
pieces on either side, or the edge of the sentence.
"""

from itertools import pairwise
from typing import NamedTuple

from ..errors import Errors
from ..types import Pieces, Window


class WindowSettings(NamedTuple):
    """How documents are divided into windows.

    Attributes:
        size: The maximum number of text pieces in a window.
        context: The minimum number of pieces on either side of a predicted piece, except at an
            edge.
        split_sentences: Whether windows end at sentence boundaries.
    """

    size: int
    context: int
    split_sentences: bool

    def cover(self, pieces: Pieces) -> list[Window]:
        """Return the windows of a document, in order. Each piece is owned by exactly one window."""
        starts = pieces.starts[pieces.sentences] if self.split_sentences else [0]
        return [
            Window(*(start + place for place in window))
            for start, end in pairwise([*starts, len(pieces.ids)])
            for window in split_windows(int(end - start), self.size, self.context)
        ]


def split_windows(n_pieces: int, size: int, context: int) -> list[Window]:
    """Cover `n_pieces` pieces with overlapping windows of at most `size` pieces."""
    if size <= 2 * context:
        raise ValueError(Errors.M001.format(size=size, context=context))
    if n_pieces <= size:
        return [Window(0, n_pieces, 0, n_pieces)] if n_pieces else []
    starts = [*range(0, n_pieces - size, size - 2 * context), n_pieces - size]
    windows = []
    own_start = 0
    for start, following in zip(starts, [*starts[1:], None], strict=True):
        end = start + size
        own_end = n_pieces if following is None else (following + end) // 2
        windows.append(Window(start, end, own_start, own_end))
        own_start = own_end
    return windows
