"""Markdown: tables, and text that is shown as it is."""

import re
from collections.abc import Sequence

_SPECIAL = re.compile(r"[\\`\[\]|]")


def escape(text: str) -> str:
    """Return Markdown that shows a text, such as a label, as it is: not as HTML, code or a link."""
    for sign, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(sign, entity)
    return " ".join(_SPECIAL.sub(r"\\\g<0>", text).split())


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a Markdown table. The texts of the cells are escaped.

    Args:
        rows: The header and the rows below it. The first column is left-aligned, the others are
            right-aligned.
    """
    header, *body = rows
    rule = ["---", *["---:"] * (len(header) - 1)]
    return [_line(header), f"| {' | '.join(rule)} |", *map(_line, body)]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(escape, cells))} |"
