"""`python -m spacy mslm try`: show the entities of a text."""

import sys

import typer
from spacy.cli._util import Arg, Opt
from wasabi import msg

from .common import command, mslm_cli, show_table


@command(mslm_cli, "try", failure="Could not find entities")
def try_cli(
    text: str | None = Arg(None, metavar="[TEXT]", help="The text [default: standard input]"),
    model: str = Opt("en_mslm_mini", help="Pipeline name or path"),
) -> None:
    """Show the entities of a text, with their types and confidences.

    Exits with 1 if there are none.
    """
    from ..tasks import find_entities

    if text is None:
        text = sys.stdin.read()
    if not text.strip():
        raise ValueError('There is no text. Give it as an argument, as in: try "no asthma"')
    found = find_entities(text, model)
    if not found:
        msg.warn("No entities found")
        raise typer.Exit(1)
    rows = []
    for entity in found:
        confidence = "-" if entity.confidence is None else f"{entity.confidence:.2f}"
        rows.append((" ".join(entity.text.split()), entity.label, confidence))
    show_table(rows, ("entity", "type", "confidence"), left=2)
