"""The figures, drawn by matplotlib (extra `plots`)."""

import io
from collections.abc import Sequence

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from .lines import PROTOCOLS, Line, Table

DPI = 150
# From dark to light, so that they differ in greyscale.
COLOURS = ("#08306b", "#6baed6", "#bdbdbd")
BAR = 0.3  # inches


def draw_grid(table: Table) -> bytes | None:
    """Draw figures by two labels, the second and third one, as heat maps: one row of panels for
    each first label, one column for each protocol. Cells that were not measured are white."""
    protocols = [p for p in table.protocols if any(p in line.ours for line in table.lines)]
    groups = _by_first(table.lines)
    measured = {n: g for n, g in groups.items() if any(line.ours for line in g)}
    if not measured:
        return None
    size = (3.2 * len(protocols) + 0.6, 2.7 * len(measured) + 0.3)
    figure = Figure(figsize=size, dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(measured), len(protocols), squeeze=False)
    for row, (name, lines) in zip(panels, measured.items(), strict=True):
        for axes, protocol in zip(row, protocols, strict=True):
            _draw_panel(axes, lines, protocol)
            axes.set_title(f"{name}\n{PROTOCOLS[protocol]}", loc="left", fontsize=8)
            axes.set_xlabel(table.columns[2], fontsize=8)
            axes.set_ylabel(table.columns[1], fontsize=8)
    return _png(figure)


def _draw_panel(axes, lines: Sequence[Line], protocol: str) -> None:  # type: ignore[no-untyped-def]
    ys, xs = (sorted({line.labels[i] for line in lines}) for i in (1, 2))
    values = np.full((len(ys), len(xs)), np.nan)
    for line in lines:
        if protocol in line.ours:
            place = ys.index(line.labels[1]), xs.index(line.labels[2])
            values[place] = line.ours[protocol].spread.mean
    axes.imshow(values, cmap="Blues", aspect="auto", origin="lower")
    known = values[~np.isnan(values)]
    middle = (known.min() + known.max()) / 2 if known.size else 0.0
    for (y, x), value in np.ndenumerate(values):
        shown = "–" if np.isnan(value) else f"{value:.1f}"
        colour = "white" if value > middle else "black"
        axes.text(x, y, shown, ha="center", va="center", fontsize=8, color=colour)
    axes.set_xticks(range(len(xs)), xs, fontsize=8)
    axes.set_yticks(range(len(ys)), ys, fontsize=8)
    axes.tick_params(length=0)


def draw_bars(table: Table) -> bytes | None:
    """Draw figures as bars: one panel for each first label, one bar for each other label and
    protocol, with standard deviations where there are several seeds."""
    measured = [(n, [li for li in g if li.ours]) for n, g in _by_first(table.lines).items()]
    measured = [(name, lines) for name, lines in measured if lines]
    if not measured:
        return None
    protocols = [
        p for p in table.protocols if any(p in line.ours for _, g in measured for line in g)
    ]
    rows = [len(lines) for _, lines in measured]
    height = BAR * len(protocols) * sum(rows) + 0.6 * len(measured) + 0.9
    figure = Figure(figsize=(7.0, height), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(measured), 1, squeeze=False, height_ratios=rows)[:, 0]
    for axes, (name, lines) in zip(panels, measured, strict=True):
        step = 0.8 / len(protocols)
        for i, protocol in enumerate(protocols):
            own = [
                (place, line.ours[protocol])
                for place, line in enumerate(lines)
                if protocol in line.ours
            ]
            places = [place + i * step for place, _ in own]
            means = [ours.spread.mean for _, ours in own]
            errors = [ours.spread.sd or 0.0 for _, ours in own]
            bars = axes.barh(
                *(places, means, 0.92 * step),
                xerr=errors if any(errors) else None,
                color=COLOURS[i],
                label=PROTOCOLS[protocol],
            )
            axes.bar_label(bars, [ours.shown for _, ours in own], padding=3, fontsize=8)
        names = [", ".join(line.labels[1:]) for line in lines]
        axes.set_yticks([place + 0.4 - step / 2 for place in range(len(lines))], names, fontsize=8)
        axes.invert_yaxis()
        axes.set_xlim(0, 112)  # room for the number of a full bar
        axes.set_xticks(range(0, 101, 20))
        axes.set_title(name, loc="left", fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
    panels[-1].set_xlabel("percent", fontsize=8)
    handles, titles = panels[0].get_legend_handles_labels()
    figure.legend(handles, titles, loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    return _png(figure)


def _by_first(lines: Sequence[Line]) -> dict[str, list[Line]]:
    groups: dict[str, list[Line]] = {}
    for line in lines:
        groups.setdefault(line.labels[0], []).append(line)
    return groups


def _png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()
