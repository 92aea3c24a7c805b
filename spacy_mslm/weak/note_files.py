"""Files of clinical notes -> records, one at a time, however large the file.

    csv      MIMIC-III's NOTEEVENTS.csv, MIMIC-IV's discharge.csv, and tables like them
    jsonl    a JSON object a line, with `text`
    parquet  a table with the same columns (needs pyarrow)
    text     a folder of .txt files

A table has a column `text`; `row_id`, `note_id` or `id` names a note, `subject_id` or `patient` its
patient, `category` or `note_type` its kind, and `iserror` is 1 where it was entered by mistake (all
in any case). Compressed files (.gz) are read as they are.

A file that is damaged as such (a quote that does not close, a missing column, a truncated archive)
is an error, which names the line: what follows it cannot be trusted. A record that is damaged by
itself is marked as such, and its neighbours are kept.
"""

import csv
import gzip
import io
import json
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from ..errors import Errors
from ..util.lines import read_lines

# What a column may be called, in lower case.
COLUMNS = {
    "id": ("row_id", "note_id", "id"),
    "patient": ("subject_id", "patient", "patient_id"),
    "category": ("category", "note_type"),
    "error": ("iserror",),
    "text": ("text",),
}
_SURROGATE = re.compile("[\ud800-\udfff]")


class Record(NamedTuple):
    """A note as its file has it.

    patient: empty where the file does not tell.
    damaged: its text is not valid Unicode.
    """

    id: str
    patient: str
    category: str
    is_error: bool
    text: str

    @property
    def damaged(self) -> bool:
        return _SURROGATE.search(self.text) is not None


def read_notes(path: Path, format: str = "auto") -> Iterator[Record]:
    """The records of a file, or of a folder of .txt files, in their order."""
    if not path.exists():
        raise ValueError(Errors.M106.format(path=path))
    found = format_of(path) if format == "auto" else format
    if found not in READERS:
        known = ", ".join(["auto", *READERS])
        raise ValueError(Errors.M101.format(what="format of notes", got=found, expected=known))
    return READERS[found](path)


def format_of(path: Path) -> str:
    """By the name of a file; a folder is one of .txt files."""
    if path.is_dir():
        return "text"
    suffix = Path(path.name.removesuffix(".gz")).suffix
    return {".csv": "csv", ".jsonl": "jsonl", ".parquet": "parquet"}.get(suffix, suffix)


def read_csv(path: Path) -> Iterator[Record]:
    csv.field_size_limit(sys.maxsize)  # a note may be longer than csv's 131,072 characters
    start = 1  # the line on which the record begins
    with _open(path) as file:
        reader = csv.reader(file, strict=True)
        try:
            header = next(reader, [])
            columns = _columns([name.lower().strip() for name in header], path)
            start = reader.line_num + 1
            for row in reader:
                if len(row) != len(header):
                    raise ValueError(
                        f"{path}: the record that begins on line {start} has {len(row)} "
                        f"columns, but the header has {len(header)}. Nothing was labelled. "
                        "Mend the record, or remove it."
                    )
                values = {name: row[at] for name, at in columns.items()}
                yield _record(values, f"{path.name}:{start}")
                start = reader.line_num + 1
        except csv.Error:
            raise ValueError(
                f"{path}: a quote is broken in the record that begins on line {start} "
                f"(noticed on line {reader.line_num}): where the records after it begin "
                "cannot be told, so nothing was labelled. Inside of a quoted field a "
                "quote is written twice. Mend the record, or remove it."
            ) from None
        except (EOFError, gzip.BadGzipFile, zlib.error):
            raise ValueError(Errors.M152.format(path=path, line=reader.line_num + 1)) from None


def _open(path: Path) -> IO[str]:
    """Bytes that are not valid UTF-8 become lone surrogates, by which the record is known."""
    file: Any = gzip.open(path) if path.suffix == ".gz" else path.open("rb")  # noqa: SIM115
    return io.TextIOWrapper(file, encoding="utf-8-sig", errors="surrogateescape", newline="")


def read_jsonl(path: Path) -> Iterator[Record]:
    for number, line in read_lines(path):
        if not line.strip():
            continue
        try:
            values = json.loads(line)
        except ValueError:
            values = None
        if not isinstance(values, dict) or not isinstance(values.get("text"), str):
            raise ValueError(Errors.M153.format(path=path, line=number))
        names = {name.lower(): value for name, value in values.items()}
        columns = _columns(list(names), path)
        told = list(names.values())
        yield _record({name: told[at] for name, at in columns.items()}, f"{path.name}:{number}")


def read_parquet(path: Path) -> Iterator[Record]:
    try:
        from pyarrow import ArrowInvalid, parquet
    except ImportError as err:
        raise ImportError(
            f"{path} needs pyarrow to be read. Install it with 'pip install "
            '"spacy-mslm[parquet]"\'.'
        ) from err
    try:
        with parquet.ParquetFile(path) as file:
            columns = _columns([name.lower() for name in file.schema_arrow.names], path)
            names = {name: file.schema_arrow.names[at] for name, at in columns.items()}
            number = 0
            for batch in file.iter_batches(batch_size=256, columns=list(names.values())):
                for row in batch.to_pylist():
                    number += 1
                    values = {name: row[column] for name, column in names.items()}
                    yield _record(values, f"{path.name}:{number}")
    except (ArrowInvalid, OSError):
        raise ValueError(f"{path} is damaged, or no Parquet file. Write it again.") from None


def read_folder(path: Path) -> Iterator[Record]:
    """A note a file; the name of its folder is its category."""
    for file in sorted(path.rglob("*.txt")):
        text = file.read_bytes().decode("utf-8-sig", errors="surrogateescape")
        name = file.relative_to(path).as_posix()
        category = file.parent.name if file.parent != path else ""
        yield Record(name, "", category, False, text)


READERS: dict[str, Callable[[Path], Iterator[Record]]] = {
    "csv": read_csv,
    "jsonl": read_jsonl,
    "parquet": read_parquet,
    "text": read_folder,
}


def _columns(header: Sequence[str], path: Path) -> dict[str, int]:
    """Where the columns are that a record is made of; the text must be."""
    found = {
        name: next(header.index(known) for known in names if known in header)
        for name, names in COLUMNS.items()
        if any(known in header for known in names)
    }
    if "text" not in found:
        raise ValueError(
            f"{path} has no column `text`. A table of notes has one, and may have row_id "
            "(note_id, id), subject_id (patient), category (note_type) and iserror."
        )
    return found


def _record(values: dict[str, Any], place: str) -> Record:
    """place: the id of a note that has none."""
    told = {name: "" if value is None else str(value).strip() for name, value in values.items()}
    return Record(
        id=told.get("id") or place,
        patient=told.get("patient", ""),
        category=told.get("category", ""),
        is_error=told.get("error", "") in ("1", "1.0"),
        text="" if values["text"] is None else str(values["text"]),
    )
