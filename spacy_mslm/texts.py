"""Files of text that nobody has annotated -> texts, one at a time, each with a name."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from .errors import Errors
from .formats.lines import read_lines


def read_texts(paths: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """Names (file and line) and texts: of `.jsonl` files the `text` of each record, of others each
    line that is not empty; `.gz` too."""
    for path in paths:
        is_json = path.name.removesuffix(".gz").endswith(".jsonl")
        for number, line in read_lines(path):
            text = _json_text(line, path, number) if is_json else line
            if text.strip():
                yield f"{path.name}:{number}", text.strip()


def _json_text(line: str, path: Path, number: int) -> str:
    if not line.strip():
        return ""
    try:
        record = json.loads(line)
    except ValueError:
        record = None
    text = record.get("text") if isinstance(record, dict) else None
    if not isinstance(text, str):
        raise ValueError(Errors.M153.format(path=path, line=number))
    return text
