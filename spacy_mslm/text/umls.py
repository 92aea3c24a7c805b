"""Reading of a UMLS release from two tables: MRCONSO.RRF (names) and MRSTY.RRF (types)."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ..util.lines import read_lines

NAMES, TYPES = "MRCONSO.RRF", "MRSTY.RRF"


class Term(NamedTuple):
    """A name of a concept with one of its semantic types."""

    name: str
    concept: str
    semantic_type: str


def is_umls(path: Path) -> bool:
    """Return whether a path is a folder with a UMLS release."""
    return (path / NAMES).exists() or (path / f"{NAMES}.gz").exists()


def read_umls(folder: Path) -> Iterator[Term]:
    """Yield the English names that are not suppressed, once for each type (`T047`) of their
    concepts."""
    types: dict[str, list[str]] = defaultdict(list)
    for fields in _rows(folder, TYPES, 2):
        types[fields[0]].append(fields[1])
    for fields in _rows(folder, NAMES, 17):
        if fields[1] == "ENG" and fields[16] not in ("O", "E", "Y"):
            for semantic_type in types.get(fields[0], ()):
                yield Term(fields[14], fields[0], semantic_type)


def _rows(folder: Path, name: str, columns: int) -> Iterator[list[str]]:
    """Yield the rows of a table. Raises a ValueError if one has fewer columns than given."""
    path = folder / name
    for number, line in read_lines(path if path.exists() else folder / f"{name}.gz"):
        fields = line.split("|")
        if len(fields) < columns:
            raise ValueError(
                f"{path}, line {number}: fewer than the {columns} columns of this UMLS table. The "
                "file may be truncated: copy it again."
            )
        yield fields
