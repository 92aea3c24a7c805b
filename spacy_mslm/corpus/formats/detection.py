"""Detection of a file's format by its first line that is not empty."""

import re
from pathlib import Path

from ...util.lines import read_lines
from .iob import DOC_START, columns
from .pubtator import TITLE

FORMATS = ("iob", "brat", "pubtator", "bioc", "jsonl", "ebm_nlp", "spacy")
_TAG = re.compile("O|[BIELSU]-.+")
_XML = re.compile(r"\s*<(\?xml|!DOCTYPE|collection)\b")
_JSON = re.compile(r'\s*\{\s*"')


def detect_format(path: Path) -> str:
    """Return the format of a file: `.spacy` by its name, the others by their first line. Raises a
    ValueError if it is none of them."""
    if path.suffix == ".spacy":
        return "spacy"
    lines = ((number, line) for number, line in read_lines(path) if line.strip())
    number, line = next(lines, (1, ""))
    row = columns(line)
    if _XML.match(line):
        return "bioc"
    if _JSON.match(line):
        return "jsonl"
    if TITLE.fullmatch(line):
        return "pubtator"
    if row[:1] == [DOC_START] or (len(row) > 1 and _TAG.fullmatch(row[-1])):
        return "iob"
    raise ValueError(
        f"{path}, line {number}: the format cannot be detected from this line. Name it with "
        f"--format, as one of: {', '.join(FORMATS)}."
    )
