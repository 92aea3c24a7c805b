"""Names of a UMLS release, from its two tables: MRCONSO.RRF (names) and MRSTY.RRF (types)."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ..util.lines import read_lines

NAMES, TYPES = "MRCONSO.RRF", "MRSTY.RRF"


class Term(NamedTuple):
    """A name of a concept, and what kind of thing it is: a row for each type."""

    name: str
    concept: str
    semantic_type: str


def is_umls(path: Path) -> bool:
    return (path / NAMES).exists() or (path / f"{NAMES}.gz").exists()


def read_umls(folder: Path) -> Iterator[Term]:
    """English names that are not suppressed, with the types of their concepts (`T047`)."""
    types: dict[str, list[str]] = defaultdict(list)
    for fields in _rows(folder, TYPES, 2):
        types[fields[0]].append(fields[1])
    for fields in _rows(folder, NAMES, 17):
        if fields[1] == "ENG" and fields[16] not in ("O", "E", "Y"):
            for semantic_type in types.get(fields[0], ()):
                yield Term(fields[14], fields[0], semantic_type)


def _rows(folder: Path, name: str, columns: int) -> Iterator[list[str]]:
    """Rows with at least so many columns; others are an error."""
    path = folder / name
    for number, line in read_lines(path if path.exists() else folder / f"{name}.gz"):
        fields = line.split("|")
        if len(fields) < columns:
            raise ValueError(
                f"{path}, line {number}: fewer than the {columns} columns that this table of "
                "UMLS has. The file may be cut off: copy it again."
            )
        yield fields
