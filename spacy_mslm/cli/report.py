"""`python -m spacy mslm report`: compare the scores of several models."""

from pathlib import Path

from spacy.cli._util import Arg, Opt
from wasabi import msg

from .common import command, mslm_cli


@command(mslm_cli, "report", failure="The report was not written")
def report_cli(
    metrics_path: Path = Arg(
        ...,
        metavar="METRICS",
        help="Folder with evaluations (SET/MODEL.json or SET/MODEL/SEED.json), or results of sweep",
    ),
    output_path: Path = Arg(..., metavar="OUTPUT", help="Output folder of report and plots"),
    title: str = Opt("Comparison of models", help="Title of the report"),
    baseline: str = Opt("vanilla", help="Model to compare F1 with"),
) -> None:
    """Compare models in a Markdown file and an HTML page.

    METRICS contains files written by `spacy evaluate --output` or `spacy mslm evaluate --output`,
    or is a results.jsonl of `spacy mslm sweep`. With several seeds, scores are means, and
    differences have intervals over seeds and documents.
    """
    from ..tasks import compare

    for path in compare(metrics_path, output_path, title=title, baseline=baseline):
        msg.good(f"Saved {path}")
