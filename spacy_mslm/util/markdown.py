"""Tables in Markdown."""

from collections.abc import Sequence


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a Markdown table.

    Args:
        rows: The header and the rows below it. The first column is left-aligned, the others are
            right-aligned.
    """
    header, *body = rows
    rule = ["---", *["---:"] * (len(header) - 1)]
    return [_line(header), f"| {' | '.join(rule)} |", *map(_line, body)]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
