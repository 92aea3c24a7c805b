"""Annotator that matches regular expressions, for expressions that are specific to a hospital."""

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from spacy.tokens import Doc

from ...util.lines import read_lines
from ..concepts import Concept


class TypedPattern(NamedTuple):
    """A pattern with the semantic type and the concept of its matches."""

    pattern: re.Pattern
    semantic_type: str
    concept: str


class RegexAnnotator:
    r"""`spacy_mslm.regex.v1`: the matches of regular expressions.

    Each line of the file has a semantic type, a pattern and, optionally, the id of a concept,
    separated by tabs. Lines that begin with # are comments:

        T121<tab>\b\d+ mg (\w+cillin)\b<tab>C0030842

    The mention is the first group, or the whole match if the pattern has no group. Patterns are
    case-sensitive unless they begin with (?i).

    path: The file; None for no patterns.
    """

    def __init__(self, path: str | None) -> None:
        self.path = path

    @cached_property
    def patterns(self) -> list[TypedPattern]:
        """The patterns of the file."""
        return list(_read_patterns(Path(self.path))) if self.path else []

    def load(self) -> None:
        """Read the file."""
        _ = self.patterns

    def __call__(self, docs: Sequence[Doc]) -> Iterable[list[Concept]]:
        """Yield the concepts of each document."""
        for doc in docs:
            yield [
                Concept(*match.span(min(pattern.groups, 1)), concept, semantic_type)
                for pattern, semantic_type, concept in self.patterns
                for match in pattern.finditer(doc.text)
                if match.start(min(pattern.groups, 1)) < match.end(min(pattern.groups, 1))
            ]


def _read_patterns(path: Path) -> Iterable[TypedPattern]:
    for number, line in read_lines(path):
        if not line.strip() or line.startswith("#"):
            continue
        semantic_type, *rest = line.split("\t")
        if not rest or len(rest) > 2 or not semantic_type.strip():
            raise ValueError(
                f"{path}, line {number}: a semantic type, a tab and a pattern are expected, "
                "and optionally another tab and the id of a concept."
            )
        try:
            pattern = re.compile(rest[0])
        except re.error as err:
            raise ValueError(
                f"{path}, line {number}: the pattern is not a regular expression: {err}."
            ) from None
        yield TypedPattern(pattern, semantic_type.strip(), rest[1].strip() if len(rest) > 1 else "")
