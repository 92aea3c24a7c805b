"""`python -m spacy mslm shrink`: make an encoder smaller."""

from pathlib import Path

from spacy.cli._util import Arg, Opt
from wasabi import msg

from .common import command, mslm_cli, show_table


@command(mslm_cli, "shrink", failure="The encoder was not made smaller")
def shrink_cli(
    encoder: str = Arg(..., metavar="ENCODER", help="Hub name or folder of an encoder"),
    output: Path = Arg(..., metavar="OUTPUT", help="Output folder"),
    layers: str | None = Opt(None, help="Layers to keep, such as 0,2,5 [default: all]"),
    text: list[str] = Opt([], help="File of text whose wordpieces are kept; may be repeated"),
    vocab_size: int | None = Opt(None, help="Number of pieces to keep [default: all in the text]"),
    force: bool = Opt(False, "--force", help="Replace OUTPUT if it exists"),
) -> None:
    """Write a smaller encoder: fewer layers, fewer wordpieces, weights in 16-bit floats.

    The most frequent pieces of the text are kept, and all characters, so that every word can still
    be spelled. Train the result with `pretrain --paths.teacher ENCODER`. This works for BERT.
    """
    from ..tasks import shrink

    try:
        kept = None if layers is None else [int(layer) for layer in layers.split(",")]
    except ValueError:
        raise ValueError(f"--layers {layers}: give numbers with commas, such as 0,2,5.") from None
    before, after = shrink(
        *(encoder, output), layers=kept, text=text, vocab_size=vocab_size, force=force
    )
    show_table(
        [
            (name, f"{old:,}", f"{new:,}")
            for name, old, new in zip(before._fields, before, after, strict=True)
        ],
        ("", "before", "after"),
    )
    msg.good(f"Saved encoder to {output}")
