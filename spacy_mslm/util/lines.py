"""UTF-8 files, line by line."""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

from ..errors import Errors


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The numbered lines of a UTF-8 file, `.gz` or not. Lines end at a newline only:
    str.splitlines would also cut at characters that occur inside of tokens, such as U+2028."""
    if path.is_dir():
        raise ValueError(
            f"{path} is a folder, but one file is expected here. Name a file in it, or convert "
            "the folder with 'python -m spacy mslm convert'."
        )
    if not path.exists():
        raise ValueError(Errors.M106.format(path=path))
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        number = 0
        try:
            for number, raw in enumerate(file, start=1):
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
                yield number, line.rstrip("\r\n")
        except UnicodeDecodeError:
            # Not chained: the cause holds the line's bytes.
            raise ValueError(Errors.M109.format(path=path, line=number)) from None
        except (EOFError, gzip.BadGzipFile, zlib.error) as err:
            raise ValueError(Errors.M152.format(path=path, line=number + 1)) from err
