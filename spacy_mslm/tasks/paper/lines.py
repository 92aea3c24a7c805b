"""What the tables consist of: lines with a figure of ours beside one of the paper's."""

import math
from typing import NamedTuple

from ...scoring.seeds import EM, F1, Comparison, Spread, pair_seeds, spread
from ...scoring.seeds import compare_models as compare_counts
from ..rows import Rows

# How our figures were measured, as the heading of their column.
PROTOCOLS = {
    "clean": "ours, clean text",
    "masked": "ours, masked text (ELM 1, BLM 0.075)",
    "own": "ours, masked text (rates of the trial)",
    "perplexity": "ours, perplexity of masked pieces",
    "counts": "ours, counted",
}
COMPARED = {"f": F1, "em": EM}


class Ours(NamedTuple):
    """A figure that we measured.

    Attributes:
        spread: Mean and standard deviation over seeds.
        baseline: The name of the model that it is compared with.
        comparison: The difference to that, None if there is nothing to compare with.
        decimals: The number of decimals that are shown.
    """

    spread: Spread
    baseline: str = ""
    comparison: Comparison | None = None
    decimals: int = 1

    @property
    def shown(self) -> str:
        """The figure as text: the mean, with its standard deviation if there are several seeds."""
        mean, sd, _ = self.spread
        if math.isnan(mean):
            return "never"
        return f"{mean:,.{self.decimals}f}" + ("" if sd is None else f" ± {sd:,.{self.decimals}f}")

    @property
    def difference(self) -> str:
        """The difference to the baseline in words, "" if there is none."""
        return "" if self.comparison is None else f"{self.comparison} (to {self.baseline})"


class Line(NamedTuple):
    """A line of a table.

    Attributes:
        labels: What the figures are of, in the order of the table's columns.
        paper: The figure of the paper, and its standard deviation, as printed; "" for none.
        ours: Our figures by protocol. Those that were not measured are missing.
        command: The command that measures it, "" if nothing does.
    """

    labels: tuple[str, ...]
    paper: str
    ours: dict[str, Ours]
    command: str = ""


class Table(NamedTuple):
    """A table or figure of the paper.

    Attributes:
        name: Its name on the command line, such as "table8".
        title: Its title.
        columns: The titles of the labels.
        protocols: How our figures were measured, in the order of the columns.
        paper_protocol: How the paper's figures were measured, as the heading of their column.
        lines: The lines.
        notes: What a reader has to know.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    protocols: tuple[str, ...]
    paper_protocol: str
    lines: list[Line]
    notes: tuple[str, ...] = ()


def measure(
    rows: Rows, trial: str, dataset: str, metric: str, protocol: str, baseline: str = ""
) -> Ours | None:
    """Return a score of a trial in percent over its seeds, None if it was not measured.

    Args:
        rows: All rows.
        trial, dataset: The trial.
        metric: The score, such as "f".
        protocol: "clean", "masked" or "own".
        baseline: The trial to compare with.
    """
    runs = rows.seeds(trial, dataset)
    values = [row.value(protocol, metric) for row in runs.values()]
    known = [100 * value for value in values if value is not None]
    if not known:
        return None
    comparison = None
    if baseline and baseline != trial and metric in COMPARED:
        comparison = compare(rows, trial, dataset, metric, protocol, baseline)
    return Ours(spread(known), baseline, comparison)


def compare(
    rows: Rows, trial: str, dataset: str, metric: str, protocol: str, baseline: str
) -> Comparison | None:
    """Return the difference to another trial over the seeds that both have."""
    counted = [
        {
            seed: counts
            for seed, row in rows.seeds(name, dataset).items()
            if (counts := row.counts(protocol)) is not None
        }
        for name in (baseline, trial)
    ]
    pair = pair_seeds(*counted)
    return None if pair is None else compare_counts([pair])[COMPARED[metric]]
