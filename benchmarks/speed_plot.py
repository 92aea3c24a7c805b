"""Plot the results of `speed`: words per second, one bar per system."""

from pathlib import Path
from typing import Any

BARE, OURS, PEER = "#8a8a8a", "#1b6ca8", "#d9a441"


def draw_speed(record: dict[str, Any], path: Path) -> None:
    from matplotlib.figure import Figure

    kinds = record["words_per_second"]
    names = list(next(iter(kinds.values())))[::-1]
    figure = Figure(figsize=(10, 0.38 * len(names) + 1.4), layout="constrained")
    for axes, (kind, rates) in zip(
        figure.subplots(1, len(kinds), sharey=True, squeeze=False)[0], kinds.items(), strict=True
    ):
        bars = axes.barh(names, [rates[name] for name in names], color=[_color(n) for n in names])
        axes.bar_label(bars, fmt="{:,.0f}", padding=3, fontsize=8)
        axes.axvline(rates["bare encoder"], color=BARE, linewidth=1, linestyle=":")
        axes.set_xlim(0, 1.18 * max(rates.values()))
        axes.set_title(kind)
        axes.set_xlabel("words per second")
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"nlp.pipe on {record['machine']['cpu']}, {record['machine']['cores']} cores")
    figure.savefig(path, dpi=120)


def _color(name: str) -> str:
    return BARE if name == "bare encoder" else OURS if name.startswith("spacy-mslm") else PEER
