"""Reading of clinical notes from files. Records are streamed, so files may be large.

    csv      MIMIC-III's NOTEEVENTS.csv, MIMIC-IV's discharge.csv, and similar tables
    jsonl    one JSON object per line, with `text`
    parquet  a table with the same columns (needs pyarrow)
    text     a folder of .txt files, or one such file

A table has the column `text`, and may have `row_id`, `note_id` or `id` for the note, `subject_id`
or `patient` for its patient, `category` or `note_type` for its kind, and `iserror`, which is 1 if
it was entered by mistake. Case is ignored. Files may be compressed (.gz).

A damaged file (a quote that is not closed, a missing column, a truncated archive) is an error that
names the line, as the rest of the file cannot be trusted. A record whose text is not valid Unicode
is marked as damaged, and the records after it are read.
"""

import csv
import gzip
import io
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

from ..errors import Errors
from ..util.arrow import arrow_errors
from ..util.lines import LONE_SURROGATE, read_json_lines

# Names of the columns of a record, in lower case.
COLUMNS = {
    "id": ("row_id", "note_id", "id"),
    "patient": ("subject_id", "patient", "patient_id"),
    "category": ("category", "note_type"),
    "error": ("iserror",),
    "text": ("text",),
}


class Record(NamedTuple):
    """A note of a file. `patient` and `category` are "" if the file does not have them."""

    id: str
    patient: str
    category: str
    is_error: bool
    text: str

    @property
    def damaged(self) -> bool:
        """Whether the text is not valid Unicode."""
        return LONE_SURROGATE.search(self.text) is not None


def read_notes(path: Path, format: str = "auto") -> Iterator[Record]:
    """Yield the records of a file, or of a folder of .txt files.

    format: auto (by the file's name), csv, jsonl, parquet or text.
    """
    if not path.exists():
        raise ValueError(Errors.M106.format(path=path))
    found = _format_of(path) if format == "auto" else format
    if found not in READERS:
        known = ", ".join(["auto", *READERS])
        raise ValueError(Errors.M101.format(what="format of notes", got=found, expected=known))
    return READERS[found](path)


def _format_of(path: Path) -> str:
    if path.is_dir():
        return "text"
    suffix = Path(path.name.removesuffix(".gz")).suffix
    known = {".csv": "csv", ".jsonl": "jsonl", ".parquet": "parquet", ".txt": "text"}
    return known.get(suffix, suffix)


def _read_csv(path: Path) -> Iterator[Record]:
    csv.field_size_limit(sys.maxsize)  # the default is 131,072 characters
    start = 1  # the line on which the record begins
    with _open(path) as file:
        reader = csv.reader(file, strict=True)
        try:
            header = next(reader, [])
            columns = _columns(header, path)
            start = reader.line_num + 1
            for row in reader:
                if len(row) != len(header):
                    raise ValueError(
                        f"{path}: the record that begins on line {start} has {len(row)} "
                        f"columns, but the header has {len(header)}. Nothing was written. "
                        "Correct the record, or remove it."
                    )
                values = dict(zip(header, row, strict=True))
                yield _record(values, columns, f"{path.name}:{start}")
                start = reader.line_num + 1
        except csv.Error:
            raise ValueError(
                f"{path}: a quote is not closed or not doubled in the record that begins on line "
                f"{start} (detected on line {reader.line_num}), so the records after it cannot be "
                "read. Nothing was written. A quote inside a quoted field is written twice. "
                "Correct the record, or remove it."
            ) from None
        except (EOFError, gzip.BadGzipFile, zlib.error):
            raise ValueError(Errors.M152.format(path=path, line=reader.line_num + 1)) from None


def _open(path: Path) -> IO[str]:
    """Open a file for reading. Bytes that are not valid UTF-8 become lone surrogates, by which a
    damaged record is recognised."""
    file: Any = gzip.open(path) if path.suffix == ".gz" else path.open("rb")  # noqa: SIM115
    return io.TextIOWrapper(file, encoding="utf-8-sig", errors="surrogateescape", newline="")


def _read_jsonl(path: Path) -> Iterator[Record]:
    for number, record in read_json_lines(path):
        if record is None or not isinstance(record.get("text"), str):
            raise ValueError(Errors.M153.format(path=path, line=number))
        yield _record(record, _columns(record, path), f"{path.name}:{number}")


def _read_parquet(path: Path) -> Iterator[Record]:
    try:
        from pyarrow import parquet
    except ImportError as err:
        raise ImportError(
            f"Reading {path} needs pyarrow ({err}). Install it with 'pip install "
            '"spacy-mslm[parquet]"\'.'
        ) from err
    with arrow_errors(path), parquet.ParquetFile(path) as file:
        columns = _columns(file.schema_arrow.names, path)
        batches = file.iter_batches(batch_size=256, columns=list(columns.values()))
        number = 0
        for batch in batches:
            batch.validate(full=True)  # offsets in the file could lead out of it
            for row in batch.to_pylist():
                number += 1
                yield _record(row, columns, f"{path.name}:{number}")


def _read_folder(path: Path) -> Iterator[Record]:
    """Yield one record per file. The category is the name of its subfolder."""
    folder = path if path.is_dir() else path.parent
    for file in sorted(path.rglob("*.txt")) if path.is_dir() else [path]:
        text = file.read_bytes().decode("utf-8-sig", errors="surrogateescape")
        name = file.relative_to(folder).as_posix()
        category = file.parent.name if file.parent != folder else ""
        yield Record(name, "", category, False, text)


READERS: dict[str, Callable[[Path], Iterator[Record]]] = {
    "csv": _read_csv,
    "jsonl": _read_jsonl,
    "parquet": _read_parquet,
    "text": _read_folder,
}


def _columns(header: Iterable[str], path: Path) -> dict[str, str]:
    """Return the column of each field of a record. Raises a ValueError without `text`."""
    columns = {name.lower().strip(): name for name in header}
    found = {
        field: next(columns[name] for name in names if name in columns)
        for field, names in COLUMNS.items()
        if any(name in columns for name in names)
    }
    if "text" not in found:
        raise ValueError(
            f"{path} has no column `text`. A table of notes has one, and may have row_id "
            "(note_id, id), subject_id (patient), category (note_type) and iserror."
        )
    return found


def _record(row: Mapping[str, Any], columns: dict[str, str], place: str) -> Record:
    """Create a record from a row. `place` becomes the id of a note without one."""
    given = {field: row[column] for field, column in columns.items()}
    values = {field: "" if value is None else str(value) for field, value in given.items()}
    return Record(
        id=values.get("id", "").strip() or place,
        patient=values.get("patient", "").strip(),
        category=values.get("category", "").strip(),
        is_error=values.get("error", "").strip() in ("1", "1.0"),
        text=values["text"],
    )
