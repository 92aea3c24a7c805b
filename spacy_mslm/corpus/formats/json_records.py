"""Records of JSON files, and the checks that the formats in JSON share.

A file is JSON lines, an array of objects, or one object:

    {"text": "..."}          [{"text": "..."},         {"documents": [
    {"text": "..."}           {"text": "..."}]             {"id": "7", ...}]}
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...errors import listing
from ...util.lines import LONE_SURROGATE, read_json_lines, read_lines
from .records import format_error

Record = dict[str, Any]
# Keys that may be named in messages. Others could hold text.
_NAME = re.compile(r"[A-Za-z_][\w-]{0,30}", re.ASCII)
# Where annotation tools keep what they do not interpret.
_META = ("meta", "metadata", "data", "infons")


def read_records(path: Path) -> Iterator[tuple[int, Record]]:
    """Yield the line on which each record begins, and the record."""
    for line, record in _read(path):
        if not isinstance(record, dict):
            raise format_error(path, line, "a record is one JSON object")
        yield line, record


def first_record(path: Path) -> Record | None:
    """Return the first record of a file, or None if there is none."""
    _, record = next(_read(path), (1, None))
    return record if isinstance(record, dict) else None


def _read(path: Path) -> Iterator[tuple[int, Any]]:
    first = next((line for _, line in read_lines(path) if line.strip()), "")
    if first.lstrip().startswith("["):
        yield from _read_array(path)
    elif _parse(first) is None and (whole := _parse(_read_text(path))) is not None:
        yield 1, whole
    else:
        yield from read_json_lines(path)


def _read_array(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield line and value of the items of an array. An item that cannot be read is None."""
    text = _read_text(path)
    decoder = json.JSONDecoder()
    position, line, counted = text.index("[") + 1, 1, 0
    while True:
        position = _skip_space(text, position)
        line += text.count("\n", counted, position)
        counted = position
        if text[position : position + 1] == "]":
            return
        try:
            value, position = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            value = None
        yield line, value
        position = _skip_space(text, position)
        if text[position : position + 1] == ",":
            position += 1
        elif text[position : position + 1] != "]":
            yield line, None


def _skip_space(text: str, position: int) -> int:
    while text[position : position + 1].isspace():
        position += 1
    return position


def _read_text(path: Path) -> str:
    return "\n".join(line for _, line in read_lines(path))


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


# ---- values ----


def require(record: Record, key: str, path: Path, line: int) -> Any:
    """Return a value of a record. Raises a ValueError that names the key if it is missing."""
    if key not in record:
        raise format_error(path, line, f"the key '{key}' is missing; {describe_keys(record)}")
    return record[key]


def describe_keys(record: Record) -> str:
    """Name the keys of a record for a message, without any that could be text."""
    names = [repr(key) for key in record if _NAME.fullmatch(key)]
    return f"the keys here are {listing(names)}" if names else "the record has no keys"


def check_text(text: Any, key: str, path: Path, line: int) -> str:
    """Return a text. Raises a ValueError if it is not a string of valid Unicode."""
    if not isinstance(text, str):
        raise format_error(path, line, f"'{key}' is a string")
    if LONE_SURROGATE.search(text):
        raise format_error(path, line, f"'{key}' is valid Unicode (no lone surrogate)")
    return text


def check_tokens(tokens: Any, key: str, path: Path, line: int) -> list[str]:
    """Return tokens. Raises a ValueError if they are not a list of strings that hold something."""
    if not isinstance(tokens, list):
        raise format_error(path, line, f"'{key}' is a list of tokens")
    for token in tokens:
        if not check_text(token, key, path, line).strip():
            raise format_error(path, line, f"'{key}' has no empty token")
    return tokens


def record_id(record: Record, path: Path, line: int) -> str:
    """Return the id of a record: of one without an id, the file's name and the line."""
    name = record.get("id")
    if name is None:
        return f"{path.name}:{line}"
    if isinstance(name, bool) or not isinstance(name, str | int):
        raise format_error(path, line, "'id' is a string or a whole number")
    return str(name)


def record_group(record: Record, key: str, path: Path, line: int) -> str:
    """Return the value of a key, also of one inside `meta` or `data`; "" if no key is given."""
    if not key:
        return ""
    places = [record, *(record[name] for name in _META if isinstance(record.get(name), dict))]
    for place in places:
        if isinstance(place.get(key), str | int):
            return str(place[key])
    raise format_error(
        path, line, f"the key '{key}' of --group is missing; {describe_keys(record)}"
    )
