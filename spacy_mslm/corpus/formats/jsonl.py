"""Texts with their mentions, one JSON object each, as annotation tools export them:

    {"id": 7, "text": "...", "entities": [[12, 31, "Disease"]]}                            spaCy
    {"text": "...", "ents": [{"start": 12, "end": 31, "label": "..."}]}           Doc.to_json()
    {"id": 7, "text": "...", "label": [[12, 31, "Disease"]]}              doccano, also `labels`
    {"text": "...", "entities": [{"start_offset": 12, "end_offset": 31, "label": "..."}],
     "relations": []}                                                                      doccano
    {"text": "...", "spans": [{"start": 12, "end": 31, "label": "..."}], "answer": "accept"}
                                                                                           Prodigy
    {"text": "...", "label": [{"start": 12, "end": 31, "labels": ["Disease"]}]}
                                                                          Label Studio, JSON-MIN
A record without a list of mentions is an error, as it may not have been annotated. Records that
were not accepted in Prodigy are left out, and a warning gives their lines.
"""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...errors import listing
from ...types import Mention
from .json_records import (
    Record,
    check_text,
    describe_keys,
    read_records,
    record_group,
    record_id,
    require,
)
from .records import Document, check_ids, check_mention, format_error

logger = logging.getLogger("spacy_mslm")

KEYS = ("entities", "ents", "spans", "label", "labels")


def read_jsonl(path: Path, group: str = "") -> Iterator[Document]:
    """Yield the documents of a file. The id of a record without one is the file's name and the
    line.

    group: The key whose value says which documents belong together.
    """
    return check_ids(_documents(path, group), path)


def _documents(path: Path, group: str) -> Iterator[Document]:
    rejected: list[int] = []
    for line, record in read_records(path):
        text = check_text(require(record, "text", path, line), "text", path, line)
        name = record_id(record, path, line)
        if record.get("answer", "accept") != "accept":
            rejected.append(line)
            continue
        items = _mention_list(record, path, line)
        mentions = [parse_mention(item, text, path=path, line=line) for item in items]
        belongs = record_group(record, group, path, line)
        yield Document(name, text, mentions, line, group=belongs)
    if rejected:
        logger.warning(
            f"{path}: {len(rejected)} records were not accepted by their annotator and are left "
            f"out, lines {listing(rejected)}."
        )


def _mention_list(record: Record, path: Path, line: int) -> list[Any]:
    lists = [record[key] for key in KEYS if isinstance(record.get(key), list)]
    filled = [items for items in lists if items]
    if not lists or len(filled) > 1:
        keys = ", ".join(map(repr, KEYS))
        found = "several are filled" if lists else describe_keys(record)
        rule = f"one of {keys} is a list, which is empty if there is no mention; {found}"
        raise format_error(path, line, rule)
    return filled[0] if filled else []


def parse_mention(item: Any, text: str, *, path: Path, line: int) -> Mention:
    """Check a mention of a record with this text, and return it with its label stripped."""
    if isinstance(item, dict):
        start = item.get("start", item.get("start_offset"))
        end = item.get("end", item.get("end_offset"))
        labels = item.get("labels")
        item = [start, end, labels[0] if labels and isinstance(labels, list) else item.get("label")]
    if not isinstance(item, list) or [type(value) for value in item] != [int, int, str]:
        rule = "a mention is [start, end, label], or has start, end and label by name"
        raise format_error(path, line, rule)
    mention = Mention(item[0], item[1], item[2].strip())
    check_mention(mention, text, path=path, line=line)
    return mention
