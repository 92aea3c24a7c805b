"""Annotation of a chunk of documents in one process."""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import spacy
import srsly
from spacy.language import Language
from spacy.tokens import Doc
from spacy.util import get_model_meta, get_package_path, is_package

from ...engine.chunks import Chunk
from ...engine.shards import ShardFolder, chunk_name
from ...pipeline.component import MSLM
from ...util.digests import digest_of
from ...util.lines import LONE_SURROGATE
from ..choices import Format
from .formats import Origin, entities_of, make_writer
from .source import Document

ROWS = "rows"
# A chunk with this many documents does not fail completely because of its documents.
ENOUGH = 10


class Failure(NamedTuple):
    """A document that could not be annotated: its id, and the reason, which quotes no text."""

    id: str
    reason: str


def find_pipeline(model: str) -> tuple[Path, Origin]:
    """Return the folder of a pipeline and what identifies it, without loading it.

    model: Name or path of the pipeline.

    Raises a ValueError if there is no such pipeline.
    """
    path = Path(model)
    if is_package(model):
        package = get_package_path(model)
        meta = get_model_meta(package)
        path = package / f"{meta['lang']}_{meta['name']}-{meta['version']}"
    elif not (path / "meta.json").is_file():
        raise ValueError(
            f"There is no pipeline {model}: it is neither an installed package nor a folder with "
            "a meta.json. Check the name or path."
        )
    meta = srsly.read_json(path / "meta.json")
    name = f"{meta.get('lang', 'xx')}_{meta.get('name', 'pipeline')}"
    return path.resolve(), Origin(name, str(meta.get("version", "0.0.0")), digest_of(path))


class Annotator:
    """Annotates chunks, and writes their shards.

    Args:
        path: The folder of the pipeline.
        origin: The pipeline as the command has found it.
        folder: The folder of the shards.
        format: The format of the shards.
        with_text: Whether rows have the text.
        gpu: The GPU of the pipeline; -1 for the CPU.
    """

    def __init__(
        self,
        path: Path,
        origin: Origin,
        folder: Path,
        format: Format,
        with_text: bool,
        gpu: int = -1,
    ) -> None:
        if digest_of(path) != origin.digest:
            raise ValueError(
                f"The files of {path} have changed, or are not the same on all machines. Copy the "
                "pipeline again, and run the command again."
            )
        if gpu >= 0:
            spacy.require_gpu(gpu)
        self.nlp = spacy.load(path)
        self.origin = origin
        self.shards = ShardFolder(folder)
        self.rows = folder / ROWS
        self.format = format
        self.writer = make_writer(format)
        self.with_text = with_text
        self.is_first = True
        pipes = [pipe for _, pipe in self.nlp.pipeline if isinstance(pipe, MSLM)]
        self.keys = [pipe.spans_key for pipe in pipes if pipe.spans_key is not None]

    def __call__(self, chunk: Chunk) -> int:
        """Annotate and write the documents of a chunk. Returns their number."""
        failures: list[Failure] = []
        # Frees the words of the documents when the chunk is finished. Those of the first chunk are
        # kept: spaCy's tokenizer adds nothing to its cache in a zone, and is slow without it.
        with nullcontext() if self.is_first else self.nlp.memory_zone():
            self.is_first = False
            docs = list(self._annotate(chunk.documents, failures))
            broken = [failure for failure in failures if not failure.reason.startswith("text ")]
            if len(broken) == len(chunk.documents) >= ENOUGH:
                raise ValueError(
                    f"The pipeline failed on all {len(broken)} documents of a chunk, on the "
                    f"document {broken[0].id} with {broken[0].reason}, so the fault is in the "
                    "pipeline. Chunks that are finished are kept."
                )
            entities = sum(1 for doc in docs for _ in entities_of(doc, self.keys))
            self.rows.mkdir(exist_ok=True)
            path = self.rows / f"{chunk_name(chunk.number)}.{self.format.value}"
            self.writer.write(path, docs, self.keys, self.origin, self.with_text)
        counts = {"documents": len(chunk.documents), "entities": entities}
        self.shards.finish(chunk.number, {**counts, "failed": failures})
        return len(chunk.documents)

    def _annotate(self, documents: Sequence[Document], failures: list[Failure]) -> Iterator[Doc]:
        """Yield the annotated documents, and add those that fail to `failures`."""
        sound = []
        for document in documents:
            if LONE_SURROGATE.search(document.text):
                failures.append(Failure(document.id, "text is not valid Unicode"))
            elif len(document.text) > self.nlp.max_length:
                limit = f"text is longer than {self.nlp.max_length:,} characters"
                failures.append(Failure(document.id, limit))
            else:
                sound.append(document)
        yield from self._run(sound, failures)

    def _run(self, documents: list[Document], failures: list[Failure]) -> list[Doc]:
        """Return the annotated documents. If one fails, each half is tried on its own."""
        try:
            return list(annotate_texts(self.nlp, documents))
        except Exception as err:
            if len(documents) == 1:
                failures.append(Failure(documents[0].id, type(err).__name__))
                return []
        middle = len(documents) // 2
        first = self._run(documents[:middle], failures)
        return first + self._run(documents[middle:], failures)


def annotate_texts(nlp: Language, documents: Sequence[Document]) -> Iterator[Doc]:
    """Yield annotated documents with their ids."""
    docs: Any = nlp.pipe(document.text for document in documents)
    for document, doc in zip(documents, docs, strict=True):
        doc.user_data["id"] = document.id
        yield doc
