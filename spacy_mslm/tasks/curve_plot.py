"""A precision/recall curve, drawn by matplotlib (extra `plots`)."""

import io
from collections.abc import Sequence

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from ..scoring.curve import Point

DPI = 150


def draw_curve(title: str, points: Sequence[Point], chosen: Point | None) -> bytes:
    """Draw precision over recall as a PNG, with the chosen point marked by its threshold."""
    figure = Figure(figsize=(5.0, 4.0), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    percent = [(100 * point.recall, 100 * point.precision) for point in points]
    axes.plot(*zip(*percent, strict=True), color="#08306b")
    if chosen is not None:
        at = (100 * chosen.recall, 100 * chosen.precision)
        axes.plot(*at, "o", color="#08306b")
        axes.annotate(
            f"threshold {chosen.threshold:.3f}",
            at,
            xytext=(-6, -12),
            textcoords="offset points",
            ha="right",
            fontsize=8,
        )
    axes.set_xlim(0, 102)
    axes.set_ylim(0, 102)
    axes.set_xlabel("recall, percent")
    axes.set_ylabel("precision, percent")
    axes.set_title(title, loc="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()
