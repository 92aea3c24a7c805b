"""JSON lines, a text with its mentions each, as annotation tools export them:

    {"id": 7, "text": "...", "entities": [[12, 31, "Disease"]]}                            spaCy
    {"id": 7, "text": "...", "label": [[12, 31, "Disease"]]}                               doccano
    {"text": "...", "entities": [{"start_offset": 12, "end_offset": 31, "label": "..."}]}  doccano
    {"text": "...", "spans": [{"start": 12, "end": 31, "label": "..."}], "answer": "accept"}
                                                                                           Prodigy
A record without a list of mentions is refused: whether it has none, or nobody has looked, is not
told. Records that were not accepted in Prodigy are left out, and counted.
"""

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...errors import Errors
from ...util.lines import read_lines
from ..label_schemes import Mention
from .records import Document, check_ids, check_mention

logger = logging.getLogger("spacy_mslm")

KEYS = ("entities", "spans", "label")
_SURROGATE = re.compile("[\ud800-\udfff]")
_RULES = {
    "json": "a line is one JSON object",
    "text": "'text' is a string of valid Unicode (no lone surrogate)",
    "id": "'id' is a string or a whole number",
    "list": f"one of {', '.join(map(repr, KEYS))} is a list, empty where there is no mention",
    "mention": "a mention is [start, end, label], or has start, end and label by name",
}


def read_jsonl(path: Path) -> Iterator[Document]:
    """The texts of a file; where there is no id, it is the file's name and the line."""
    return check_ids(_records(path), path)


def _records(path: Path) -> Iterator[Document]:
    rejected: list[int] = []
    for number, line in read_lines(path):
        if not line.strip():
            continue
        record = _parse(line, path, number)
        text = record.get("text")
        if not isinstance(text, str) or _SURROGATE.search(text):
            raise _refusal(path, number, "text")
        name = record.get("id", f"{path.name}:{number}")
        if isinstance(name, bool) or not isinstance(name, str | int):
            raise _refusal(path, number, "id")
        if record.get("answer", "accept") != "accept":
            rejected.append(number)
            continue
        lists = [record[key] for key in KEYS if isinstance(record.get(key), list)]
        filled = [items for items in lists if items]
        if not lists or len(filled) > 1:
            raise _refusal(path, number, "list")
        mentions = [_mention(item, path, number) for items in filled for item in items]
        for mention in mentions:
            check_mention(mention, text, path=path, line=number)
        yield Document(str(name), text, mentions, number)
    if rejected:
        lines = ", ".join(map(str, rejected[:10])) + (", ..." if len(rejected) > 10 else "")
        logger.warning(
            f"{path}: {len(rejected)} records were not accepted by their annotator and are "
            f"left out, lines {lines}."
        )


def _parse(line: str, path: Path, number: int) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        raise _refusal(path, number, "json")
    return record


def _mention(item: Any, path: Path, line: int) -> Mention:
    if isinstance(item, dict):
        start = item.get("start", item.get("start_offset"))
        end = item.get("end", item.get("end_offset"))
        item = [start, end, item.get("label")]
    if not isinstance(item, list) or [type(value) for value in item] != [int, int, str]:
        raise _refusal(path, line, "mention")
    start, end, label = item
    return start, end, label.strip()


def _refusal(path: Path, line: int, rule: str) -> ValueError:
    return ValueError(Errors.M163.format(path=path, line=line, rule=_RULES[rule]))
