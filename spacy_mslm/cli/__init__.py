"""`python -m spacy mslm ...`: spaCy finds these commands through the `spacy_cli` entry point.

Every spaCy command imports this package, including `spacy --help`. The modules of the commands
therefore import nothing heavy at their top: each command imports its task when it runs.
"""

from spacy.cli._util import app

# Importing a module registers its command.
from . import (  # noqa: F401
    annotate,
    calibrate,
    card,
    convert,
    curves,
    evaluate,
    export,
    fetch,
    heatmap,
    init,
    optimize,
    paper,
    pmi,
    pretrain,
    report,
    serve,
    shrink,
    sweep,
    train,
    try_,
    tune,
    verify,
    weak,
)
from .common import mslm_cli, show_messages

app.add_typer(mslm_cli, name="mslm")
show_messages()
