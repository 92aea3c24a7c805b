"""`python -m spacy mslm ...`: found through the `spacy_cli` entry point.

Every spaCy command imports this package, `spacy --help` too. So a command's module imports nothing
heavy at its top: what it needs is imported inside of the function that needs it.
"""

import typer
from spacy.cli._util import app

from .calibrate import calibrate_cli
from .convert import convert_cli
from .evaluate import evaluate_cli
from .fetch import fetch_cli
from .heatmap import heatmap_cli
from .optimize import optimize_cli
from .pmi import pmi_cli
from .pretrain import pretrain_cli
from .report import report_cli
from .weak import weak_app

mslm_cli = typer.Typer(
    name="mslm", help="Commands of spacy-mslm: entity corpora and models.", no_args_is_help=True
)
mslm_cli.command("fetch")(fetch_cli)
mslm_cli.command("convert")(convert_cli)
mslm_cli.command("heatmap")(heatmap_cli)
mslm_cli.command("pmi")(pmi_cli)
mslm_cli.command(
    "pretrain", context_settings={"allow_extra_args": True, "ignore_unknown_options": True}
)(pretrain_cli)
mslm_cli.command("calibrate")(calibrate_cli)
mslm_cli.command("evaluate")(evaluate_cli)
mslm_cli.command("optimize")(optimize_cli)
mslm_cli.command("report")(report_cli)
mslm_cli.add_typer(weak_app, name="weak")

app.add_typer(mslm_cli, name="mslm")
