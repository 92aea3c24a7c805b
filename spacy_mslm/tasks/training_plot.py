"""Training curves, drawn by matplotlib (extra `plots`)."""

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from .curves import Curve

DPI = 150
# From dark to light, so that they differ in greyscale.
COLOURS = ("#08306b", "#d94801", "#4292c6", "#737373", "#9ecae1", "#bdbdbd")
MARKERS = "os^Dv*"


def draw_curves(panels: Sequence[tuple[str, Sequence["Curve"]]], score: str) -> bytes:
    """Draw curves as a PNG, in one or more panels with titles below each other."""
    figure = Figure(figsize=(6.0, 0.7 + 2.8 * len(panels)), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    for i, (title, curves) in enumerate(panels, start=1):
        axes = figure.add_subplot(len(panels), 1, i)
        for j, curve in enumerate(curves):
            colour, marker = COLOURS[j % len(COLOURS)], MARKERS[j % len(MARKERS)]
            axes.plot(
                *(curve.steps, curve.values), label=curve.name, color=colour, marker=marker, ms=4
            )
        axes.set_title(title, loc="left", fontsize=10)
        axes.set_ylabel(f"{score}, percent")
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.grid(axis="y", color="#dddddd", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=8, loc="upper left")
    axes.set_xlabel("updates")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()
