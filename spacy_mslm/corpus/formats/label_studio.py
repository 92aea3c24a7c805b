"""Label Studio's JSON export: tasks with the results of their annotators.

    [{"id": 7, "data": {"text": "No renal failure."}, "annotations": [
        {"was_cancelled": false, "result": [
            {"type": "labels", "value": {"start": 3, "end": 16, "text": "renal failure",
                                         "labels": ["Disease"]}}]}]}]

Of several annotations of a task, the one that is marked as ground truth counts, else the first that
was not cancelled. Relations, choices and the like are skipped. Label Studio counts UTF-16 units:
where the text at the offsets differs, they are read as such.
"""

import logging
from collections.abc import Iterator
from pathlib import Path

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
from .records import Document, check_ids, check_mention, check_surface, format_error

logger = logging.getLogger("spacy_mslm")

ANNOTATIONS = ("annotations", "completions")


def read_label_studio(path: Path, group: str = "") -> Iterator[Document]:
    """Yield the tasks of a file. Tasks without an annotation are left out, with a warning.

    group: The key of the task or its data whose value says which tasks belong together.
    """
    return check_ids(_tasks(path, group), path)


def _tasks(path: Path, group: str) -> Iterator[Document]:
    bare: list[int] = []
    several: list[int] = []
    for line, record in read_records(path):
        text = _text(record, path, line)
        done = [a for a in _annotations(record, path, line) if not a.get("was_cancelled")]
        if not done:
            bare.append(line)
            continue
        if len(done) > 1:
            several.append(line)
        chosen = next((a for a in done if a.get("ground_truth")), done[0])
        mentions = list(_mentions(chosen, text, path, line))
        belongs = record_group(record, group, path, line)
        yield Document(record_id(record, path, line), text, mentions, line, group=belongs)
    for lines, what in (
        (bare, "tasks have no annotation and are left out"),
        (several, "tasks have several annotations, of which one is used"),
    ):
        if lines:
            logger.warning(f"{path}: {len(lines)} {what}, lines {listing(lines)}.")


def _text(record: Record, path: Path, line: int) -> str:
    data = require(record, "data", path, line)
    texts = {k: v for k, v in data.items() if isinstance(v, str)} if isinstance(data, dict) else {}
    if "text" not in texts and len(texts) != 1:
        found = describe_keys(data) if isinstance(data, dict) else "'data' is no object"
        raise format_error(path, line, f"'data' has a 'text', or one string only; {found}")
    key = "text" if "text" in texts else next(iter(texts))
    return check_text(texts[key], key, path, line)


def _annotations(record: Record, path: Path, line: int) -> list[Record]:
    value = next((record[key] for key in ANNOTATIONS if key in record), None)
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise format_error(path, line, "'annotations' is a list of objects")
    return value


def _mentions(annotation: Record, text: str, path: Path, line: int) -> Iterator[Mention]:
    results = annotation.get("result")
    if not isinstance(results, list):
        raise format_error(path, line, "an annotation has a list 'result'")
    for result in results:
        value = result.get("value") if isinstance(result, dict) else None
        if not isinstance(value, dict) or "labels" not in value:
            continue
        start, end, labels = value.get("start"), value.get("end"), value["labels"]
        if type(start) is not int or type(end) is not int or not isinstance(labels, list):
            raise format_error(path, line, "a result has 'start', 'end' and a list 'labels'")
        surface = value.get("text")
        if isinstance(surface, str) and text[start:end].split() != surface.split():
            start, end = _from_utf16(text, start), _from_utf16(text, end)
        for label in labels:
            mention = Mention(start, end, label.strip() if isinstance(label, str) else "")
            check_mention(mention, text, path=path, line=line)
            if isinstance(surface, str):
                check_surface(text[start:end], surface, path=path, line=line)
            yield mention


def _from_utf16(text: str, offset: int) -> int:
    """Return the number of characters in a number of UTF-16 units."""
    units = text.encode("utf-16-le")[: 2 * offset]
    return len(units.decode("utf-16-le", errors="ignore"))
