"""JSON lines, one text with its mentions per line, as annotation tools export them:

    {"id": 7, "text": "...", "entities": [[12, 31, "Disease"]]}                            spaCy
    {"id": 7, "text": "...", "label": [[12, 31, "Disease"]]}                               doccano
    {"text": "...", "entities": [{"start_offset": 12, "end_offset": 31, "label": "..."}]}  doccano
    {"text": "...", "spans": [{"start": 12, "end": 31, "label": "..."}], "answer": "accept"}
                                                                                           Prodigy
A record without a list of mentions is an error, as it may not have been annotated. Records that
were not accepted in Prodigy are left out, and a warning gives their lines.
"""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...errors import listing
from ...types import Mention
from ...util.lines import LONE_SURROGATE, read_json_lines
from .records import Document, check_ids, check_mention, format_error

logger = logging.getLogger("spacy_mslm")

KEYS = ("entities", "spans", "label")


def read_jsonl(path: Path) -> Iterator[Document]:
    """Yield the documents of a file. The id of a record without one is the file's name and the
    line."""
    return check_ids(_records(path), path)


def _records(path: Path) -> Iterator[Document]:
    rejected: list[int] = []
    for number, record in read_json_lines(path):
        if record is None:
            raise format_error(path, number, "a line is one JSON object")
        text = record.get("text")
        if not isinstance(text, str) or LONE_SURROGATE.search(text):
            rule = "'text' is a string of valid Unicode (no lone surrogate)"
            raise format_error(path, number, rule)
        name = record.get("id", f"{path.name}:{number}")
        if isinstance(name, bool) or not isinstance(name, str | int):
            raise format_error(path, number, "'id' is a string or a whole number")
        if record.get("answer", "accept") != "accept":
            rejected.append(number)
            continue
        lists = [record[key] for key in KEYS if isinstance(record.get(key), list)]
        filled = [items for items in lists if items]
        if not lists or len(filled) > 1:
            keys = ", ".join(map(repr, KEYS))
            rule = f"one of {keys} is a list, which is empty if there is no mention"
            raise format_error(path, number, rule)
        mentions = [
            parse_mention(item, text, path=path, line=number) for items in filled for item in items
        ]
        yield Document(str(name), text, mentions, number)
    if rejected:
        logger.warning(
            f"{path}: {len(rejected)} records were not accepted by their annotator and are left "
            f"out, lines {listing(rejected)}."
        )


def parse_mention(item: Any, text: str, *, path: Path, line: int) -> Mention:
    """Check a mention of a record with this text, and return it with its label stripped."""
    if isinstance(item, dict):
        start = item.get("start", item.get("start_offset"))
        end = item.get("end", item.get("end_offset"))
        item = [start, end, item.get("label")]
    if not isinstance(item, list) or [type(value) for value in item] != [int, int, str]:
        rule = "a mention is [start, end, label], or has start, end and label by name"
        raise format_error(path, line, rule)
    mention = Mention(item[0], item[1], item[2].strip())
    check_mention(mention, text, path=path, line=line)
    return mention
