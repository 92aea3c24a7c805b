"""Compare the figures of a converted corpus with Table 9 of the paper.

`data/table9.json` has the figures of the paper as they are printed.
"""

import json
from importlib.resources import files
from typing import Any, NamedTuple

# The decimals that the paper prints: means must agree to these.
DECIMALS = {"sentence_length": 2, "mentions_per_sentence": 2, "mention_length": 1}


class ComparedFigure(NamedTuple):
    """A figure of a corpus and that of the paper, or None if there is none."""

    name: str
    ours: float | None
    paper: float | None

    @property
    def differs(self) -> bool:
        return None not in (self.ours, self.paper) and self.ours != self.paper

    def show(self, value: float | None) -> str:
        """Format one of the two figures for a table."""
        return "-" if value is None else f"{value:,.{DECIMALS.get(self.name, 0)}f}"


def read_paper(set_name: str) -> dict[str, Any]:
    """Read the paper's figures of a corpus.

    Returns:
        The figures, `comparable` (whether ours can be compared with them) and `notes`. Empty if
        the paper does not have the corpus.
    """
    table = json.loads((files("spacy_mslm") / "data/table9.json").read_text("utf8"))
    found: dict[str, Any] = table["sets"].get(set_name, {})
    return {**found, "notes": [table["note"], *found.get("notes", [])]} if found else {}


def compare(figures: dict[str, Any], paper: dict[str, Any]) -> list[ComparedFigure]:
    """Pair our figures (`corpus.counts.make_figures`) with the paper's, at its decimals."""
    rows = []
    for name, value in figures.items():
        if isinstance(value, dict):
            theirs = paper.get(name, {})
            rows += [
                ComparedFigure(f"{name}, {split}", n, theirs.get(split))
                for split, n in value.items()
            ]
        else:
            ours = round(value, DECIMALS[name]) if value and name in DECIMALS else value
            rows.append(ComparedFigure(name, ours, paper.get(name)))
    return rows
