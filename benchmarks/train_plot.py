"""Plot the results of `train`: milliseconds per update, one bar per training."""

from pathlib import Path
from typing import Any

from .speed_plot import OURS, PEER


def draw_training(record: dict[str, Any], path: Path) -> None:
    from matplotlib.figure import Figure

    rows = dict(reversed(record["rows"].items()))
    times = [1000 * row["seconds"] for row in rows.values()]
    # The share of data preparation was measured for our trainings only.
    colors = [PEER if row["data_share"] is None else OURS for row in rows.values()]
    figure = Figure(figsize=(9, 0.42 * len(rows) + 1.3), layout="constrained")
    axes = figure.subplots()
    bars = axes.barh(list(rows), times, color=colors)
    labels = [
        f"{time:,.0f} ({row['to_vanilla']:.2f} ×)"
        for time, row in zip(times, rows.values(), strict=True)
    ]
    axes.bar_label(bars, labels, padding=3, fontsize=8)
    axes.set_xlim(0, 1.18 * max(times))
    axes.set_xlabel("milliseconds of an update of 16 sentences (to vanilla)")
    axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"Training on {record['machine']['cpu']}, {record['machine']['cores']} cores")
    figure.savefig(path, dpi=120)
