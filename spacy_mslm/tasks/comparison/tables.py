"""Read the scores of several models, and make tables of them.

metrics/<set>/<model>.json    written by `spacy evaluate --output` or `spacy mslm evaluate`
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np

from ...scoring.bootstrap import f1_difference, paired_bootstrap
from ...util import markdown

# Column, key of the score, and whether it is a share, which is shown in percent.
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
    "P, EM and F1 are strict (boundaries and type), in percent. EM is recall. A mention is seen if "
    "the training set has a mention with the same text.",
    "ECE is the expected calibration error of the confidences, in percent. Perplexity is that of "
    "masked mentions.",
    "Clean text is the text as it is. Under the masked protocol gold mentions are replaced by "
    "[MASK] before tagging. Scores of the two protocols cannot be compared.",
    "Differences of F1 are in points, with the 95 % interval of a paired bootstrap over documents. "
    "Where it contains 0, the difference may be chance. It does not cover other seeds: train each "
    "model several times before you call one better.",
)


class Result(NamedTuple):
    """The scores of one model on one set.

    protocol: `clean` or `masked`.
    scores: By the keys of spaCy. Shares are from 0 to 1.
    """

    set: str
    model: str
    protocol: str
    scores: dict[str, Any]

    @property
    def attr(self) -> str:
        """The prefix of spaCy's keys: `ents`, or `spans_` and the key of a span group."""
        found = (key for key in self.scores if PER_TYPE.fullmatch(key))
        return next(found, "ents_per_type").removesuffix("_per_type")

    def value(self, key: str) -> float | None:
        value = self.scores.get(key.format(attr=self.attr))
        return None if value is None else float(value)


class Table(NamedTuple):
    """A table. The first cell of each row names the row."""

    title: str
    header: list[str]
    rows: list[list[str]]


def read_results(folder: Path, baseline: str) -> list[Result]:
    """Read all results below a folder, sorted by set and model, with the baseline first."""
    results = []
    for path in sorted(folder.glob("*/*.json")):
        try:
            data = json.loads(path.read_text(encoding="utf8"))
            scores = data.get("scores", data)
            if not any(map(PER_TYPE.fullmatch, scores)):
                raise ValueError
        except (ValueError, AttributeError, RecursionError):
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
    """Group results that can be compared: those on the same set by the same protocol."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(f"{result.set}, {result.protocol} text", []).append(result)
    return groups


def make_tables(results: Sequence[Result], baseline: str) -> list[Table]:
    """Make tables for each set and protocol.

    One has the scores, with the difference of F1 to the baseline; one has F1 by type, if there are
    several types.
    """
    tables = []
    for title, own in by_heading(results).items():
        tables.append(_scores_table(title, own, baseline))
        types = sorted({t for r in own for t in r.scores.get(f"{r.attr}_per_type") or ()})
        if len(types) > 1:
            tables.append(_types_table(f"{title}: F1 by type", own, types))
    return tables


def _scores_table(title: str, results: Sequence[Result], baseline: str) -> Table:
    used = [c for c in COLUMNS if any(r.value(c[1]) is not None for r in results)]
    header = ["model", *(name for name, _, _ in used)]
    rows = [[r.model, *(show(r.value(key), share) for _, key, share in used)] for r in results]
    reference = next((r for r in results if r.model == baseline), None)
    if reference is not None and len(results) > 1:
        header.append(f"F1 to {baseline}")
        for row, result in zip(rows, results, strict=True):
            row.append("" if result is reference else _difference(reference, result))
    return Table(title, header, rows)


def _difference(reference: Result, result: Result) -> str:
    """Return the difference of F1, with its interval if both have counts of the same documents."""
    old, new = (r.value("{attr}_f") for r in (reference, result))
    if old is None or new is None:
        return ""
    counts = [np.array(r.scores.get("mslm_documents") or ()) for r in (reference, result)]
    if not counts[0].size or counts[0].shape != counts[1].shape:
        return f"{100 * (new - old):+.1f}"
    if (counts[0][:, 0] != counts[1][:, 0]).any():
        return f"{100 * (new - old):+.1f}"
    (found,) = paired_bootstrap([np.array(counts)[:, None]], f1_difference)
    return f"{found}{', may be chance' if found.may_be_chance else ''}"


def _types_table(title: str, results: Sequence[Result], types: Sequence[str]) -> Table:
    """Types are rows, as there may be more of them than fit the width of a page."""
    scores = [result.scores.get(f"{result.attr}_per_type") or {} for result in results]
    rows = [[t, *(show(per_type.get(t, {}).get("f"), True) for per_type in scores)] for t in types]
    return Table(title, ["type", *(result.model for result in results)], rows)


def show(value: float | None, share: bool) -> str:
    """Format a score: shares in percent, other values as integers."""
    if value is None:
        return NOTHING
    return f"{100 * value:.1f}" if share else f"{value:,.0f}"


def render_markdown(title: str, tables: Sequence[Table], pictures: dict[str, str]) -> str:
    """Render the report.

    Args:
        title: The title of the report.
        tables: Its tables.
        pictures: File names by the title of the table that they follow.
    """
    lines = [f"# {markdown.escape(title)}", ""]
    for table in tables:
        heading = markdown.escape(table.title)
        lines += [f"## {heading}", "", *markdown.table([table.header, *table.rows]), ""]
        if table.title in pictures:
            lines += [f"![{heading}]({quote(pictures[table.title])})", ""]
    return "\n".join([*lines, "\n\n".join(LEGEND)]) + "\n"
