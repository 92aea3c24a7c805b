"""The tables as a self-contained HTML page, without scripts or external files."""

import base64
import struct
from collections.abc import Mapping, Sequence
from html import escape
from itertools import groupby

from .lines import PROTOCOLS, Line, Table

TITLE = "The paper's tables and figures"
STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 1.5rem 2rem; max-width: 76rem; background: #fff; color: #1a1a1a;
  font: 15px/1.45 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, "DejaVu Sans", sans-serif;
}
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin: 2.5rem 0 .5rem; }
nav { columns: 18rem; margin: 1rem 0; } nav a { display: block; color: #08519c; }
.scroll { overflow-x: auto; border: 1px solid #ddd; width: fit-content; max-width: 100%; }
table { border-collapse: collapse; font-size: .93rem; }
th, td { padding: .3rem .7rem; text-align: right; vertical-align: top; }
tbody tr { border-top: 1px solid #e3e3e3; }
thead th { border-bottom: 2px solid #767676; vertical-align: bottom; }
td { font-variant-numeric: tabular-nums; white-space: nowrap; }
th { font-weight: 600; } tbody th, th.label { text-align: left; }
tbody th { font-weight: 400; white-space: nowrap; }
tbody tr.first { border-top: 1px solid #767676; }
td.paper { background: #f6f6f2; }
td small { display: block; color: #595959; white-space: normal; min-width: 11rem; }
td.missing { text-align: left; white-space: normal; min-width: 15rem; color: #595959; }
code { font-size: .85rem; overflow-wrap: anywhere; }
figure { margin: 1rem 0; } img { max-width: 100%; height: auto; }
.notes { color: #424242; font-size: .93rem; max-width: 60rem; padding-left: 1.2rem; }
@media (max-width: 600px) {
  body { padding: 1rem .8rem; }
  table { font-size: .8rem; }
  th, td { padding: .25rem .35rem; }
  tbody th { white-space: normal; }
  tbody th:first-child { position: sticky; left: 0; background: #fff; min-width: 4.4rem; }
  td small { min-width: 9rem; }
  td.missing { min-width: 11rem; }
  figure.wide { overflow-x: auto; } figure.wide img { max-width: none; width: 44rem; }
}
"""
INTRODUCTION = (
    "Figures of Abaho et al., “Improving Pre-trained Language Model Sensitivity via Mask Specific "
    "losses” (2024), with ours beside them. Ours are means over seeds, ± the standard deviation.",
    "Clean text is the text as it is. Masked text has its gold mentions replaced by [MASK] before "
    "tagging, as in the code of the paper's authors, so that the model sees where they are. The "
    "paper does not say which text its vanilla models read. Figures on clean text and on masked "
    "text cannot be compared, nor ours with the paper's where the setting differs.",
)


def render_page(tables: Sequence[Table], pictures: Mapping[str, bytes]) -> bytes:
    """Render the page in UTF-8.

    Args:
        tables: The tables.
        pictures: PNG files by the name of the table that they belong to.
    """
    links = "".join(f'<a href="#{t.name}">{escape(t.title)}</a>' for t in tables)
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(TITLE)}</title><style>{STYLE}</style></head><body>",
        f"<h1>{escape(TITLE)}</h1>",
        *(f"<p>{escape(text)}</p>" for text in INTRODUCTION),
        f"<nav>{links}</nav>",
    ]
    for table in tables:
        parts.append(f'<h2 id="{table.name}">{escape(table.title)}</h2>')
        if table.notes:
            notes = "".join(f"<li>{escape(note)}</li>" for note in table.notes)
            parts.append(f'<ul class="notes">{notes}</ul>')
        if table.name in pictures:
            parts.append(_picture(table, pictures[table.name]))
        if table.lines:
            parts.append(_table(table))
    return "\n".join([*parts, "</body></html>", ""]).encode("utf8")


def _picture(table: Table, png: bytes) -> str:
    """Return a picture. One that is too wide for a phone can be scrolled there."""
    width, height = struct.unpack(">II", png[16:24])
    kind = ' class="wide"' if width > 1.2 * height else ""
    source = f"data:image/png;base64,{base64.b64encode(png).decode('ascii')}"
    return f'<figure{kind}><img src="{source}" alt="{escape(table.title)}"></figure>'


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col" class="label">{escape(c)}</th>' for c in table.columns)
    shows_paper = any(line.paper for line in table.lines)
    if shows_paper:
        head += f'<th scope="col">{escape(table.paper_protocol)}</th>'
    head += "".join(f'<th scope="col">{escape(PROTOCOLS[p])}</th>' for p in table.protocols)
    rows = []
    first = ""
    # Lines that one command fills share a cell with it.
    for command, group in groupby(table.lines, key=lambda line: "" if line.ours else line.command):
        lines = list(group)
        for i, line in enumerate(lines):
            cells = "".join(f'<th scope="row">{escape(label)}</th>' for label in line.labels)
            if shows_paper:
                cells += f'<td class="paper">{escape(line.paper)}</td>'
            if not command:
                cells += "".join(_figure(line, protocol) for protocol in table.protocols)
            elif i == 0:
                cells += (
                    f'<td class="missing" rowspan="{len(lines)}" colspan="{len(table.protocols)}">'
                    f"not measured<br><code>{escape(command)}</code></td>"
                )
            start = ' class="first"' if line.labels[0] != first and first else ""
            first = line.labels[0]
            rows.append(f"<tr{start}>{cells}</tr>")
    body = "".join(rows)
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _figure(line: Line, protocol: str) -> str:
    ours = line.ours.get(protocol)
    if ours is None:
        return "<td>–</td>"
    note = f"<small>{escape(ours.difference)}</small>" if ours.difference else ""
    return f"<td>{escape(ours.shown)}{note}</td>"
