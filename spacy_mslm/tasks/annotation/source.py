"""The documents to annotate: files that the readers of weak supervision read."""

import hashlib
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...engine.chunks import divide
from ...errors import Errors, listing
from ...util.progress import progress_bar
from ...weak.note_files import read_notes


class Document(NamedTuple):
    """A document to annotate."""

    id: str
    text: str


class Survey(NamedTuple):
    """The result of a first pass over the documents.

    documents: Their number.
    chunks: The number of chunks.
    unnamed: The number of documents without an id, which are named by file and line.
    digest: A digest of ids and texts.
    """

    documents: int
    chunks: int
    unnamed: int
    digest: str


class Source:
    """The documents of a file, or of a folder of .txt files. Memory does not depend on its size,
    except for 8 bytes per document.

    path: The file or folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def __iter__(self) -> Iterator[Document]:
        """Yield the documents."""
        for record in read_notes(self.path):
            yield Document(record.id, record.text)

    def survey(self, size: int) -> Survey:
        """Read all documents, and check that each has its own id.

        size: The maximum number of documents in a chunk.

        Raises a ValueError if the file is damaged or empty, or two documents have the same id.
        """
        digest = hashlib.blake2b(digest_size=16)
        hashes = array("Q")
        chunks = unnamed = 0
        prefix = None if self.path.is_dir() else f"{self.path.name}:"
        for chunk in divide(progress_bar(self, desc="Reading", unit=" documents"), size):
            chunks += 1
            for id_, text in chunk.documents:
                unnamed += prefix is not None and id_.startswith(prefix)
                hashes.append(int.from_bytes(_hash(id_), "little"))
                digest.update(b"%d %d " % (len(id_), len(text)))
                digest.update(f"{id_}{text}".encode("utf8", "surrogatepass"))
        if not hashes:
            raise ValueError(Errors.M158.format(path=self.path))
        self._check_ids(np.frombuffer(hashes, dtype=np.uint64))
        return Survey(len(hashes), chunks, unnamed, digest.hexdigest())

    def _check_ids(self, hashes: np.ndarray) -> None:
        ordered = np.sort(hashes)
        doubled = set(ordered[1:][ordered[1:] == ordered[:-1]].tolist())
        if not doubled:
            return
        seen: dict[str, int] = {}
        for id_, _ in self:
            if int.from_bytes(_hash(id_), "little") in doubled:
                seen[id_] = seen.get(id_, 0) + 1
        double = [id_ for id_, times in seen.items() if times > 1]
        if double:
            raise ValueError(
                f"{self.path}: several documents have the same id: {listing(double)}. Nothing was "
                "annotated. Give each document its own id, or leave the column out: documents "
                "are then named by file and line."
            )


def _hash(id_: str) -> bytes:
    return hashlib.blake2b(id_.encode("utf8", "surrogatepass"), digest_size=8).digest()
