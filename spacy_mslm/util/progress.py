"""Progress bars for long computations."""

import sys
from collections.abc import Iterable
from typing import Any

import tqdm


def progress_bar(*iterable: Iterable, **options: Any) -> tqdm.tqdm:
    """Create a tqdm progress bar that updates every 30 seconds if the output is not a terminal."""
    return tqdm.tqdm(*iterable, mininterval=0.5 if sys.stderr.isatty() else 30.0, **options)
