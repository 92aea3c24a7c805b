"""A comparison of models as a self-contained HTML page, without scripts or external files."""

import base64
from collections.abc import Sequence
from html import escape

from .tables import LEGEND, Table

STYLE = """
:root { color-scheme: light; }
body {
  margin: 0 auto; padding: 1.5rem 2rem; max-width: 60rem; background: #fff; color: #1a1a1a;
  font: 15px/1.4 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, "DejaVu Sans", sans-serif;
}
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; }
th, td { padding: .3rem .8rem; text-align: right; border-bottom: 1px solid #ddd; }
th { border-bottom: 2px solid #767676; vertical-align: bottom; }
td { font-variant-numeric: tabular-nums; }
th:first-child, td:first-child { text-align: left; }
tbody th { border-bottom: 1px solid #ddd; font-weight: 600; }
figure { margin: 1rem 0; } img { max-width: 100%; height: auto; }
footer { margin-top: 2rem; color: #595959; font-size: .9rem; }
"""


def render_html(title: str, tables: Sequence[Table], pictures: dict[str, bytes]) -> bytes:
    """Render the page in UTF-8.

    Args:
        title: The title of the page.
        tables: Its tables.
        pictures: PNG files by the title of the table that they follow.
    """
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>",
        f"<h1>{escape(title)}</h1>",
    ]
    for table in tables:
        parts.append(f"<h2>{escape(table.title)}</h2>")
        parts.append(_table(table))
        if table.title in pictures:
            data = base64.b64encode(pictures[table.title]).decode("ascii")
            source = f"data:image/png;base64,{data}"
            parts.append(f'<figure><img src="{source}" alt="{escape(table.title)}"></figure>')
    legend = "".join(f"<p>{escape(line)}</p>" for line in LEGEND)
    return "\n".join([*parts, f"<footer>{legend}</footer></body></html>", ""]).encode("utf8")


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in table.header)
    rows = []
    for name, *cells in table.rows:
        values = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        rows.append(f'<tr><th scope="row">{escape(name)}</th>{values}</tr>')
    body = "".join(rows)
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )
