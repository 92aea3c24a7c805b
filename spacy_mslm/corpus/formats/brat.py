"""BRAT standoff: a folder of texts (`7.txt`), each with its annotation beside it (`7.ann`).

    T1<tab>Disease 12 31<tab>acute renal failure
    T2<tab>Disease 12 17;24 31<tab>acute failure        in several parts
    R1<tab>Causes Arg1:T3 Arg2:T1                       relations, events, notes...: skipped

Offsets count the characters of the text file as it is, including line ends and a byte-order mark.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from ...errors import Errors
from ...types import Mention
from ...util.lines import read_lines
from .records import Document, InParts, check_mention, check_surface, format_error

_RANGE = r"([0-9]{1,15}) ([0-9]{1,15})"
_LABEL_AND_RANGES = re.compile(rf"(\S*) ({_RANGE}(?:;{_RANGE})*)")
# Events, relations, attributes (M: their old form), normalisations, notes, equivalences.
_OTHER_KINDS = tuple("ERAMN#*")


def read_brat(folder: Path) -> Iterator[Document]:
    """Yield the texts of a folder, in the order of their names. The id is the file's name without
    `.txt`."""
    files = {f for f in folder.iterdir() if f.name[0] != "." and f.suffix in (".txt", ".ann")}
    # A text whose annotation is lost must not be read as a text without mentions.
    for file in sorted(files):
        partner = file.with_suffix(".ann" if file.suffix == ".txt" else ".txt")
        if partner not in files:
            raise ValueError(Errors.M165.format(path=partner, other=file.name))
    if not files:
        raise ValueError(Errors.M158.format(path=folder))
    for file in sorted(f for f in files if f.suffix == ".txt"):
        text = _read_text(file)
        mentions, in_parts = _read_annotation(file.with_suffix(".ann"), text)
        yield Document(file.stem, text, mentions, 1, tuple(in_parts))


def _read_text(path: Path) -> str:
    data = path.read_bytes()
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as err:
        line = data.count(b"\n", 0, err.start) + 1
        raise ValueError(Errors.M109.format(path=path, line=line)) from None


def _read_annotation(path: Path, text: str) -> tuple[list[Mention], list[InParts]]:
    mentions: list[Mention] = []
    in_parts: list[InParts] = []
    for number, line in read_lines(path):
        if not line.strip() or line.startswith(_OTHER_KINDS):
            continue
        columns = line.split("\t", 2)
        match = _LABEL_AND_RANGES.fullmatch(columns[1]) if len(columns) == 3 else None
        if match is None or line[0] != "T":
            rule = "a mention is 'T1', its label and offsets, and its text, separated by tabs"
            raise format_error(path, number, rule)
        parts = [(int(a), int(b)) for a, b in re.findall(_RANGE, match[2])]
        for part in parts:
            check_mention(Mention(*part, match[1]), text, path=path, line=number)
        found = " ".join(text[start:end] for start, end in parts)
        check_surface(found, columns[2], path=path, line=number)
        # BRAT itself splits a mention at a line break inside it.
        gaps = [text[a[1] : b[0]] for a, b in pairwise(sorted(parts))]
        if "".join(gaps).strip():
            in_parts.append(InParts(tuple(parts), match[1]))
        else:
            mentions.append(Mention(min(parts)[0], max(end for _, end in parts), match[1]))
    return mentions, in_parts
