"""`python -m spacy mslm pretrain`: plain text -> an encoder."""

from pathlib import Path
from typing import Annotated, Any

import typer


def pretrain_cli(
    ctx: typer.Context,
    config_path: Annotated[
        Path, typer.Argument(metavar="CONFIG", help="Config with a [pretraining] block")
    ],
    output_path: Annotated[
        Path, typer.Argument(metavar="OUTPUT", help="Folder of the encoder, and of checkpoints")
    ],
    force: Annotated[
        bool, typer.Option("--force", help="Start anew where OUTPUT has another pretraining in it")
    ] = False,
    use_gpu: Annotated[int, typer.Option("--gpu-id", "-g", help="GPU; -1 for the CPU")] = -1,
) -> None:
    """Train an encoder's masked LM on plain text, from nothing or on from a checkpoint.

    OUTPUT becomes a Hugging Face checkpoint. A run that was stopped goes on from its last one when
    the command is given again. Settings of CONFIG are changed as with `spacy train`:
    --paths.text notes.txt --vars.size small.
    """
    from spacy.cli._util import parse_config_overrides, setup_gpu
    from wasabi import msg

    overrides = parse_config_overrides(ctx.args)
    try:
        setup_gpu(use_gpu, silent=True)
        record = run(config_path, output_path, overrides, force)
    except (ValueError, OSError) as err:
        msg.fail("Pretraining has stopped", str(err), exits=1)
    rows = [
        (row["step"], f"{row['loss']:.3f}", _rounded(row["ppl"]), row["pieces_per_second"])
        for row in record["history"]
    ]
    header = ("step", "loss", "held-out perplexity", "pieces/s")
    msg.table(rows, header=header, divider=True, aligns=("r",) * 4)
    msg.good(f"Written: {output_path}")


def run(config_path: Path, output_path: Path, overrides: dict[str, Any], force: bool) -> dict:
    """Read the config, train, and return the record of it."""
    from spacy.util import load_config, registry

    from ..training.pretraining import pretrain

    config = load_config(config_path, overrides=overrides, interpolate=False).interpolate()
    if "pretraining" not in config:
        raise ValueError(
            f"{config_path} has no [pretraining] block. Start from configs/pretrain.cfg."
        )
    settings = config["pretraining"]
    pretraining = registry.resolve({"pretraining": settings})["pretraining"]
    return pretrain(pretraining, output_path, settings, force)


def _rounded(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
