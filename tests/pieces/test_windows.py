"""Windows cover every piece once, with the stated context on either side."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_mslm.pieces.windows import split_windows
from spacy_mslm.types import Window


def test_the_drawing_in_the_docstring():
    assert split_windows(19, size=10, context=2) == [
        Window(0, 10, 0, 8),
        Window(6, 16, 8, 12),
        Window(9, 19, 12, 19),
    ]


@given(st.integers(0, 500), st.integers(1, 60), st.integers(0, 29))
def test_windows_cover_every_piece_once_with_context(n, size, context):
    if size <= 2 * context:
        with pytest.raises(ValueError, match=r"model\.window"):
            split_windows(n, size, context)
        return
    windows = split_windows(n, size, context)
    owned = [i for w in windows for i in range(w.own_start, w.own_end)]
    assert owned == list(range(n))
    for w in windows:
        assert 0 <= w.start <= w.own_start < w.own_end <= w.end <= n
        assert w.end - w.start <= size
        assert w.own_start - w.start >= context or w.start == 0
        assert w.end - w.own_end >= context or w.end == n
    assert len(windows) == (n > 0) or n > size


@given(st.integers(41, 400))
def test_the_most_central_window_owns_a_piece(n):
    windows = split_windows(n, size=40, context=8)
    for w in windows:
        for piece in range(w.own_start, w.own_end):
            margins = [
                min(piece - v.start, v.end - 1 - piece) for v in windows if v.start <= piece < v.end
            ]
            own = min(piece - w.start, w.end - 1 - piece)
            if windows[0].own_end <= piece < windows[-1].own_start:
                assert own >= max(margins) - 1  # the middle of an even overlap is a tie
