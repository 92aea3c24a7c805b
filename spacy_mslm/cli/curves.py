"""`python -m spacy mslm curves`: draw the course of trainings."""

from pathlib import Path

from spacy.cli._util import Arg, Opt
from wasabi import msg

from .common import command, mslm_cli, show_table


@command(mslm_cli, "curves", failure="The curves were not drawn")
def curves_cli(
    paths: list[Path] = Arg(
        ...,
        metavar="LOG... OUTPUT",
        help="Log files (JSON lines), then the output .png file",
        show_default=False,
    ),
    score: str = Opt("ents_f", help="Score to draw, such as ents_f or mslm_masked_f"),
) -> None:
    """Draw a score by update for one or more trainings.

    LOG is written by a training with --training.logger.output_file LOG.
    """
    from ..tasks import draw_training

    *logs, output = paths
    curves = draw_training(logs, output, score=score)
    rows = [(c.name, f"{c.best:.1f}", c.reaches(c.best), c.steps[-1]) for c in curves]
    show_table(rows, ("log", f"best {score}", "at update", "last update"))
    msg.good(f"Saved {output}")
