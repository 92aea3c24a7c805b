"""Hugging Face datasets of tokens and tags: JSON, Parquet, or a folder of `save_to_disk`.

    {"id": "7", "tokens": ["No", "renal", "failure"], "ner_tags": [0, 1, 2]}

Tags are strings, or numbers with names: those of `--tags`, of the schema in a Parquet or Arrow
file, or of `dataset_info.json` in the folder of the file. Arrow and Parquet need pyarrow (the extra
`parquet`); the `datasets` package is not used.
"""

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ...errors import Errors
from ...util.arrow import arrow_errors
from ..label_schemes import check_scheme, decode_tags, detect_scheme
from .json_records import (
    Record,
    check_tokens,
    describe_keys,
    read_records,
    record_group,
    record_id,
    require,
)
from .records import Sentence, format_error

TAG_KEYS = ("ner_tags", "tags")
INFO = "dataset_info.json"
PARQUET, ARROW = ".parquet", ".arrow"


def is_hugging_face(folder: Path) -> bool:
    """Return whether a folder holds one split in Arrow or Parquet files."""
    return bool(_table_files(folder))


def read_hugging_face(
    path: Path, scheme: str = "auto", names: Sequence[str] = (), group: str = ""
) -> Iterator[Sentence]:
    """Yield the records of a file or folder that have tokens.

    Args:
        path: A JSON or Parquet file, or a folder of Arrow or Parquet files.
        scheme: The label scheme: auto, iob1, iob2 or bioes.
        names: The names of numeric tags, in the order of their numbers.
        group: The key whose value says which records belong together.
    """
    check_scheme(scheme)
    rows = []
    for file, known in _sources(path):
        records, found = _read_table(file) if _is_table(file) else (read_records(file), ())
        for line, record in records:
            tokens = check_tokens(require(record, "tokens", file, line), "tokens", file, line)
            key = next((key for key in TAG_KEYS if key in record), None)
            if key is None:
                rule = f"the key 'ner_tags' or 'tags' is missing; {describe_keys(record)}"
                raise format_error(file, line, rule)
            all_names = tuple(names or found or known)
            tags = _tag_names(record[key], len(tokens), all_names, file, line)
            belongs = record_group(record, group, file, line)
            if tokens:
                rows.append((file, line, record_id(record, file, line), tokens, tags, belongs))
    if not rows:
        raise ValueError(Errors.M158.format(path=path))
    if scheme == "auto":
        scheme = detect_scheme(((row[1], row[4]) for row in rows), str(path), step=0)
    for file, line, name, tokens, tags, belongs in rows:
        mentions = decode_tags(tags, scheme, str(file), line, step=0)
        yield Sentence(name, tokens, mentions, line, group=belongs)


# ---- tags ----


def _tag_names(tags: Any, length: int, names: Sequence[str], path: Path, line: int) -> list[str]:
    if not isinstance(tags, list) or len(tags) != length:
        raise format_error(path, line, f"there is one tag for each of the {length} tokens")
    if all(isinstance(tag, str) for tag in tags):
        return tags
    if not all(type(tag) is int for tag in tags):
        raise format_error(path, line, "tags are strings, or whole numbers")
    if not names:
        raise ValueError(
            f"{path}, line {line}: the tags are numbers, but nothing says what they mean. Give "
            "their names in the order of the numbers, such as --tags O,B-Disease,I-Disease, or "
            f"put the {INFO} of the dataset beside the file."
        )
    if not all(0 <= tag < len(names) for tag in tags):
        rule = f"tags are numbers from 0 to {len(names) - 1}, as there are {len(names)} names"
        raise format_error(path, line, rule)
    return [names[tag] for tag in tags]


def _names_in(features: Any) -> tuple[str, ...]:
    """Return the names of the tags in the description of a dataset's columns."""
    if not isinstance(features, dict):
        return ()
    described = next((features[key] for key in TAG_KEYS if key in features), None)
    return _class_names(described)


def _class_names(feature: Any) -> tuple[str, ...]:
    """Find the names of a ClassLabel, which the versions of `datasets` nest in different ways."""
    if isinstance(feature, list) and feature:
        return _class_names(feature[0])
    if not isinstance(feature, dict):
        return ()
    names = feature.get("names")
    if isinstance(names, list) and all(isinstance(name, str) for name in names):
        return tuple(names)
    return _class_names(feature.get("feature"))


# ---- files ----


def _sources(path: Path) -> list[tuple[Path, tuple[str, ...]]]:
    """Return the files, each with the names in the dataset_info.json beside it."""
    files = _table_files(path) if path.is_dir() else [path]
    known: tuple[str, ...] = ()
    info = files[0].parent / INFO if files else path / INFO
    if info.is_file():
        try:
            known = _names_in(json.loads(info.read_text(encoding="utf8")).get("features"))
        except (ValueError, AttributeError, RecursionError):
            raise ValueError(
                f"{info} is not a description of a dataset. Restore it, or give --tags."
            ) from None
    return [(file, known) for file in files]


def _table_files(folder: Path) -> list[Path]:
    return sorted(f for f in folder.iterdir() if _is_table(f) and f.is_file())


def _is_table(path: Path) -> bool:
    return path.suffix in (PARQUET, ARROW)


def _read_table(path: Path) -> tuple[Iterator[tuple[int, Record]], tuple[str, ...]]:
    """Return the rows of a Parquet or Arrow file with their numbers, and the names of the tags."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as err:
        raise ImportError(
            f"Reading {path} needs pyarrow ({err}). Install it with 'pip install "
            '"spacy-mslm[parquet]"\'.'
        ) from None
    with arrow_errors(path):
        if path.suffix == PARQUET:
            table = pq.read_table(path)
        else:
            with pa.OSFile(str(path)) as file:
                table = pa.ipc.open_stream(file).read_all()
        # Values are read by offsets in the file, which could lead out of it.
        table.validate(full=True)
    metadata = (table.schema.metadata or {}).get(b"huggingface", b"{}")
    names: tuple[str, ...] = ()
    with contextlib.suppress(ValueError, AttributeError, RecursionError):
        names = _names_in(json.loads(metadata).get("info", {}).get("features"))
    return _rows_of(path, table), names


def _rows_of(path: Path, table: Any) -> Iterator[tuple[int, Record]]:
    with arrow_errors(path):
        rows = (row for batch in table.to_batches() for row in batch.to_pylist())
        yield from enumerate(rows, start=1)
