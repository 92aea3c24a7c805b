"""Text that nobody has annotated -> sentences with weak labels, of a terminology or a pipeline."""

import gzip
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.vocab import Vocab

from .errors import Errors
from .readers import Reader, read_gold, select
from .sentences import sentence_starts
from .terminology import Terminology


def make_weak_corpus(
    text: str | Sequence[str] | None,
    terms: str | Sequence[str] | None = None,
    limit: int = 0,
    seed: int | None = 0,
) -> Reader | None:
    """`spacy_mslm.WeakCorpus.v1`: the sentences of a text that have entities in them. None when
    there is no text.

    text: files. `.spacy` (or a folder of them): documents with the entities that a pipeline, or
        anything else, has found in them (`spacy apply` writes such). Others: plain text, a
        sentence, passage or document a line (`.gz` too), in which `terms` are the entities.
    terms: tables of terms, see `terminology`; for plain text.
    limit: only the first so many documents; 0 for all.
    seed: shuffle the documents, always in the same order, before the limit; null for file order.
        They are held in memory, plain text without its analysis.
    """
    if text is None:
        return None
    paths = _paths(text)
    plain = [path for path in paths if not (path.is_dir() or path.suffix == ".spacy")]
    if plain and terms is None:
        raise ValueError(Errors.M151)
    terminologies: dict[Vocab, Terminology] = {}  # a corpus is read more than once

    def find_terms(nlp: Language) -> Terminology:
        if nlp.vocab not in terminologies:
            terminologies[nlp.vocab] = Terminology(nlp, _paths(terms or []))
        return terminologies[nlp.vocab]

    def read(nlp: Language) -> Iterator[Example]:
        if plain:
            lines = (line for path in plain for line in _read_lines(path))
            for name, line in select(lines, limit, seed):
                for doc in _split(nlp.make_doc(line)):
                    doc.set_ents(find_terms(nlp)(doc), default="outside")
                    yield from _examples(doc, name)
        docs = (doc for path in paths if path not in plain for doc in read_gold(path, nlp.vocab))
        for doc in select(docs, limit, seed):
            for sentence in _split(doc):
                yield from _examples(sentence, doc.user_data["id"])

    return read


def _examples(reference: Doc, name: str) -> Iterator[Example]:
    if reference.ents:
        predicted = reference.copy()
        predicted.set_ents([], default="missing")
        reference.user_data["id"] = predicted.user_data["id"] = name
        yield Example(predicted, reference)


def _paths(paths: str | Sequence[str]) -> list[Path]:
    return [Path(path) for path in ([paths] if isinstance(paths, str) else paths)]


def _read_lines(path: Path) -> Iterator[tuple[str, str]]:
    """The lines that hold text, each with its name: file and number."""
    if not path.is_file():
        raise ValueError(Errors.M106.format(path=path))
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            try:
                line = raw.decode("utf-8-sig").strip()
            except UnicodeDecodeError:
                raise ValueError(Errors.M109.format(path=path, line=number)) from None
            if line:
                yield f"{path.name}:{number}", line


def _split(doc: Doc) -> Iterator[Doc]:
    """A document for each sentence; none is cut within an entity."""
    inside = {token.i for ent in doc.ents for token in ent[1:]}
    starts = [start for start in sentence_starts(doc).tolist() if start not in inside]
    for start, end in pairwise([*starts, len(doc)]):
        yield doc[start:end].as_doc()
