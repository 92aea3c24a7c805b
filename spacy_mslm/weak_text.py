"""Unlabelled text -> sentences whose domain terms are labelled by a terminology."""

import gzip
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.vocab import Vocab

from .errors import Errors
from .readers import Reader, select
from .sentences import sentence_starts
from .terminology import Terminology


def make_term_corpus(
    text: str | Sequence[str] | None,
    terms: str | Sequence[str] | None,
    limit: int = 0,
    seed: int | None = 0,
) -> Reader | None:
    """`spacy_mslm.TermCorpus.v1`: sentences of plain text in which a terminology finds a term, with
    those as entities. None when there is no text.

    text: files of plain text, a sentence, passage or document a line (`.gz` too).
    terms: tables of terms, see `terminology`.
    limit: only the first so many lines; 0 for all.
    seed: shuffle the lines, always in the same order, before the limit; null for file order. The
        lines are held in memory, their analysis is not.
    """
    if text is None:
        return None
    if terms is None:
        raise ValueError(Errors.M151)
    texts, tables = _paths(text), _paths(terms)
    terminologies: dict[Vocab, Terminology] = {}  # a corpus is read more than once

    def read(nlp: Language) -> Iterator[Example]:
        if nlp.vocab not in terminologies:
            terminologies[nlp.vocab] = Terminology(nlp, tables)
        terminology = terminologies[nlp.vocab]
        lines = (line for path in texts for line in _read_lines(path))
        for name, line in select(lines, limit, seed):
            for doc in _split(nlp.make_doc(line)):
                spans = terminology(doc)
                if spans:
                    reference = doc.copy()
                    ents = [Span(reference, s.start, s.end, label=s.label_) for s in spans]
                    reference.set_ents(ents, default="outside")
                    doc.user_data["id"] = reference.user_data["id"] = name
                    yield Example(doc, reference)

    return read


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
    """A document for each sentence."""
    starts = [*sentence_starts(doc).tolist(), len(doc)]
    for start, end in pairwise(starts):
        yield doc[start:end].as_doc()
