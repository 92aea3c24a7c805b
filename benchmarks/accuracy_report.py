"""Report results of trials: means over seeds, differences to a baseline, bootstrap intervals."""

import json
from collections.abc import Iterable
from pathlib import Path
from statistics import mean

import numpy as np
from wasabi import msg

from spacy_mslm.scoring.counts import unpack
from spacy_mslm.scoring.seeds import compare_models, pair_seeds, spread


def accuracy_report(results: Iterable[Path], baseline: str) -> None:
    """Print a table for each results file, with differences to the trial named `baseline`."""
    for path in results:
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        if not rows:
            continue
        msg.divider(f"{path.stem}: {rows[0]['split']} sets, clean text")
        table = [line for name in _names(rows) for line in _lines(rows, name, baseline)]
        header = ["trial", "set", "seeds", "P", "EM", "F1", "unseen EM", "CPU min"]
        header += [f"ΔF1 to {baseline}", "by seed", "ΔEM", "Δ unseen EM"]
        msg.table(table, header=header, divider=True, aligns=("l", "l", *"r" * 10))


def _names(rows: list[dict]) -> list[str]:
    return list(dict.fromkeys(row["trial"] for row in rows))


def _lines(rows: list[dict], name: str, baseline: str) -> list[tuple]:
    """Return one line per set, and one for all sets."""
    lines = []
    pairs = []
    own = [row for row in rows if row["trial"] == name]
    for dataset in sorted({row["set"] for row in own}):
        runs = [row for row in own if row["set"] == dataset]
        cells = [str(spread([100 * run[score] for run in runs])) for score in ("p", "em", "f")]
        cells.append(str(spread([100 * run["em_unseen"] for run in runs])))
        cells.append(_minutes(runs))
        differences: tuple = ("", "", "", "")
        pair = paired_counts(rows, name, dataset, baseline)
        if name != baseline and pair is not None:
            pairs.append(pair)
            differences = _comparable([pair])
        lines.append((name, dataset, len(runs), *cells, *differences))
    if len(pairs) > 1:
        lines.append((name, "all", "", "", "", "", "", "", *_comparable(pairs)))
    return lines


def _comparable(pairs: list[np.ndarray]) -> tuple:
    """Return the differences, and that of F1 for each seed: a bootstrap of two or three seeds says
    little. There is none on unseen mentions if the two sides were trained on other mentions."""
    f, em, unseen = compare_models(pairs)
    same = all((pair[0, ..., 3] == pair[1, ..., 3]).all() for pair in pairs)
    seeds = "" if len(pairs) > 1 else " ".join(f"{value:+.1f}" for value in f.by_seed)
    return f.difference, seeds, em.difference, unseen.difference if same else ""


def _minutes(runs: list[dict]) -> str:
    """Format the CPU minutes of training, and of the adaptation before it."""
    minutes = f"{mean(run['cpu_seconds'] for run in runs) / 60:.1f}"
    adaptation = mean(run.get("adaptation_cpu_seconds", 0) for run in runs) / 60
    return f"{minutes} + {adaptation:.1f}" if adaptation else minutes


def paired_counts(rows: list[dict], name: str, dataset: str, baseline: str) -> np.ndarray | None:
    """Return (2, seeds, sentences, counts) of the baseline and a trial for the seeds that both
    have, or None."""
    found: dict[str, dict[int, np.ndarray]] = {baseline: {}, name: {}}
    for row in rows:
        if row["trial"] in found and row["set"] == dataset:
            found[row["trial"]][row["seed"]] = unpack(row["counts"])
    return pair_seeds(found[baseline], found[name])
