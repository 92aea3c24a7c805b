"""Annotated documents as JSONL, Parquet and `.spacy`: shards of one chunk each, joined to a file.

A document has its id, its entities (character offsets, label, confidence), the name, version and
digest of the pipeline, and its text if the user asks for it. A `.spacy` file always has the text.
"""

import io
import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from spacy.tokens import Doc, DocBin, Span

from ...util.doc_bins import add_doc, bin_bytes, empty_bin
from ...util.extensions import confidence_of
from ...util.files import replace_file, replaced_file
from ..choices import Format

# Confidences are rounded, as their last digits differ between processors.
DIGITS = 4


class Origin(NamedTuple):
    """The pipeline that annotates: name and version of its meta.json, and digest of its files."""

    model: str
    version: str
    digest: str


def entities_of(doc: Doc, keys: Iterable[str]) -> Iterator[Span]:
    """Yield the entities of a document, and the spans of groups.

    keys: The names of the span groups.
    """
    yield from doc.ents
    for key in keys:
        yield from doc.spans.get(key, ())


def make_row(doc: Doc, keys: Iterable[str], origin: Origin, with_text: bool) -> dict[str, Any]:
    """Return a document as a row of JSONL or Parquet."""
    row: dict[str, Any] = {"id": doc.user_data["id"]}
    if with_text:
        row["text"] = doc.text
    row["entities"] = [
        {
            "start": span.start_char,
            "end": span.end_char,
            "label": span.label_,
            "confidence": _rounded(confidence_of(span)),
        }
        for span in entities_of(doc, keys)
    ]
    return {**row, **origin._asdict()}


def _rounded(confidence: float | None) -> float | None:
    return None if confidence is None else round(float(confidence), DIGITS)


class Writer(Protocol):
    """Writes shards of a format, and joins them."""

    def write(
        self, path: Path, docs: Sequence[Doc], keys: Sequence[str], origin: Origin, with_text: bool
    ) -> None:
        """Write the documents of a chunk."""
        ...

    def join(self, shards: Sequence[Path], path: Path, with_text: bool) -> None:
        """Join shards to a file, in order."""
        ...


class Jsonl:
    """One JSON object per line."""

    def write(
        self, path: Path, docs: Sequence[Doc], keys: Sequence[str], origin: Origin, with_text: bool
    ) -> None:
        """Write the documents of a chunk."""
        rows = (make_row(doc, keys, origin, with_text) for doc in docs)
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        replace_file(path, lines.encode("utf8"))

    def join(self, shards: Sequence[Path], path: Path, with_text: bool) -> None:
        """Join shards to a file, in order."""
        with replaced_file(path) as file:
            for shard in shards:
                with shard.open("rb") as source:
                    shutil.copyfileobj(source, file)


class Parquet:
    """A table with a row per document; `entities` is a list of structs (needs pyarrow)."""

    def __init__(self) -> None:
        try:
            import pyarrow
            from pyarrow import parquet
        except ImportError as err:
            raise ImportError(
                f"Writing Parquet needs pyarrow ({err}). Install it with 'pip install "
                '"spacy-mslm[parquet]"\'.'
            ) from err
        self.arrow, self.parquet = pyarrow, parquet

    def _schema(self, with_text: bool) -> Any:
        arrow = self.arrow
        offsets = {"start": arrow.int64(), "end": arrow.int64()}
        entity = {**offsets, "label": arrow.string(), "confidence": arrow.float64()}
        text = {"text": arrow.string()} if with_text else {}
        columns = {"entities": arrow.list_(arrow.struct(entity))}
        strings = dict.fromkeys(Origin._fields, arrow.string())
        return arrow.schema({"id": arrow.string(), **text, **columns, **strings})

    def write(
        self, path: Path, docs: Sequence[Doc], keys: Sequence[str], origin: Origin, with_text: bool
    ) -> None:
        """Write the documents of a chunk."""
        rows = [make_row(doc, keys, origin, with_text) for doc in docs]
        table = self.arrow.Table.from_pylist(rows, schema=self._schema(with_text))
        content = io.BytesIO()
        self.parquet.write_table(table, content, compression="zstd")
        replace_file(path, content.getvalue())

    def join(self, shards: Sequence[Path], path: Path, with_text: bool) -> None:
        """Join shards to a file, in order. Each becomes a row group."""
        with (
            replaced_file(path) as file,
            self.parquet.ParquetWriter(file, self._schema(with_text), compression="zstd") as writer,
        ):
            for shard in shards:
                writer.write_table(self.parquet.read_table(shard))


class Spacy:
    """spaCy's binary format. The user data has the id, the pipeline and the confidences."""

    def write(
        self, path: Path, docs: Sequence[Doc], keys: Sequence[str], origin: Origin, with_text: bool
    ) -> None:
        """Write the documents of a chunk."""
        shard = empty_bin()
        for doc in docs:
            confidences = {
                name: {label: _rounded(value) for label, value in values.items()}
                for name, values in doc.user_data.items()
                if isinstance(name, tuple) and name[:2] == ("._.", "confidence")
            }
            id_ = doc.user_data["id"]
            doc.user_data = {"id": id_, **origin._asdict(), **confidences}
            for key in keys:
                scores = doc.spans[key].attrs.get("scores") if key in doc.spans else None
                if scores is not None:
                    doc.spans[key].attrs["scores"] = scores.round(DIGITS)
            add_doc(shard, doc)
        replace_file(path, bin_bytes(shard))

    def join(self, shards: Sequence[Path], path: Path, with_text: bool) -> None:
        """Join shards to a file, in order. All documents are in memory, as when it is read."""
        joined = empty_bin()
        joined.store_user_data = True
        for shard in shards:
            joined.merge(DocBin(store_user_data=True).from_disk(shard))
        replace_file(path, bin_bytes(joined))


def make_writer(format: Format) -> Writer:
    """Return the writer of a format. Raises an ImportError if its package is not installed."""
    writers: dict[Format, type[Writer]] = {
        Format.jsonl: Jsonl,
        Format.parquet: Parquet,
        Format.spacy: Spacy,
    }
    return writers[format]()
