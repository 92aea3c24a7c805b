"""`python -m spacy mslm tune`: find masking rates and view for a corpus."""

from pathlib import Path

import typer
from spacy.cli._util import Arg, Opt
from wasabi import msg

from ..tasks.choices import Engine
from .common import Address, GpuId, command, config_overrides, mslm_cli
from .live import watched


@command(mslm_cli, "tune", failure="The search has stopped", overrides=True)
def tune_cli(
    ctx: typer.Context,
    config_path: Path = Arg(..., metavar="CONFIG", help="Config file, as for 'spacy train'"),
    output: Path = Arg(..., metavar="OUTPUT", help="Folder for trials, config.cfg, tuning.json"),
    minutes: float = Opt(60, min=0, help="Time for all trainings"),
    seed: int = Opt(0, min=0, help="Random seed of the search"),
    seeds: int = Opt(3, min=1, help="Number of other seeds to compare with the default"),
    jobs: int | None = Opt(
        *(None, "--jobs", "-j"),
        min=1,
        help="Number of trainings at the same time [default: 1, or as many as fit on Ray]",
    ),
    threads: int | None = Opt(
        None, min=1, help="Threads of each training [default: the cores, divided among the jobs]"
    ),
    use_gpu: GpuId = -1,
    engine: Engine = Opt(Engine.local, help="Where to work: this machine, or a Ray cluster"),
    address: Address = None,
    gpus: float = Opt(0.0, min=0, help="GPUs per training on Ray, may be a fraction"),
) -> None:
    """Find masking rates, view and length of the adaptation for a corpus.

    Settings are compared on the dev set. OUTPUT/config.cfg is a complete config with the best ones,
    or with those of CONFIG if it is not sure that others are better. To override settings of
    CONFIG, use options as in 'spacy train': --paths.train train.spacy --paths.dev dev.spacy.
    """
    from ..tasks import tune

    with watched(output) as watch:
        found = tune(
            config_path,
            output,
            config_overrides(ctx),
            minutes=minutes,
            seed=seed,
            seeds=seeds,
            jobs=jobs,
            threads=threads,
            gpu_id=use_gpu,
            engine=engine,
            address=address,
            gpus=gpus,
            watch=watch,
        )
    settings = ", ".join(f"{name} {value}" for name, value in found.settings.items())
    msg.info(
        f"Best of {found.tried} other settings: {settings}. F1 {found.challenger_f:.1f}, default "
        f"{found.default_f:.1f}; difference {found.difference} (95 % interval; clean text, "
        f"{found.documents:,} documents and {len(found.seeds)} seeds that the search has not seen)"
    )
    if found.better:
        msg.good(f"Better than the default. Saved its config to {found.path}")
    else:
        msg.warn(f"No better than the default, whose config is saved to {found.path}")
