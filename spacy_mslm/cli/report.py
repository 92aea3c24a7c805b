"""`python -m spacy mslm report`: compare the scores of several models."""

from pathlib import Path
from typing import Annotated

import typer
from wasabi import msg

from .common import command, mslm_cli


@command(mslm_cli, "report", failure="The report was not written")
def report_cli(
    metrics_path: Annotated[
        Path, typer.Argument(metavar="METRICS", help="Folder with evaluations as SET/MODEL.json")
    ],
    output_path: Annotated[
        Path,
        typer.Argument(metavar="OUTPUT", help="Output folder for report.md, report.html, plots"),
    ],
    title: Annotated[str, typer.Option(help="Title of the report")] = "Comparison of models",
    baseline: Annotated[str, typer.Option(help="Model to compare F1 with")] = "vanilla",
) -> None:
    """Compare models in a Markdown file and an HTML page.

    METRICS contains files written by `spacy evaluate --output` or `spacy mslm evaluate --output`.
    """
    from ..tasks import compare

    for path in compare(metrics_path, output_path, title=title, baseline=baseline):
        msg.good(f"Saved {path}")
