"""Read the scores of several models, and make tables of them.

metrics/<set>/<model>.json           written by `spacy evaluate --output` or `spacy mslm evaluate`
metrics/<set>/<model>/<seed>.json    the same for several trainings of a model
results.jsonl                        the trials of `spacy mslm sweep`
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np

from ...scoring.seeds import EM, F1, compare_models, pair_seeds, spread
from ...util import markdown
from ..rows import Row, read_file

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
    "the training set has a mention with the same text. With several seeds, scores are means ± the "
    "standard deviation.",
    "ECE is the expected calibration error of the confidences, in percent. Perplexity is that of "
    "masked mentions.",
    "Clean text is the text as it is. Under the masked protocol gold mentions are replaced by "
    "[MASK] before tagging. Scores of the two protocols cannot be compared.",
    "Differences are in points, with the 95 % interval of a paired bootstrap over seeds and "
    "documents. Where it contains 0, the difference may be chance. With one seed it does not cover "
    "other seeds, and with two or three it is too narrow: train each model several times before "
    "you call one better.",
)


class Result(NamedTuple):
    """The scores of one model on one set.

    protocol: `clean` or `masked`.
    runs: Scores by the keys of spaCy, for each seed. Shares are from 0 to 1. The seed is "" if
        there is one file for the model.
    """

    set: str
    model: str
    protocol: str
    runs: dict[str, dict[str, Any]]

    @property
    def attr(self) -> str:
        """The prefix of spaCy's keys: `ents`, or `spans_` and the key of a span group."""
        found = (key for scores in self.runs.values() for key in scores if PER_TYPE.fullmatch(key))
        return next(found, "ents_per_type").removesuffix("_per_type")

    def values(self, key: str) -> list[float]:
        """Return a score for each seed that has it."""
        found = (scores.get(key.format(attr=self.attr)) for scores in self.runs.values())
        return [float(value) for value in found if value is not None]

    def value(self, key: str) -> float | None:
        """Return the mean of a score over seeds, None if no seed has it."""
        found = self.values(key)
        return mean(found) if found else None

    def types(self) -> dict[str, list[float]]:
        """Return F1 by type, for each seed that has it."""
        found: dict[str, list[float]] = {}
        for scores in self.runs.values():
            for label, rates in (scores.get(f"{self.attr}_per_type") or {}).items():
                found.setdefault(label, []).extend([rates["f"]] if "f" in rates else [])
        return found

    def counts(self) -> dict[str, np.ndarray]:
        """Return (documents, 3) gold, predicted and exactly matched mentions, by seed."""
        return {
            seed: np.array(scores["mslm_documents"])
            for seed, scores in self.runs.items()
            if scores.get("mslm_documents")
        }


class Table(NamedTuple):
    """A table. The first cell of each row names the row."""

    title: str
    header: list[str]
    rows: list[list[str]]


def read_results(path: Path, baseline: str) -> list[Result]:
    """Read all results of a folder, or of a file of `spacy mslm sweep`.

    Returns:
        The results sorted by set and model, with the baseline first.
    """
    if path.is_file():
        found = list(_read_trials(read_file(path)))
    else:
        found = list(_read_evaluations(path))
        for file in sorted(path.glob("results.jsonl")):
            found += _read_trials(read_file(file))
    if not found:
        raise ValueError(
            f"{path} holds no results. They are expected as SET/MODEL.json or SET/MODEL/SEED.json "
            "below it, or as results.jsonl of 'python -m spacy mslm sweep'."
        )
    groups: dict[tuple[str, str, str], dict[str, dict[str, Any]]] = {}
    for result in found:
        runs = groups.setdefault((result.set, result.model, result.protocol), {})
        for seed, scores in result.runs.items():
            if seed in runs:
                raise ValueError(
                    f"{path} has two results of {result.model} on {result.set}, {result.protocol} "
                    f"text{f', seed {seed}' if seed else ''}. Remove one of them."
                )
            runs[seed] = scores
    results = [Result(*key, runs) for key, runs in groups.items()]
    return sorted(results, key=lambda r: (r.set, r.protocol, r.model != baseline, r.model))


def _read_evaluations(folder: Path) -> Iterator[Result]:
    for path in sorted([*folder.glob("*/*.json"), *folder.glob("*/*/*.json")]):
        dataset, *model = path.relative_to(folder).with_suffix("").parts
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
        seed = model[1] if len(model) > 1 else ""
        yield Result(dataset, model[0], data.get("protocol", "clean"), {seed: scores})


def _read_trials(rows: Iterable[Row]) -> Iterator[Result]:
    """Yield the scores of trials under the keys of spaCy, for each protocol that was measured."""
    names = {"ents_p": "p", "ents_r": "em", "ents_f": "f", "mslm_em_unseen": "em_unseen"}
    for row in rows:
        for protocol in ("clean", "masked"):
            scores: dict[str, Any] = {k: row.value(protocol, v) for k, v in names.items()}
            if scores["ents_f"] is None:
                continue
            counts = row.counts(protocol)
            scores["mslm_documents"] = None if counts is None else counts[:, :3].tolist()
            if protocol == "clean":
                scores["mslm_ece"] = row.value(protocol, "ece")
                scores["mslm_ppl_elm"] = row.value(protocol, "perplexity_elm")
            yield Result(row.set, row.trial, protocol, {str(row.seed): scores})


def by_heading(results: Sequence[Result]) -> dict[str, list[Result]]:
    """Group results that can be compared: those on the same set by the same protocol."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(f"{result.set}, {result.protocol} text", []).append(result)
    return groups


def make_tables(results: Sequence[Result], baseline: str) -> list[Table]:
    """Make tables for each set and protocol, and one of differences over all sets.

    One has the scores, with the difference of F1 to the baseline; one has F1 by type, if there are
    several types.
    """
    tables = []
    for title, own in by_heading(results).items():
        tables.append(_scores_table(title, own, baseline))
        types = sorted({label for result in own for label in result.types()})
        if len(types) > 1:
            tables.append(_types_table(f"{title}: F1 by type", own, types))
    for protocol in dict.fromkeys(result.protocol for result in results):
        own = [result for result in results if result.protocol == protocol]
        tables += _summary(f"all sets, {protocol} text: differences to {baseline}", own, baseline)
    return tables


def _scores_table(title: str, results: Sequence[Result], baseline: str) -> Table:
    used = [c for c in COLUMNS if any(r.values(c[1]) for r in results)]
    header = ["model", *(name for name, _, _ in used)]
    rows = [[r.model, *(show(r.values(key), share) for _, key, share in used)] for r in results]
    if any(len(result.runs) > 1 for result in results):
        header.insert(1, "seeds")
        for row, result in zip(rows, results, strict=True):
            row.insert(1, str(len(result.runs)))
    reference = next((r for r in results if r.model == baseline), None)
    if reference is not None and len(results) > 1:
        header.append(f"F1 to {baseline}")
        for row, result in zip(rows, results, strict=True):
            row.append("" if result is reference else _difference(reference, result))
    return Table(title, header, rows)


def _difference(reference: Result, result: Result) -> str:
    """Return the difference of F1: with its interval and what it means, if both models have counts
    of the same documents for the same seeds."""
    old, new = (r.value("{attr}_f") for r in (reference, result))
    if old is None or new is None:
        return ""
    pair = pair_seeds(reference.counts(), result.counts())
    if pair is None:
        return f"{100 * (new - old):+.1f}"
    return str(compare_models([pair])[F1])


def _summary(title: str, results: Sequence[Result], baseline: str) -> list[Table]:
    """Return a table of mean differences over the sets that a model shares with the baseline."""
    references = {r.set: r for r in results if r.model == baseline}
    rows = []
    for model in dict.fromkeys(r.model for r in results if r.model != baseline):
        own = [r for r in results if r.model == model and r.set in references]
        pairs = [
            pair
            for r in own
            if (pair := pair_seeds(references[r.set].counts(), r.counts())) is not None
        ]
        if len(pairs) > 1:
            found = compare_models(pairs)
            rows.append([model, str(len(pairs)), str(found[F1]), str(found[EM])])
    return [Table(title, ["model", "sets", "F1", "EM"], rows)] if rows else []


def _types_table(title: str, results: Sequence[Result], types: Sequence[str]) -> Table:
    """Types are rows, as there may be more of them than fit the width of a page."""
    scores = [result.types() for result in results]
    rows = [[t, *(show(by_type.get(t, []), True) for by_type in scores)] for t in types]
    return Table(title, ["type", *(result.model for result in results)], rows)


def show(values: Sequence[float], share: bool) -> str:
    """Format a score over seeds: shares in percent, other values as integers."""
    if not values:
        return NOTHING
    if share:
        return str(spread([100 * value for value in values]))
    return f"{mean(values):,.0f}"


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
