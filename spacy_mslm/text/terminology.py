"""Dictionary lookup: finds the names of a terminology in text.

A terminology is a table with a header, separated by tabs or commas. Its columns `term` and
`semantic_type` are read, and `id` if there is one:

    term                 id             source  semantic_type
    Abdominal Injuries   MESH:D000007   mesh    disease

A folder with MRCONSO.RRF and MRSTY.RRF is read as a UMLS release, see `umls`.
"""

import csv
import json
import logging
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from spacy.tokens import Doc, Span

from ..errors import Errors, listing
from ..util.lines import read_lines
from ..util.spans import drop_overlapping, longest_first
from .umls import Term, is_umls, read_umls

logger = logging.getLogger("spacy_mslm")

# Names with fewer letters and digits are too ambiguous, and are skipped. Short names with several
# capitals (acronyms) match only as they are written.
MIN_CHARS = 3
ACRONYM_CHARS = 6
# A word of a name; or punctuation, except hyphens and apostrophes, which are optional; or the end
# of a paragraph, which no name contains.
_WORD = re.compile(r"[^\W_]+|[^\w\s'’‐-]|\n[ \t\r]*\n")
_POSSESSIVE = re.compile(r"['’]s\b")


class TermMatch(NamedTuple):
    """A name at characters `start:end` of a text."""

    start: int
    end: int
    concept: str
    semantic_type: str


class Terminology:
    """Finds the names of a terminology in text.

    Case, number ("abscesses"), hyphens and possessives are ignored, except for acronyms. Of names
    that overlap the longest is taken; of concepts that share a name, the one that is read first.

    paths: Tables, or folders with a UMLS release.
    stop_words: Names to skip, in lower case.
    types: Read only names of these semantic types, in lower case; None for all.
    min_chars: The smallest number of letters and digits of a name.
    common: Keys (`term_key`) of names to skip unless they are acronyms ("PAD").
    blocked: Keys of names to skip, acronyms too.
    group_of: Returns the group of a semantic type. Names with types of several groups are skipped.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        stop_words: Collection[str] = (),
        types: Collection[str] | None = None,
        *,
        min_chars: int = MIN_CHARS,
        common: Collection[str] = (),
        blocked: Collection[str] = (),
        group_of: Callable[[str], str | None] | None = None,
    ) -> None:
        # Key of a name -> number of its concept. A key is the words, joined by spaces.
        self._names: dict[str, int] = {}
        self._acronyms: dict[str, int] = {}
        self._concepts: list[tuple[str, str]] = []
        # First word of keys -> bit set of the numbers of words that these keys have.
        self._sizes: dict[str, int] = {}
        numbers: dict[tuple[str, str], int] = {}
        groups: dict[str, str | None] = {}
        ambiguous: set[str] = set()
        for path in paths:
            for term in read_terms(path):
                name, type_ = term.name, term.semantic_type
                if types is not None and type_.lower() not in types:
                    continue
                if not _is_specific(name, stop_words, min_chars):
                    continue
                key = term_key(name) if common or blocked or group_of else ""
                if key in blocked or (key in common and not _is_acronym(name)):
                    continue
                if group_of is not None:
                    group = group_of(type_)
                    if groups.setdefault(key, group) != group:
                        ambiguous.add(key)
                self._add(name, numbers.setdefault((term.concept, type_), len(numbers)))
        for key in ambiguous:
            self._names.pop(key, None)
        if ambiguous:
            kept = self._acronyms.items()
            self._acronyms = {key: n for key, n in kept if term_key(key) not in ambiguous}
        self._concepts = list(numbers)

    def __len__(self) -> int:
        """Return the number of different names."""
        return len(self._names) + len(self._acronyms)

    def _add(self, name: str, concept: int) -> None:
        words = [match[0] for match in _words(name)]
        if not words:
            return
        if not _is_acronym(name):
            words = [canonical(word) for word in words]
            self._names.setdefault(" ".join(words), concept)
        else:
            self._acronyms.setdefault(" ".join(words), concept)
        self._sizes[words[0]] = self._sizes.get(words[0], 0) | 1 << len(words)

    def find(self, text: str) -> list[TermMatch]:
        """Return the names in a text, without overlaps, in the order of the text."""
        matches = list(_words(text))
        written = [match[0] for match in matches]
        words = [canonical(word) for word in written]
        found: list[tuple[int, int, int]] = []
        for start in range(len(words)):
            sizes = self._sizes.get(words[start], 0) | self._sizes.get(written[start], 0)
            while sizes:
                size = sizes.bit_length() - 1
                sizes ^= 1 << size
                end = start + size
                if end > len(words):
                    continue
                number = self._names.get(" ".join(words[start:end]))
                if number is None:
                    number = self._acronyms.get(" ".join(written[start:end]))
                if number is not None:
                    found.append((start, end, number))
                    break
        return [
            TermMatch(matches[start].start(), matches[end - 1].end(), *self._concepts[number])
            for start, end, number in drop_overlapping(sorted(found, key=longest_first))
        ]

    def __call__(self, doc: Doc) -> list[Span]:
        """Return the names that are whole tokens of a Doc, labelled with their semantic type."""
        spans = (
            doc.char_span(found.start, found.end, label=found.semantic_type, kb_id=found.concept)
            for found in self.find(doc.text)
        )
        return [span for span in spans if span is not None]


def _words(text: str) -> Iterator[re.Match]:
    """Match the words of a text, without the s of possessives: Crohn's disease is Crohn disease."""
    skipped = {match.start() + 1 for match in _POSSESSIVE.finditer(text)}
    return (match for match in _WORD.finditer(text) if match.start() not in skipped)


def term_key(name: str) -> str:
    """Return what names have in common that differ in case, number, hyphens or possessives."""
    return " ".join(canonical(match[0]) for match in _words(name))


@lru_cache(maxsize=1)
def common_words() -> frozenset[str]:
    """Return the keys of common English words, which terminologies have as names: "skin", "date".
    The list is our own; it has no words that are findings or treatments in their own right."""
    words = json.loads((files("spacy_mslm") / "data/common_words.json").read_text("utf8"))
    return frozenset(map(term_key, words))


def read_blocklist(path: Path) -> frozenset[str]:
    """Return the keys of the names in a file: one in each line, `#` begins a comment."""
    names = (line.partition("#")[0].strip() for _, line in read_lines(path))
    return frozenset(term_key(name) for name in names if name)


@lru_cache(maxsize=1 << 16)
def canonical(word: str) -> str:
    """Map the singular and plural of a word to one form, with English, Greek and Latin endings. It
    need not be a word: both "disease" and "diseases" become "diseas"."""
    word = word.lower()
    if len(word) < 4 or not word.isalpha():
        return word
    for plural, singular in (("itides", "itis"), ("omata", "oma"), ("ies", "y")):
        if word.endswith(plural):
            return word.removesuffix(plural) + singular
    if word.endswith(("sses", "xes", "ches", "shes")):
        return word[:-2]
    for ending in ("ses", "sis", "se"):
        if word.endswith(ending):
            return word[: -len(ending)] + "s"
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def read_terms(path: Path) -> Iterator[Term]:
    """Yield the names of a table, or of a folder with a UMLS release, in their order."""
    if is_umls(path):
        return read_umls(path)
    if not path.is_file():
        raise ValueError(Errors.M106.format(path=path))
    return _read_table(path)


def _read_table(path: Path) -> Iterator[Term]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        line = 0
        try:
            header = file.readline()
            line = 1
            comma = "\t" not in header
            columns = next(csv.reader([header], delimiter="," if comma else "\t"), [])
            missing = [name for name in ("term", "semantic_type") if name not in columns]
            if missing:
                raise ValueError(
                    f"{path}: the header has no column {', '.join(missing)}. A terminology is a "
                    "table, separated by tabs or commas, with the columns term and semantic_type."
                )
            name_at, type_at = columns.index("term"), columns.index("semantic_type")
            id_at = columns.index("id") if "id" in columns else None
            # In tables with tabs, quotes are part of the text: names have them as prime signs.
            reader = (
                csv.reader(file)
                if comma
                else csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
            )
            broken = []
            for row in reader:
                line = reader.line_num + 1
                if len(row) == len(columns):
                    concept = row[id_at].strip() if id_at is not None else ""
                    yield Term(row[name_at].strip(), concept, row[type_at].strip())
                elif row:
                    broken.append(line)
            if broken:
                logger.warning(
                    f"{path}: {len(broken)} lines do not have the columns of the header and "
                    f"are left out: {listing(broken)}."
                )
        except UnicodeDecodeError:
            raise ValueError(Errors.M109.format(path=path, line=line + 1)) from None


def _is_specific(name: str, stop_words: Collection[str], min_chars: int) -> bool:
    characters = [c for c in name if c.isalnum()]
    return (
        len(characters) >= min_chars
        and any(c.isalpha() for c in characters)
        and name.lower() not in stop_words
    )


def _is_acronym(name: str) -> bool:
    return len(name) <= ACRONYM_CHARS and sum(c.isupper() for c in name) > 1
