"""A heat map as a PNG, drawn by matplotlib (extra `plots`).

Coordinates are points from the top left corner. pyplot is not used, so that the figures and
settings of the calling program stay as they are.
"""

import io
import textwrap
import warnings
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Rectangle

from .reading import (
    LABEL_SIZE,
    LEVELS,
    NUMBER_SIZE,
    Reading,
    ShownMention,
    TextBlock,
    break_lines,
    column_widths,
    legend,
    level,
    name_parts,
    number,
    segments,
    shade,
    word_number,
)

DPI = 150
# Many programs refuse taller images, which take hundreds of megabytes.
MAX_PIXELS = 32_000
FAMILY = "DejaVu Sans"  # comes with matplotlib
SIZE = 8.5  # of the words
WIDTH, MIN_WIDTH = 760, 400
MARGIN = 14
PADDING = 6.0  # of a column, both sides together
NAME_CHARACTERS, NAME_HEIGHT = 20, 8.5  # of a line of a model's name
LABEL_HEIGHT, WORD_HEIGHT, NUMBER_HEIGHT = 11.0, 12.5, 8.5
FRAME_WIDTH = 1.2
READING_GAP, LINE_GAP, BLOCK_GAP = 3.0, 9.0, 8.0
TITLE_HEIGHT = 12.0
# Left edge and width of each column.
Places = dict[int, tuple[float, float]]
INK, GREY, FRAME = "#1a1a1a", "#595959", "#08306b"


def render_png(blocks: Sequence[TextBlock]) -> bytes:
    """Draw the image, as wide as its widest line."""
    with warnings.catch_warnings():
        # A missing glyph is drawn as a box; the warning would contain the character.
        warnings.filterwarnings("ignore", message="Glyph ")
        return _draw(blocks)


def _draw(blocks: Sequence[TextBlock]) -> bytes:
    names = {line for b in blocks for r in b.readings for line in _name_lines(r.name)}
    left = MARGIN + max(_measure(line, LABEL_SIZE, True) for line in names) + PADDING
    measure = cache(_measure)  # words repeat; the cache ends with the drawing
    widths = [column_widths(block, measure, PADDING) for block in blocks]
    lines = [
        break_lines(block, columns, WIDTH - MARGIN - left)
        for block, columns in zip(blocks, widths, strict=True)
    ]
    right = left + max(
        sum(columns[line.start : line.stop])
        for columns, block_lines in zip(widths, lines, strict=True)
        for line in block_lines
    )
    width = max(right, MIN_WIDTH) + MARGIN

    figure = Figure(dpi=DPI)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    y = _draw_legend(axes, legend(blocks), width)
    for block, columns, block_lines in zip(blocks, widths, lines, strict=True):
        y += BLOCK_GAP
        _text(axes, MARGIN, y + 8, block.title, LABEL_SIZE, color=GREY)
        y += TITLE_HEIGHT
        for line in block_lines:
            edges = accumulate((columns[i] for i in line), initial=left)
            places = {i: (x, columns[i]) for i, x in zip(line, edges, strict=False)}
            for reading in block.readings:
                y = _draw_reading(axes, block, reading, line, places, y) + READING_GAP
            y += LINE_GAP
            if y * DPI / 72 > MAX_PIXELS:
                raise ValueError(
                    "The texts are too long for one PNG, which would be more than "
                    f"{MAX_PIXELS} pixels high. Show fewer texts (-n), or use an output that ends "
                    "in '.html'."
                )
    axes.set_xlim(0, width)
    axes.set_ylim(y + MARGIN, 0)
    figure.set_size_inches(width / 72, (y + MARGIN) / 72)
    buffer = io.BytesIO()
    FigureCanvasAgg(figure).print_png(buffer, metadata={"Software": None})
    return buffer.getvalue()


def _draw_legend(axes: Axes, text: str, width: float) -> float:
    """Draw both ramps and their explanation; return the bottom edge."""
    x, y = float(MARGIN), float(MARGIN)
    swatch = 26.0
    for name, inside in (("Mention", True), ("No mention", False)):
        _text(axes, x, y + 9, name, LABEL_SIZE, bold=inside)
        x += _measure(name, LABEL_SIZE, inside) + PADDING
        steps = range(0, LEVELS + 1, LEVELS // 4)
        _fill(axes, x - 0.5, y - 0.5, swatch * len(steps) + 1, 14, GREY)
        for step in steps:
            color, ground = shade(step, inside)
            _fill(axes, x, y, swatch, 13, ground)
            shown = number(step / LEVELS)
            _text(axes, x + swatch / 2, y + 9, shown, LABEL_SIZE, color=color, ha="center")
            x += swatch
        x += 20
    y += 13 + 5
    per_character = _measure(text, LABEL_SIZE, False) / len(text)
    for line in textwrap.wrap(text, int(0.95 * (width - 2 * MARGIN) / per_character)):
        _text(axes, MARGIN, y + 8, line, LABEL_SIZE)
        y += 10
    return y


def _draw_reading(
    axes: Axes, block: TextBlock, reading: Reading, line: range, places: Places, y: float
) -> float:
    """Draw the line of a model (name, labels, words); return the bottom edge."""
    top = y
    parts = list(segments(reading, line))
    names = _name_lines(reading.name)
    height = WORD_HEIGHT
    if any(word_number(reading.confidences[i], m is not None) for m, part in parts for i in part):
        height += NUMBER_HEIGHT
    if any(mention is not None for mention, _ in parts):
        y += LABEL_HEIGHT
    y += max(0.0, len(names) * NAME_HEIGHT - (y + height - top))
    base = y + height - max(0.0, height - len(names) * NAME_HEIGHT) / 2 - 2
    for n, name in enumerate(reversed(names)):
        _text(axes, MARGIN, base - n * NAME_HEIGHT, name, LABEL_SIZE, bold=True)
    for mention, part in parts:
        for i in part:
            box = (*places[i], y, height)
            _draw_word(axes, block.words[i], reading.confidences[i], mention is not None, box)
        if mention is not None:
            _draw_box(axes, mention, part, places, y, height)
    return y + height


def _draw_word(
    axes: Axes, word: str, confidence: float | None, inside: bool, box: tuple[float, ...]
) -> None:
    """Draw a word and its number in a box of left edge, width, top edge and height."""
    x, width, y, height = box
    color = INK
    if confidence is not None:
        color, ground = shade(level(confidence), inside)
        gap = 0.0 if inside else 0.7
        _fill(axes, x + gap, y, width - 2 * gap, height, ground)
    middle = x + width / 2
    _text(axes, middle, y + 9, word, 1.0, bold=inside, color=color, ha="center")
    below = word_number(confidence, inside)
    _text(axes, middle, y + height - 2.5, below, NUMBER_SIZE, color=color, ha="center")


def _draw_box(
    axes: Axes, mention: ShownMention, part: range, places: Places, y: float, height: float
) -> None:
    """Draw the label and frame of a mention; open if the mention continues in another line."""
    left, right = places[part[0]][0], sum(places[part[-1]])
    opens, closes = part.start == mention.start, part.stop == mention.end
    # White between adjacent mentions, which may be as dark as the frame.
    if opens:
        _fill(axes, left - 1, y, 2, height, "white")
        _fill(axes, left + 1, y, FRAME_WIDTH, height, FRAME)
    if closes:
        _fill(axes, right - 1, y, 2, height, "white")
        _fill(axes, right - 1 - FRAME_WIDTH, y, FRAME_WIDTH, height, FRAME)
    for edge in (y - FRAME_WIDTH / 2, y + height - FRAME_WIDTH / 2):
        _fill(axes, left + opens, edge, right - closes - left - opens, FRAME_WIDTH, FRAME)
    _text(axes, left + 1, y - 3, mention.caption if opens else "…", LABEL_SIZE, bold=True)


def _fill(axes: Axes, x: float, y: float, width: float, height: float, color: str) -> None:
    # Not add_patch, which recomputes the limits of the axes every time.
    axes.add_artist(Rectangle((x, y), width, height, facecolor=color, edgecolor="none"))


def _text(
    axes: Axes, x: float, y: float, text: str, size: float, bold: bool = False, **options: str
) -> None:
    if text:
        settings: dict[str, Any] = {"parse_math": False, "usetex": False}
        settings |= {"color": INK, **options}
        axes.text(x, y, text, fontproperties=_font(size, bold), **settings)


def _name_lines(name: str) -> list[str]:
    """Break a name between its parts; only a part that is longer than a line is broken itself."""
    lines = [""]
    for part in name_parts(name):
        if len(lines[-1]) + len(part.rstrip()) > NAME_CHARACTERS and lines[-1]:
            lines.append("")
        lines[-1] += part
    return [piece for line in lines for piece in textwrap.wrap(line, NAME_CHARACTERS)] or [name]


@cache
def _font(size: float, bold: bool) -> FontProperties:
    return FontProperties(
        family=FAMILY, size=SIZE * size, weight="bold" if bold else "normal", style="normal"
    )


def _measure(text: str, size: float, bold: bool) -> float:
    if not text:
        return 0.0
    renderer = RendererAgg(1, 1, DPI)  # as in the image: glyphs are fitted to pixels
    width = renderer.get_text_width_height_descent(text, _font(size, bold), ismath=False)[0]
    return width * 72 / DPI
