"""A comparison of models as a bar chart, drawn by matplotlib (extra `plots`)."""

import io
from collections.abc import Sequence

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from ...scoring.seeds import spread
from .tables import Result, show

DPI = 150
BAR, GAP = 0.24, 0.35  # inches
# From dark to light, so that they differ in greyscale.
COLOURS = ("#08306b", "#4292c6", "#c6dbef", "#737373", "#bdbdbd")
SCORES = (("F1", "{attr}_f"), ("EM", "{attr}_r"), ("EM unseen", "mslm_em_unseen"))


def draw_scores(title: str, results: Sequence[Result]) -> bytes:
    """Draw bars for F1, EM and EM on unseen mentions, with one colour per model, as a PNG."""
    scores = [(n, k) for n, k in SCORES if any(r.values(k) for r in results)]
    height = len(scores) * (len(results) * BAR + GAP) + 1.1
    figure = Figure(figsize=(7.0, height), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    step = len(results) * BAR + GAP
    for i, result in enumerate(results):
        values = [result.values(key) for _, key in scores]
        places = [j * step + i * BAR for j in range(len(scores))]
        colour = COLOURS[i % len(COLOURS)]
        spreads = [spread([100 * v for v in own]) if own else None for own in values]
        lengths = [s.mean if s else 0.0 for s in spreads]
        errors = [(s.sd or 0.0) if s else 0.0 for s in spreads]
        bars = axes.barh(
            *(places, lengths, BAR * 0.9),
            xerr=errors if any(errors) else None,
            label=result.model,
            color=colour,
            error_kw={"elinewidth": 0.8, "ecolor": "#d94801"},
        )
        labels = [show(own, share=True) for own in values]
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
