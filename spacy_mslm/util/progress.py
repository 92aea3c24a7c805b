"""Progress bars of long work."""

import sys
from collections.abc import Iterable
from typing import Any

import tqdm


def progress_bar(*iterable: Iterable, **options: Any) -> tqdm.tqdm:
    """tqdm's; in a log file, a line now and then instead of two a second."""
    return tqdm.tqdm(*iterable, mininterval=0.5 if sys.stderr.isatty() else 30.0, **options)
