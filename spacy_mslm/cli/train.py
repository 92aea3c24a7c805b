"""`python -m spacy mslm train`: train a pipeline, and continue an interrupted training."""

from pathlib import Path

import typer
from spacy.cli._util import Arg, Opt
from wasabi import msg

from .common import GpuId, command, config_overrides, mslm_cli


@command(mslm_cli, "train", failure="The training failed", overrides=True)
def train_cli(
    ctx: typer.Context,
    config_path: Path = Arg(..., metavar="CONFIG", help="Config file, as for 'spacy train'"),
    output_path: Path = Opt(
        ..., "--output", "-o", help="Output folder for model-best, model-last and checkpoint"
    ),
    resume: bool = Opt(
        False, "--resume", help="Continue the training in OUTPUT, or start if there is none"
    ),
    checkpoint_every: int = Opt(
        500, "--checkpoint-every", min=1, help="Number of updates between checkpoints"
    ),
    workers: int = Opt(1, "--workers", min=1, help="Number of processes that share each batch"),
    code_path: Path | None = Opt(
        None, "--code", "-c", help="Python file with registered functions to import"
    ),
    use_gpu: GpuId = -1,
) -> None:
    """Train a pipeline like 'spacy train', with checkpoints.

    The weights are the same. With --resume, a training that was interrupted at any moment continues
    and ends with the same weights as without the interruption. To override settings of CONFIG, use
    options as in 'spacy train': --paths.train train.spacy --training.max_steps 1000.
    """
    from ..tasks import train

    result = train(
        config_path,
        output_path,
        config_overrides(ctx),
        resume=resume,
        checkpoint_every=checkpoint_every,
        workers=workers,
        code_path=code_path,
        use_gpu=use_gpu,
    )
    best = f"best score {result.best_score:.4f} at step {result.best_step}"
    msg.good(f"Saved pipeline to {result.path} after {result.steps} updates, {best}")
