"""Files of text that nobody has annotated -> texts, one at a time, each with a name."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ..errors import Errors
from ..util.lines import read_lines

_SURROGATE = re.compile("[\ud800-\udfff]")


class TextFiles(NamedTuple):
    """Files by kind: plain text, and documents that bring entities (`.spacy`, folders of them)."""

    plain: list[Path]
    annotated: list[Path]

    def __bool__(self) -> bool:
        return bool(self.plain or self.annotated)


def as_paths(paths: str | Sequence[str] | None) -> list[Path]:
    """One path, several or none, as a config gives them. All of them are there."""
    found = [Path(path) for path in ([paths] if isinstance(paths, str) else paths or ())]
    for path in found:
        if not path.exists():
            raise ValueError(Errors.M106.format(path=path))
    return found


def text_files(paths: str | Sequence[str] | None) -> TextFiles:
    found = as_paths(paths)
    annotated = [path for path in found if path.is_dir() or path.suffix == ".spacy"]
    return TextFiles([path for path in found if path not in annotated], annotated)


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
    return _SURROGATE.sub("\ufffd", text)


def letters(text: str) -> str:
    """What is left of a sentence however it is tokenised: two that have the same are one."""
    return "".join(c for c in text.lower() if c.isalnum())
