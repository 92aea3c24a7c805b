"""A comparison of models as a bar chart, drawn by matplotlib (extra `plots`)."""

import io
from collections.abc import Sequence

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from .tables import Result, show

DPI = 150
BAR, GAP = 0.24, 0.35  # inches
# From dark to light, so that they differ in greyscale.
COLOURS = ("#08306b", "#4292c6", "#c6dbef", "#737373", "#bdbdbd")
SCORES = (("F1", "{attr}_f"), ("EM", "{attr}_r"), ("EM unseen", "mslm_em_unseen"))


def draw_scores(title: str, results: Sequence[Result]) -> bytes:
    """Draw bars for F1, EM and EM on unseen mentions, with one colour per model, as a PNG."""
    scores = [(n, k) for n, k in SCORES if any(r.value(k) is not None for r in results)]
    height = len(scores) * (len(results) * BAR + GAP) + 1.1
    figure = Figure(figsize=(7.0, height), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    step = len(results) * BAR + GAP
    for i, result in enumerate(results):
        values = [result.value(key) for _, key in scores]
        places = [j * step + i * BAR for j in range(len(scores))]
        colour = COLOURS[i % len(COLOURS)]
        lengths = [100 * (value or 0.0) for value in values]
        bars = axes.barh(places, lengths, BAR * 0.9, label=result.model, color=colour)
        labels = [show(value, share=True) for value in values]
        axes.bar_label(bars, labels, padding=3, fontsize=8)
    middle = (len(results) - 1) * BAR / 2
    axes.set_yticks([j * step + middle for j in range(len(scores))], [n for n, _ in scores])
    axes.invert_yaxis()
    axes.set_xlim(0, 108)  # room for the number of a full bar
    axes.set_xticks(range(0, 101, 20))
    axes.set_xlabel(f"percent, {results[0].protocol} text")
    axes.set_title(title, loc="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=min(len(results), 4), frameon=False, fontsize=8)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()
