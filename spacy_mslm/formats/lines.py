"""UTF-8 files, line by line."""

from collections.abc import Iterator
from pathlib import Path

from ..errors import Errors


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The numbered lines of a UTF-8 file. Lines end at a newline only: str.splitlines would also
    cut at characters that occur inside of tokens, such as U+2028."""
    if path.is_dir():
        raise ValueError(Errors.M115.format(path=path))
    if not path.exists():
        raise ValueError(Errors.M106.format(path=path))
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            try:
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError:
                # Not chained: the cause holds the line's bytes.
                raise ValueError(Errors.M109.format(path=path, line=number)) from None
            yield number, line.rstrip("\r\n")
