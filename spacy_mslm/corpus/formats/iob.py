"""IOB files: one token and its tag per line, an empty line after every sentence.

Familial   B-Disease
ataxia     I-Disease
was        O
"""

from collections.abc import Iterator
from pathlib import Path

from ...util.lines import read_lines
from ..label_schemes import check_scheme, decode_tags, detect_scheme
from .records import Sentence

DOC_START = "-DOCSTART-"


def read_iob(path: str | Path, scheme: str = "auto") -> Iterator[Sentence]:
    """Yield the sentences of an IOB file.

    Columns are separated by tabs or, on a line without a tab, by spaces. The first column is the
    token, the last one the tag. A `-DOCSTART-` line ends a sentence; the sentences up to the next
    one are a group.

    scheme: auto, iob1, iob2 or bioes (also for BILOU). With auto the file is read twice, as its
        scheme is only known at its end.
    """
    path = Path(path)
    check_scheme(scheme)
    if scheme == "auto":
        rows = ((line, tags) for line, _, tags, _ in _read_rows(path))
        scheme = detect_scheme(rows, source=str(path))
    found = False
    for line, words, tags, group in _read_rows(path):
        found = True
        mentions = decode_tags(tags, scheme, source=str(path), first_line=line)
        yield Sentence(f"{path.name}:{line}", words, mentions, line, group=group)
    if not found:
        raise ValueError(
            f"{path} holds no sentence. An IOB file has a token and its tag on every line, and "
            "an empty line after every sentence."
        )


def columns(line: str) -> list[str]:
    """Split a line into its columns."""
    # str.split() would also cut at no-break and other spaces inside tokens.
    if "\t" in line:
        return [column.strip(" ") for column in line.split("\t")]
    return [column for column in line.split(" ") if column]


def _read_rows(path: Path) -> Iterator[tuple[int, list[str], list[str], str]]:
    """Yield the line of the first token, the tokens, the tags and the group of every sentence.
    Every line of a sentence is a token, so the n-th tag is n lines below the first."""
    words: list[str] = []
    tags: list[str] = []
    group = ""
    line_number = 0
    for line_number, line in read_lines(path):
        row = columns(line)
        if not any(row) or row[0] == DOC_START:
            if words:
                yield line_number - len(words), words, tags, group
                words, tags = [], []
            if row[:1] == [DOC_START]:
                group = str(line_number)
            continue
        if len(row) == 1 or not row[-1]:
            raise ValueError(
                f"{path}, line {line_number}: one column only, but a token and its tag are "
                "expected, separated by a tab or a space. The file may be truncated here: "
                "restore the line, or remove it."
            )
        if not row[0]:
            raise ValueError(
                f"{path}, line {line_number}: the token is empty. A line is a token, a tab and "
                "a tag; an empty line separates sentences."
            )
        words.append(row[0])
        tags.append(row[-1])
    if words:
        yield line_number - len(words) + 1, words, tags, group
