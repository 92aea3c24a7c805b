"""Scores of several models -> a comparison: what is read, and the tables of it.

metrics/<set>/<model>.json      as `spacy evaluate --output` and `spacy mslm evaluate` write them
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

# Column, key of the score, and whether it is a share (shown in percent).
COLUMNS = (
    ("P", "{attr}_p", True),
    ("EM", "{attr}_r", True),
    ("F1", "{attr}_f", True),
    ("EM seen", "mslm_em_seen", True),
    ("EM unseen", "mslm_em_unseen", True),
    ("ECE", "mslm_ece", True),
    ("perplexity ELM", "mslm_ppl_elm", False),
    ("words/s", "speed", False),
)
PER_TYPE = re.compile("(ents|spans_.+)_per_type")
NOTHING = "–"
LEGEND = (
    "P, EM, F1: strict, boundaries and type, in percent. EM is recall; mentions are seen if their "
    "text is a mention of the training set, too.",
    "ECE: expected calibration error of the confidences, in percent. Perplexity: of masked "
    "mentions.",
    "Clean text is text as it is. Under the masked protocol gold mentions are replaced by [MASK] "
    "before tagging: the two do not compare.",
)


class Result(NamedTuple):
    """One model's scores on one set.

    protocol: `clean` or `masked` text. scores: shares from 0 to 1, and others.
    """

    set: str
    model: str
    protocol: str
    scores: dict[str, Any]

    @property
    def attr(self) -> str:
        """What spaCy's keys begin with: `ents`, or `spans_` and a key."""
        found = (key for key in self.scores if PER_TYPE.fullmatch(key))
        return next(found, "ents_per_type").removesuffix("_per_type")

    def value(self, key: str) -> float | None:
        value = self.scores.get(key.format(attr=self.attr))
        return None if value is None else float(value)


class Table(NamedTuple):
    """rows: the first cell names the row."""

    title: str
    header: list[str]
    rows: list[list[str]]


def read_results(folder: Path, baseline: str) -> list[Result]:
    """All results below a folder, by set and then by model, the baseline first."""
    results = []
    for path in sorted(folder.glob("*/*.json")):
        try:
            data = json.loads(path.read_text(encoding="utf8"))
            scores = data.get("scores", data)
            if not any(map(PER_TYPE.fullmatch, scores)):
                raise ValueError
        except (ValueError, AttributeError):
            raise ValueError(
                f"{path} is not the result of an evaluation. Write it with `python -m spacy "
                "evaluate MODEL DATA --output FILE`, or `python -m spacy mslm evaluate`."
            ) from None
        protocol = data.get("protocol", "clean")
        results.append(Result(path.parent.name, path.stem, protocol, scores))
    if not results:
        raise ValueError(
            f"{folder} holds no results. They are expected as SET/MODEL.json below it."
        )
    return sorted(results, key=lambda r: (r.set, r.protocol, r.model != baseline, r.model))


def by_heading(results: Sequence[Result]) -> dict[str, list[Result]]:
    """What can be compared: results on one set by one protocol."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(f"{result.set}, {result.protocol} text", []).append(result)
    return groups


def make_tables(results: Sequence[Result], baseline: str) -> list[Table]:
    """For each set and protocol: the scores, with the F1 difference to the baseline where there is
    one, and F1 by type where there are several."""
    tables = []
    for title, own in by_heading(results).items():
        tables.append(_scores_table(title, own, baseline))
        types = sorted({t for r in own for t in r.scores.get(f"{r.attr}_per_type") or ()})
        if len(types) > 1:
            tables.append(_types_table(f"{title}: F1 by type", own, types))
    return tables


def _scores_table(title: str, results: Sequence[Result], baseline: str) -> Table:
    used = [c for c in COLUMNS if any(r.value(c[1]) is not None for r in results)]
    reference = next((r.value("{attr}_f") for r in results if r.model == baseline), None)
    header = ["model", *(name for name, _, _ in used)]
    rows = [[r.model, *(show(r.value(key), share) for _, key, share in used)] for r in results]
    if reference is not None and len(results) > 1:
        header.append(f"F1 to {baseline}")
        for row, result in zip(rows, results, strict=True):
            f = result.value("{attr}_f")
            if f is None or result.model == baseline:
                row.append("")
            else:
                row.append(f"{100 * (f - reference):+.1f}")
    return Table(title, header, rows)


def _types_table(title: str, results: Sequence[Result], types: Sequence[str]) -> Table:
    rows = []
    for result in results:
        per_type = result.scores.get(f"{result.attr}_per_type") or {}
        rows.append([result.model, *(show(per_type.get(t, {}).get("f"), True) for t in types)])
    return Table(title, ["model", *types], rows)


def show(value: float | None, share: bool) -> str:
    if value is None:
        return NOTHING
    return f"{100 * value:.1f}" if share else f"{value:,.0f}"


def render_markdown(title: str, tables: Sequence[Table], pictures: dict[str, str]) -> str:
    """pictures: file names by the title of the table that they follow."""
    lines = [f"# {title}", ""]
    for table in tables:
        lines += [f"## {table.title}", "", _line(table.header)]
        lines.append(_line(["---", *["---:"] * (len(table.header) - 1)]))
        lines += [*map(_line, table.rows), ""]
        if table.title in pictures:
            lines += [f"![{table.title}]({quote(pictures[table.title])})", ""]
    return "\n".join([*lines, "\n\n".join(LEGEND)]) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
