"""Locks between processes, and lines that several processes append to one file.

Both end with their process, so a process that was killed blocks nobody. On systems without such
locks (Windows), only one process may work at a time.
"""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


@contextlib.contextmanager
def claimed(path: Path) -> Iterator[int | None]:
    """Try to lock a file, which is created.

    Args:
        path: The file.

    Yields:
        The descriptor of the locked file, or None if another process has the lock. A child process
        that inherits the descriptor holds the lock, too.
    """
    with path.open("w") as lock:
        if fcntl is not None:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield None
                return
        yield lock.fileno()


def append_line(path: Path, row: dict[str, Any]) -> None:
    """Append a row to a file of JSON lines.

    The line is written at once. What a full disk or a loss of power left of a line is removed.

    Args:
        path: The file, which is created if it does not exist.
        row: The row.

    Raises:
        OSError: If the line could not be written. The file is then as before.
    """
    line = (json.dumps(row) + "\n").encode("ascii")
    # For reading as well, and without a position that other processes could overtake.
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+b", buffering=0) as file:
        _lock(file, exclusive=True)
        end = _end_of_lines(file)
        try:
            file.seek(end)
            file.truncate()
            if file.write(line) != len(line):
                raise OSError(f"{path}: no space is left for another row.")
            os.fsync(file.fileno())
        except OSError:
            file.truncate(end)
            raise


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file of JSON lines, none if it does not exist. An unfinished last line
    is left out."""
    if not path.exists():
        return []
    with path.open("rb") as file:
        _lock(file, exclusive=False)
        data = file.read()
    return [json.loads(line) for line in data[: data.rfind(b"\n") + 1].splitlines()]


def _end_of_lines(file: IO[bytes]) -> int:
    """Return the offset after the last complete line."""
    end = file.seek(0, os.SEEK_END)
    while end:
        start = max(0, end - 65536)
        file.seek(start)
        found = file.read(end - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def _lock(file: IO[bytes], *, exclusive: bool) -> None:
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
