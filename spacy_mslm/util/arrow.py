"""Damaged Parquet and Arrow files (pyarrow is an extra)."""

import contextlib
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def arrow_errors(path: Path) -> Iterator[None]:
    """Turn what pyarrow raises for a file that it cannot read into one sentence. Its own messages
    may quote the file.

    Raises:
        ValueError: If the file is damaged.
    """
    from pyarrow import ArrowException

    try:
        yield
    except (ArrowException, OSError, UnicodeDecodeError) as err:
        if isinstance(err, OSError) and err.errno:  # of the file system
            raise
        raise ValueError(
            f"{path} is damaged, or not an Arrow or Parquet file. Write it again."
        ) from None
