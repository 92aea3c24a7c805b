"""`python -m spacy mslm report`: scores of several models -> one comparison."""

from pathlib import Path
from typing import Annotated

import typer


def report_cli(
    metrics_path: Annotated[
        Path, typer.Argument(metavar="METRICS", help="Folder with SET/MODEL.json of evaluations")
    ],
    output_path: Annotated[
        Path, typer.Argument(metavar="OUTPUT", help="Folder for report.md, report.html, pictures")
    ],
    title: Annotated[str, typer.Option(help="Of the report")] = "Comparison of models",
    baseline: Annotated[str, typer.Option(help="Model to compare F1 with")] = "vanilla",
) -> None:
    """Compare models, as Markdown and as an HTML page.

    METRICS has what `spacy evaluate --output` or `spacy mslm evaluate --output` has written.
    """
    from wasabi import msg

    try:
        written = report(metrics_path, output_path, title, baseline)
    except (ValueError, OSError, ImportError) as err:
        msg.fail("The report was not written", str(err), exits=1)
    for path in written:
        msg.good(f"Written: {path}")


def report(metrics_path: Path, output_path: Path, title: str, baseline: str) -> list[Path]:
    """Read, draw and write; returns the files."""
    from ..tasks.compare.html import render_html
    from ..tasks.compare.tables import by_heading, make_tables, read_results, render_markdown
    from ..util.files import replace_files

    try:
        from ..tasks.compare.plot import draw_scores
    except ImportError as err:
        raise ImportError(
            f"A report has pictures, for which matplotlib is needed ({err}). Install it with "
            "'pip install \"spacy-mslm[plots]\"'."
        ) from None

    results = read_results(metrics_path, baseline)
    tables = make_tables(results, baseline)
    groups = by_heading(results)
    pictures = {heading: draw_scores(heading, own) for heading, own in groups.items()}
    names = {heading: f"{own[0].set}-{own[0].protocol}.png" for heading, own in groups.items()}
    files = {names[heading]: data for heading, data in pictures.items()}
    files["report.md"] = render_markdown(title, tables, names).encode("utf8")
    files["report.html"] = render_html(title, tables, pictures)
    targets = {output_path / name: data for name, data in files.items()}
    replace_files(targets)
    return list(targets)
