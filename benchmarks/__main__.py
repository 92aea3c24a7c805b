"""`python -m benchmarks COMMAND`. Without a command, it lists all commands."""

import typer

from .accuracy import accuracy
from .annotate import annotate
from .long_text import long_text
from .masking_cost import masking_cost
from .operations import operations
from .paper import paper_trials
from .reference import reference, report
from .reliability import reliability
from .scale import scale
from .serve import serve
from .several_types import several_types
from .speed import speed
from .strategies import strategies, strategies_report
from .train_speed import train_speed
from .weak_annotators import weak_annotators
from .weak_labels import weak_kills, weak_labels
from .weak_training import weak_training
from .workers import workers

app = typer.Typer(no_args_is_help=True, add_completion=False)
app.command("accuracy")(accuracy)
app.command("annotate")(annotate)
app.command("reference")(reference)
app.command("report")(report)
app.command("long-text")(long_text)
app.command("strategies")(strategies)
app.command("strategies-report")(strategies_report)
app.command("masking-cost")(masking_cost)
app.command("reliability")(reliability)
app.command("operations")(operations)
app.command("paper")(paper_trials)
app.command("scale")(scale)
app.command("serve")(serve)
app.command("several-types")(several_types)
app.command("speed")(speed)
app.command("train")(train_speed)
app.command("weak-annotators")(weak_annotators)
app.command("weak-kills")(weak_kills)
app.command("weak-labels")(weak_labels)
app.command("weak-training")(weak_training)
app.command("workers")(workers)

if __name__ == "__main__":
    app(prog_name="python -m benchmarks")
