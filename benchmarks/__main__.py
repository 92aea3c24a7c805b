"""`python -m benchmarks reference|report|long-text`."""

import typer

from .long_text import long_text
from .reference import reference, report

app = typer.Typer(no_args_is_help=True, add_completion=False)
app.command("reference")(reference)
app.command("report")(report)
app.command("long-text")(long_text)

if __name__ == "__main__":
    app(prog_name="python -m benchmarks")
