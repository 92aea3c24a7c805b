"""GLiNER's training data: tokens, and mentions with their first and last token.

{"tokenized_text": ["No", "renal", "failure", "."], "ner": [[1, 2, "Disease"]]}
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...types import Mention
from ...util.spans import drop_overlapping, longest_first
from .json_records import check_tokens, read_records, record_group, record_id, require
from .records import Sentence, format_error


def read_gliner(path: Path, group: str = "") -> Iterator[Sentence]:
    """Yield the records of a file. Where mentions overlap, the longest is first.

    group: The key whose value says which records belong together.
    """
    for line, record in read_records(path):
        words = check_tokens(
            require(record, "tokenized_text", path, line), "tokenized_text", path, line
        )
        items = require(record, "ner", path, line)
        if not isinstance(items, list):
            raise format_error(path, line, "'ner' is a list")
        every = dict.fromkeys(_mention(item, len(words), path, line) for item in items)
        kept = drop_overlapping(sorted(every, key=longest_first))
        rest = tuple(sorted(set(every) - set(kept)))
        yield Sentence(
            *(record_id(record, path, line), words, kept, line),
            overlapping=rest,
            group=record_group(record, group, path, line),
        )


def _mention(item: Any, length: int, path: Path, line: int) -> Mention:
    if not isinstance(item, list) or [type(value) for value in item[:3]] != [int, int, str]:
        raise format_error(path, line, "a mention is [first token, last token, label]")
    first, last, label = item[0], item[1], item[2].strip()
    if not 0 <= first <= last < length or not label:
        rule = f"a mention has a label and lies within the record's {length} tokens"
        raise format_error(path, line, rule)
    return Mention(first, last + 1, label)
