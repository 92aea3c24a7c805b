"""Concepts that patterns describe: what is particular to a hospital."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from spacy.tokens import Doc

from ...util.lines import read_lines
from ..concepts import Concept


class Pattern(NamedTuple):
    pattern: re.Pattern
    semantic_type: str
    concept: str


class RegexAnnotator:
    r"""`spacy_mslm.regex.v1`.

    path: a file with a pattern a line, behind its semantic type and a tab, and with a tab and the
        concept's id after it if it has one; lines that begin with # are comments:

            T121<tab>\b\d+ mg (\w+cillin)\b<tab>C0030842

        A group, if there is one, is the mention; else it is all that matches. Case counts unless
        the pattern says (?i). None: there are no patterns.
    """

    def __init__(self, path: str | None) -> None:
        self.patterns = list(_read(Path(path))) if path else []

    def __call__(self, docs: Sequence[Doc]) -> Iterable[list[Concept]]:
        for doc in docs:
            yield [
                Concept(*match.span(min(pattern.groups, 1)), concept, semantic_type)
                for pattern, semantic_type, concept in self.patterns
                for match in pattern.finditer(doc.text)
                if match.start(min(pattern.groups, 1)) < match.end(min(pattern.groups, 1))
            ]


def _read(path: Path) -> Iterable[Pattern]:
    for number, line in read_lines(path):
        if not line.strip() or line.startswith("#"):
            continue
        semantic_type, *rest = line.split("\t")
        if not rest or len(rest) > 2 or not semantic_type.strip():
            raise ValueError(
                f"{path}, line {number}: a semantic type, a tab and a pattern are expected, "
                "and perhaps another tab and the id of a concept."
            )
        try:
            pattern = re.compile(rest[0])
        except re.error as err:
            raise ValueError(
                f"{path}, line {number}: the pattern is not a regular expression: {err}."
            ) from None
        yield Pattern(pattern, semantic_type.strip(), rest[1].strip() if len(rest) > 1 else "")
