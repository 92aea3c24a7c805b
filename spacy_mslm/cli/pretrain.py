"""`python -m spacy mslm pretrain`: train an encoder on plain text."""

from pathlib import Path

import typer
from spacy.cli._util import Arg, Opt
from wasabi import msg

from .common import GpuId, command, config_overrides, mslm_cli, show_table


@command(mslm_cli, "pretrain", failure="Pretraining failed", overrides=True)
def pretrain_cli(
    ctx: typer.Context,
    config_path: Path = Arg(..., metavar="CONFIG", help="Config file with a [pretraining] block"),
    output_path: Path = Arg(..., metavar="OUTPUT", help="Output folder of the encoder"),
    force: bool = Opt(False, "--force", help="Start over if OUTPUT holds another pretraining"),
    use_gpu: GpuId = -1,
) -> None:
    """Train the masked LM of an encoder on plain text, from scratch or from a checkpoint.

    OUTPUT becomes a Hugging Face checkpoint. An interrupted run continues when the command is
    repeated. To override settings of CONFIG, use options as in `spacy train`: --paths.text
    notes.txt --vars.size small.
    """
    from ..tasks import pretrain
    from ..tasks.gpu import choose_gpu

    choose_gpu(use_gpu)
    result = pretrain(config_path, output_path, config_overrides(ctx), force=force)
    rows = []
    for row in result.record["history"]:
        perplexity = "-" if row["ppl"] is None else f"{row['ppl']:.1f}"
        rows.append((row["step"], f"{row['loss']:.3f}", perplexity, row["pieces_per_second"]))
    show_table(rows, ("step", "loss", "held-out perplexity", "pieces/s"), left=0)
    msg.good(f"Saved encoder to {output_path}")
