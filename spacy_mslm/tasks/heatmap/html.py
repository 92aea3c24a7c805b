"""A heat map as a self-contained HTML page, without scripts or external files."""

import unicodedata
from collections.abc import Iterator, Sequence
from html import escape

from .reading import (
    LABEL_SIZE,
    LEVELS,
    NUMBER_SIZE,
    Reading,
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

# In characters: fits a page in landscape, or a window of 1250 pixels.
LINE_WIDTH = 124
PADDING = 1.4

STYLE = f"""
:root {{ color-scheme: light; font-size: 14px; }}
body {{
  margin: 0 auto; padding: 1.5rem 2rem; max-width: 84rem; background: #fff; color: #1a1a1a;
  font: 1rem/1.3 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, "DejaVu Sans", sans-serif;
}}
h1 {{ font-size: 1.5rem; margin: 0 0 .6rem; }}
h2 {{ font-size: .9rem; font-weight: 600; color: #595959; margin: 0; break-after: avoid; }}
header {{ border-bottom: 1px solid #ccc; margin-bottom: 1.2rem; padding-bottom: .6rem; }}
header p {{ margin: .4rem 0; max-width: 70rem; }}
dl {{ display: flex; flex-wrap: wrap; gap: .4rem 2.5rem; margin: 0; }}
dl div {{ display: flex; align-items: center; gap: .6rem; }}
dd {{ display: flex; margin: 0; }}
dd span {{ padding: .15rem .6rem; font-variant-numeric: tabular-nums; }}
.ramp {{ border: 1px solid #767676; }}
section {{ margin-bottom: 1.4rem; }}
.line {{ overflow-x: auto; break-inside: avoid; padding-bottom: .5rem; }}
table {{ border-collapse: separate; border-spacing: 0; }}
caption {{
  position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%);
}}
th {{
  position: sticky; left: 0; z-index: 1; width: 9.5rem; min-width: 9.5rem; max-width: 9.5rem;
  padding: .2rem .6rem .4rem 0; background: #fff; overflow-wrap: break-word;
  font-size: .85em; font-weight: 600; text-align: left; vertical-align: bottom;
}}
td {{ padding: 0; white-space: nowrap; }}
.labels td {{
  padding: .15rem .3rem 0; font-size: {LABEL_SIZE}em; font-weight: 700; vertical-align: bottom;
}}
.words td {{
  padding: .1rem .3rem; border: 2px solid #fff; border-width: 2px 1px; text-align: center;
  vertical-align: top;
}}
.words td.in {{
  padding: .1rem calc(.3rem + 1px); border-color: #08306b; border-width: 2px 0; font-weight: 700;
}}
.words td.first {{ border-left-width: 2px; }}
.words td.last {{ border-right-width: 2px; }}
/* Two mentions in a row may be as dark as their frames. */
.words td.last + .first {{ border-left-color: #fff; }}
small {{
  display: block; font-size: {NUMBER_SIZE}em; line-height: 1.2;
  font-variant-numeric: tabular-nums;
}}
* {{ print-color-adjust: exact; -webkit-print-color-adjust: exact; }}
@page {{ size: landscape; margin: 10mm; }}
@media print {{ :root {{ font-size: 11px; }} body {{ padding: 0; max-width: none; }} }}
"""


def render_html(blocks: Sequence[TextBlock]) -> bytes:
    """Render the page in UTF-8."""
    return "\n".join(_page(blocks)).encode("utf8")


def _page(blocks: Sequence[TextBlock]) -> Iterator[str]:
    names = [reading.name for reading in blocks[0].readings if not reading.gold]
    title = f"Confidence of predicted entities: {', '.join(names)}"
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    # In addition to escaping: if markup ever gets in, it can neither run nor load anything.
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    yield f"<title>{escape(title)}</title>\n<style>{STYLE}{shade_rules()}</style>\n</head>\n<body>"
    yield "<header>\n<h1>Confidence of predicted entities</h1>\n<dl>"
    yield from _ramp("Mention", inside=True)
    yield from _ramp("No mention", inside=False)
    yield f"</dl>\n<p>{escape(legend(blocks))}</p>\n</header>\n<main>"
    for block in blocks:
        yield from _section(block)
    yield "</main>\n</body>\n</html>\n"


def shade_rules() -> str:
    """Return the style rules of the shades: `.m0` to `.m20` in mentions, `.o0` to `.o20` else."""
    rules = []
    for inside in (True, False):
        for step in range(LEVELS + 1):
            text, ground = shade(step, inside)
            rules.append(f".{_shade_class(step, inside)} {{ color: {text}; background: {ground} }}")
    return "\n".join(rules)


def _shade_class(step: int, inside: bool) -> str:
    return f"{'m' if inside else 'o'}{step}"


def _ramp(name: str, inside: bool) -> Iterator[str]:
    yield f'<div><dt>{name}</dt><dd class="ramp">'
    for step in range(0, LEVELS + 1, LEVELS // 4):
        yield f'<span class="{_shade_class(step, inside)}">{number(step / LEVELS)}</span>'
    yield "</dd></div>"


def _section(block: TextBlock) -> Iterator[str]:
    title = escape(block.title)
    yield f"<section>\n<h2><bdi>{title}</bdi></h2>"
    lines = break_lines(block, column_widths(block, _measure, PADDING), LINE_WIDTH)
    for n, line in enumerate(lines, start=1):
        yield '<div class="line"><table>'
        yield f"<caption>{title}, line {n} of {len(lines)}</caption>"
        for reading in block.readings:
            yield from _reading(block, reading, line)
        yield "</table></div>"
    yield "</section>"


def _reading(block: TextBlock, reading: Reading, line: range) -> Iterator[str]:
    """Yield a row for the labels, if there are any, and a row for the words."""
    labels, words = [], []
    for mention, columns in segments(reading, line):
        caption = ""
        if mention is not None:
            caption = mention.caption if columns.start == mention.start else "…"
        labels.append(f'<td colspan="{len(columns)}"><bdi>{escape(caption)}</bdi></td>')
        for i in columns:
            classes = []
            tag = "O"
            if mention is not None:
                first, last = i == mention.start, i == mention.end - 1
                classes = ["in", *["first"] * first, *["last"] * last]
                tag = f"{'B' if first else 'I'}-{mention.label}"
            words.append(_cell(block.words[i], reading.confidences[i], tag, classes))
    rows = [f'<tr class="words">{"".join(words)}</tr>']
    if any(mention is not None for mention, _ in segments(reading, line)):
        rows.insert(0, f'<tr class="labels">{"".join(labels)}</tr>')
    shown = "<wbr>".join(map(escape, name_parts(reading.name)))
    name = f'<th scope="rowgroup" rowspan="{len(rows)}"><bdi>{shown}</bdi></th>'
    rows[0] = rows[0].replace("<td", f"{name}<td", 1)
    yield "<tbody>"
    yield from rows
    yield "</tbody>"


def _cell(word: str, confidence: float | None, tag: str, classes: list[str]) -> str:
    inside = bool(classes)
    hint = tag
    if confidence is not None:
        classes = [*classes, _shade_class(level(confidence), inside)]
        hint = f"{tag} {confidence:.4f}"
    text = word_number(confidence, inside)
    below = f"<small>{text}</small>" if text else ""
    attributes = f' class="{" ".join(classes)}"' if classes else ""
    return f'<td{attributes} title="{escape(hint)}"><bdi>{escape(word)}</bdi>{below}</td>'


def _measure(text: str, size: float, bold: bool) -> float:
    """Return the approximate width of a text in characters. The browser does the exact layout."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return (len(text) + wide) * size * (1.08 if bold else 1.0)
