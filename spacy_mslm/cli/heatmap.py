"""`python -m spacy mslm heatmap`: draw how confident models are in each word of some texts."""

from pathlib import Path

from spacy.cli._util import Arg, Opt
from wasabi import msg

from .common import command, mslm_cli


@command(mslm_cli, "heatmap", failure="The heat map was not drawn")
def heatmap_cli(
    arguments: list[str] = Arg(
        ...,
        metavar="MODEL... TEXTS",
        help="Pipeline names or paths, then a text file with one text per line, a .spacy file or "
        "folder, or an IOB file (.tsv, .iob, .conll)",
        show_default=False,
    ),
    output: Path = Opt(..., "--output", "-o", help="Output .html or .png file"),
    limit: int = Opt(10, "--limit", "-n", min=0, help="Number of texts to show, 0 for all"),
) -> None:
    """Draw how confident one or more models are in the class of every word.

    Models are shown below each other on the same tokens, together with the gold entities if the
    texts are annotated.
    """
    from ..tasks import draw_heatmap

    *models, texts = arguments
    blocks = draw_heatmap(models, Path(texts), output, limit=limit)
    msg.good(f"Saved {output}; texts: {len(blocks)}")
