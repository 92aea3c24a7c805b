"""Counts of an entity corpus, as in the paper's Table 9, and how they compare with it.

The paper's figures are data: `data/table9.json` has them as they are printed.
"""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import pairwise
from typing import Any, NamedTuple

from spacy.tokens import Doc

from ..text.sentences import sentence_starts

# The decimals with which the paper prints a mean: to these ours must agree.
DECIMALS = {"sentence_length": 2, "mentions_per_sentence": 2, "mention_length": 1}


@dataclass
class Counts:
    """Counts of a split; white space is no token here."""

    docs: int = 0
    sentences: int = 0
    tokens: int = 0
    mention_tokens: int = 0
    labels: Counter[str] = field(default_factory=Counter)

    @property
    def mentions(self) -> int:
        return self.labels.total()


class Row(NamedTuple):
    """A figure beside the paper's; None where there is none."""

    name: str
    ours: float | None
    paper: float | None

    @property
    def differs(self) -> bool:
        return None not in (self.ours, self.paper) and self.ours != self.paper

    def show(self, value: float | None) -> str:
        """One of the two, for a table."""
        return "-" if value is None else f"{value:,.{DECIMALS.get(self.name, 0)}f}"


def count_docs(docs: Iterable[Doc]) -> Counts:
    """The counts of a split."""
    counts = Counts()
    for doc in docs:
        counts.docs += 1
        for start, end in pairwise([*sentence_starts(doc).tolist(), len(doc)]):
            words = sum(not token.is_space for token in doc[start:end])
            counts.sentences += words > 0
            counts.tokens += words
        counts.mention_tokens += sum(not token.is_space for ent in doc.ents for token in ent)
        counts.labels.update(ent.label_ for ent in doc.ents)
    return counts


def make_figures(counts: dict[str, Counts]) -> dict[str, Any]:
    """The columns of Table 9: mean lengths are over all splits, mentions per sentence of train."""
    sentences = sum(c.sentences for c in counts.values())
    mentions = sum(c.mentions for c in counts.values())
    train = counts.get("train", Counts())
    return {
        "sentences": {name: c.sentences for name, c in counts.items()},
        "classes": len({label for c in counts.values() for label in c.labels}),
        "sentence_length": _mean(sum(c.tokens for c in counts.values()), sentences),
        "mentions": {name: c.mentions for name, c in counts.items()},
        "mentions_per_sentence": _mean(train.mentions, train.sentences),
        "mention_length": _mean(sum(c.mention_tokens for c in counts.values()), mentions),
    }


def read_paper(set_name: str) -> dict[str, Any]:
    """What the paper says of a set: its figures, under `comparable` whether ours can be compared
    at all, and `notes`; empty for a set that it does not have."""
    table = json.loads((files("spacy_mslm") / "data/table9.json").read_text("utf8"))
    found: dict[str, Any] = table["sets"].get(set_name, {})
    return {**found, "notes": [table["note"], *found.get("notes", [])]} if found else {}


def compare(figures: dict[str, Any], paper: dict[str, Any]) -> list[Row]:
    """Our figures beside the paper's, at its decimals."""
    rows = []
    for name, value in figures.items():
        if isinstance(value, dict):
            theirs = paper.get(name, {})
            rows += [Row(f"{name}, {split}", n, theirs.get(split)) for split, n in value.items()]
        else:
            ours = round(value, DECIMALS[name]) if value and name in DECIMALS else value
            rows.append(Row(name, ours, paper.get(name)))
    return rows


def _mean(total: int, count: int) -> float | None:
    return total / count if count else None
