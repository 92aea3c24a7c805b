"""Reading of UTF-8 text files and JSON lines, line by line."""

import gzip
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import Errors

# Half of a UTF-16 pair, which UTF-8 cannot encode. JSON can hold one as an escape.
LONE_SURROGATE = re.compile("[\ud800-\udfff]")
REPLACEMENT = "\ufffd"


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each line of a UTF-8 file, which may be compressed (`.gz`).

    Lines end only at a newline. `str.splitlines` would also split at characters that occur inside
    tokens, such as U+2028.

    Raises:
        ValueError: If the file does not exist, is a folder, or is not valid UTF-8 or gzip.
    """
    if path.is_dir():
        raise ValueError(
            f"{path} is a folder, but a file is expected. Give a file in it, or convert the folder "
            "with 'python -m spacy mslm convert'."
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
            # Not chained, because the cause contains the bytes of the line.
            raise ValueError(Errors.M109.format(path=path, line=number)) from None
        except (EOFError, gzip.BadGzipFile, zlib.error) as err:
            raise ValueError(Errors.M152.format(path=path, line=number + 1)) from err


def read_json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """Yield the number and the JSON object of each line that is not blank.

    The object is None if the line is not a valid JSON object. Callers report this in their own way.
    """
    for number, line in read_lines(path):
        if line.strip():
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                record = None
            yield number, record if isinstance(record, dict) else None
