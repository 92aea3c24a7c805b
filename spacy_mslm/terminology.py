"""A terminology's names, found in text: weak labels where nobody has annotated.

A table is a TSV file with a header; its columns `term` and `semantic_type` are read:

    term                 id             source  semantic_type
    Abdominal Injuries   MESH:D000007   mesh    disease
"""

import csv
import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from spacy.language import Language
from spacy.matcher import PhraseMatcher
from spacy.tokens import Doc, Span
from spacy.util import filter_spans

from .errors import Errors, Warnings

logger = logging.getLogger("spacy_mslm")

# Names with fewer letters and digits, and short ones of capitals, mean too much else: the former
# are not looked for, the latter only as they are written.
MIN_CHARS = 3
ACRONYM_CHARS = 6


class Term(NamedTuple):
    name: str
    label: str


class Terminology:
    """Finds the names of a terminology in documents, whatever their case (acronyms: as written);
    of names that overlap, the longest.

    nlp: gives the tokenizer; documents must come from it.
    """

    def __init__(self, nlp: Language, paths: Sequence[Path]) -> None:
        names: dict[tuple[str, str], list[str]] = defaultdict(list)
        for path in paths:
            for term in read_terms(path):
                if _is_telling(term.name, nlp):
                    attribute = "ORTH" if _is_acronym(term.name) else "LOWER"
                    names[attribute, term.label].append(term.name)
        self._matchers = {a: PhraseMatcher(nlp.vocab, attr=a) for a in ("LOWER", "ORTH")}
        for (attribute, label), terms in names.items():
            self._matchers[attribute].add(label, [nlp.make_doc(term) for term in terms])

    def __call__(self, doc: Doc) -> list[Span]:
        found = [span for m in self._matchers.values() for span in m(doc, as_spans=True)]
        return filter_spans(found)


def read_terms(path: Path) -> Iterator[Term]:
    """The names of a table, in its order."""
    if not path.is_file():
        raise ValueError(Errors.M106.format(path=path))
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        try:
            header = next(reader, [])
            missing = [name for name in ("term", "semantic_type") if name not in header]
            if missing:
                raise ValueError(Errors.M150.format(path=path, columns=", ".join(missing)))
            name_at, label_at = header.index("term"), header.index("semantic_type")
            broken = []
            for row in reader:
                if len(row) == len(header):
                    yield Term(row[name_at].strip(), row[label_at].strip())
                else:
                    broken.append(reader.line_num)
            if broken:
                lines = ", ".join(map(str, broken[:10]))
                logger.warning(Warnings.W150.format(path=path, n=len(broken), lines=lines))
        except UnicodeDecodeError:
            raise ValueError(Errors.M109.format(path=path, line=reader.line_num + 1)) from None


def _is_telling(name: str, nlp: Language) -> bool:
    characters = [c for c in name if c.isalnum()]
    return (
        len(characters) >= MIN_CHARS
        and any(c.isalpha() for c in characters)
        and name.lower() not in nlp.Defaults.stop_words
    )


def _is_acronym(name: str) -> bool:
    return len(name) <= ACRONYM_CHARS and sum(c.isupper() for c in name) > 1
