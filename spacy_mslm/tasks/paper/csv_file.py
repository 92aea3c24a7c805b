"""A table as CSV, with one line for each figure of ours and its protocol."""

import csv
import io
import math

from .lines import Ours, Table

FIELDS = (
    *("paper", "protocol", "ours", "sd", "seeds"),
    *("baseline", "difference", "low", "high", "verdict", "command"),
)


def render_csv(table: Table) -> bytes:
    """Render a table. Figures are not rounded. A line without a figure of ours has its command."""
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer)
    writer.writerow([*table.columns, *FIELDS])
    for line in table.lines:
        for protocol, ours in line.ours.items():
            writer.writerow([*line.labels, line.paper, protocol, *_cells(ours), ""])
        if not line.ours:
            writer.writerow([*line.labels, line.paper, "", *[""] * 8, line.command])
    return buffer.getvalue().encode("utf8")


def _cells(ours: Ours) -> list[object]:
    mean, sd, seeds = ours.spread
    cells: list[object] = ["" if math.isnan(mean) else mean, "" if sd is None else sd, seeds]
    if ours.comparison is None:
        return [*cells, *[""] * 5]
    return [*cells, ours.baseline, *ours.comparison.difference, ours.comparison.words]
