"""`python -m spacy mslm sweep`: run trainings of several configs, sets and seeds."""

from pathlib import Path

from spacy.cli._util import Arg, Opt
from wasabi import msg

from ..tasks.choices import Engine
from .common import Address, GpuId, command, mslm_cli
from .live import watched


@command(mslm_cli, "sweep", failure="The sweep has stopped")
def sweep_cli(
    spec_path: Path = Arg(..., metavar="SPEC", help="YAML file of experiments", dir_okay=False),
    output: Path = Arg(..., metavar="OUTPUT", help="Folder for trials and results"),
    jobs: int | None = Opt(
        *(None, "--jobs", "-j"),
        min=1,
        help="Number of trials at the same time [default: 1, or as many as fit on the Ray cluster]",
    ),
    threads: int | None = Opt(
        None, min=1, help="Threads of each training [default: the cores, divided among the jobs]"
    ),
    use_gpu: GpuId = -1,
    engine: Engine = Opt(Engine.local, help="Where to work: this machine, or a Ray cluster"),
    address: Address = None,
    gpus: float = Opt(0.0, min=0, help="GPUs per training on Ray, may be a fraction"),
) -> None:
    """Train all combinations of settings, sets and seeds of SPEC, and score them.

    OUTPUT/results.jsonl gets a line for each finished trial. When the command is repeated, these
    are skipped, and interrupted trials continue. Trials that fail are listed in
    OUTPUT/failures.jsonl, and the exit code is 1.
    """
    from ..tasks import sweep

    with watched(output) as watch:
        swept = sweep(
            spec_path,
            output,
            jobs=jobs,
            threads=threads,
            gpu_id=use_gpu,
            engine=engine,
            address=address,
            gpus=gpus,
            watch=watch,
        )
    msg.good(f"{swept.trials - len(swept.failures):,} trials are finished: {swept.path}")
    if swept.failures:
        msg.fail(
            f"{len(swept.failures):,} of {swept.trials:,} trials failed, see {swept.log}", exits=1
        )
