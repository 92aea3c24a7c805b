"""Detection of the format of a file by its beginning: its first line that is not empty, and for
JSON the keys of the first record."""

import re
from pathlib import Path

from ...util.lines import read_lines
from .bioc_json import COLLECTIONS
from .hugging_face import ARROW, PARQUET, TAG_KEYS
from .iob import DOC_START, columns
from .json_records import first_record
from .label_studio import ANNOTATIONS
from .pubtator import TITLE

FORMATS = (
    *("iob", "brat", "pubtator", "bioc", "bioc_json", "jsonl", "label_studio", "hugging_face"),
    *("gliner", "ebm_nlp", "spacy"),
)
_BY_NAME = {".spacy": "spacy", PARQUET: "hugging_face", ARROW: "hugging_face"}
_TAG = re.compile("O|[BIELSU]-.+")
_XML = re.compile(r"\s*<(\?xml|!DOCTYPE|collection)\b")
_JSON = re.compile(r'\s*(\{\s*("|$)|\[\s*(\{|$))')


def detect_format(path: Path) -> str:
    """Return the format of a file: of binary files by their name, of others by their beginning.
    Raises a ValueError if it is none of them."""
    if path.suffix in _BY_NAME:
        return _BY_NAME[path.suffix]
    lines = ((number, line) for number, line in read_lines(path) if line.strip())
    number, line = next(lines, (1, ""))
    row = columns(line)
    if _XML.match(line):
        return "bioc"
    if _JSON.match(line):
        return _detect_json(path)
    if TITLE.fullmatch(line):
        return "pubtator"
    if row[:1] == [DOC_START] or (len(row) > 1 and _TAG.fullmatch(row[-1])):
        return "iob"
    raise ValueError(
        f"{path}, line {number}: the format cannot be detected from this line. Name it with "
        f"--format, as one of: {', '.join(FORMATS)}."
    )


def _detect_json(path: Path) -> str:
    record = first_record(path) or {}
    if "tokenized_text" in record:
        return "gliner"
    if "tokens" in record and ("text" not in record or any(key in record for key in TAG_KEYS)):
        return "hugging_face"
    if "passages" in record or any(key in record for key in COLLECTIONS):
        return "bioc_json"
    if "data" in record and any(key in record for key in ANNOTATIONS):
        return "label_studio"
    return "jsonl"
