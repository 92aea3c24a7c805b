"""Plot the results of `scale`: speed and memory by length and number of documents."""

from pathlib import Path
from typing import Any

COLOR = "#1b6ca8"
AXES = {"words": "words of a document", "documents": "documents of 10 words"}


def draw_scale(record: dict[str, Any], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5.4), layout="constrained")
    grid = figure.subplots(2, 2, sharey="row")
    for column, (axis, label) in enumerate(AXES.items()):
        rows = [row for row in record["rows"] if row["axis"] == axis]
        ns = [row["n"] for row in rows]
        for axes, key, title in (
            (grid[0][column], "words_per_second", "words per second"),
            (grid[1][column], "mb", "MB above the loaded model"),
        ):
            axes.plot(ns, [row[key] for row in rows], marker="o", color=COLOR)
            axes.set_xscale("log")
            axes.set_ylim(0, 1.1 * max(row.get(key, 0) for row in record["rows"]))
            axes.grid(axis="y", color="#dddddd")
            axes.spines[["top", "right"]].set_visible(False)
            if not column:
                axes.set_ylabel(title)
        grid[1][column].set_xlabel(label)
    figure.suptitle(f"nlp.pipe on {record['machine']['cpu']}, {record['machine']['cores']} cores")
    figure.savefig(path, dpi=120)
