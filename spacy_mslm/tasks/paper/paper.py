"""Write the tables and figures of the paper as a page, CSV files and pictures."""

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from ...util.files import replace_files
from ..curves import SCORE, find_drawing
from ..rows import read_rows
from . import specs
from .contents import KINDS, make_table
from .csv_file import render_csv
from .curves import curve_panels
from .lines import Table
from .page import render_page
from .tables import Sources

PAGE = "paper.html"


class Paper(NamedTuple):
    """What was written.

    Attributes:
        tables: The tables.
        missing: The commands that fill missing cells.
        files: The files.
    """

    tables: list[Table]
    missing: list[str]
    files: list[Path]


def list_tables() -> dict[str, str]:
    """Return the titles of all tables and figures by name."""
    return {name: kind.title for name, kind in KINDS.items()}


def write_paper(
    names: Sequence[str],
    results: Path,
    output: Path,
    *,
    corpora: Path | None = None,
) -> Paper:
    """Write tables and figures of the paper with our figures beside the paper's.

    Args:
        names: Their names, such as "table8" or "figure4"; all if empty.
        results: The folder with the results of `spacy mslm sweep`. If there are none, only the
            paper's figures are shown.
        output: The folder for paper.html, a CSV file per table, a PNG per figure, and the specs of
            the trials that fill the tables.
        corpora: The folder of converted corpora, for Tables 9, 11 and 14.

    Raises:
        ValueError: If a name or a row is wrong, or the folder of corpora does not exist.
        ImportError: If the extra `plots` is not installed.
    """
    chosen = choose_tables(names)
    if corpora is not None and not corpora.is_dir():
        raise ValueError(f"There is no folder {corpora}. Give the folder of converted corpora.")
    if results.exists() and not results.is_dir():
        raise ValueError(f"{results} is a file. Give the folder of the results.")
    find_drawing()
    sources = Sources(read_rows(results), results, corpora, output)
    tables = [make_table(name, sources) for name in chosen]
    found = ((table.name, _draw(table, results)) for table in tables)
    pictures = {name: data for name, data in found if data is not None}
    contents = {output / PAGE: render_page(tables, pictures)}
    contents |= {output / f"{name}.png": data for name, data in pictures.items()}
    contents |= {output / f"{t.name}.csv": render_csv(t) for t in tables if t.lines}
    texts = {name: specs.spec_text(name) for name in specs.NAMES}
    for name, text in texts.items():
        contents[output / specs.SPECS / f"{name}.yml"] = text.encode("utf8")
    replace_files(contents)
    missing = dict.fromkeys(li.command for t in tables for li in t.lines if li.command)
    return Paper(tables, list(missing), list(contents))


def choose_tables(names: Sequence[str]) -> list[str]:
    """Return the tables that are meant, in the order of the page.

    Raises:
        ValueError: If there is no such table. Names the nearest one.
    """
    known = {**{name: name for name in KINDS}, **{a: n for n, k in KINDS.items() for a in k.also}}
    for name in names:
        if name not in known:
            nearest = get_close_matches(name.lower(), known, n=1)
            hint = f"Did you mean {nearest[0]!r}? " if nearest else ""
            raise ValueError(f"There is no {name!r}. {hint}Known are: {', '.join(known)}.")
    meant = {known[name] for name in names} or set(KINDS)
    return [name for name in KINDS if name in meant]


def _draw(table: Table, results: Path) -> bytes | None:
    """Return the picture of a table, None if it has none."""
    from .figures import draw_bars, draw_grid

    if table.name == "figure2":
        path = results / "figure2.png"
        return path.read_bytes() if path.exists() else None
    if table.name == "figure3":
        panels = curve_panels(results)
        return find_drawing()(panels, SCORE) if panels else None
    if table.name == "figure4":
        return draw_grid(table)
    if table.name == "figure5":
        return draw_bars(table)
    return None
