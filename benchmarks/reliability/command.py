"""The command and its table."""

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import torch
import typer
from wasabi import msg

from ..machine import write_result
from .damage import damage_files, fill_disk
from .hostile import fuzz_convert, fuzz_pipeline
from .kills import kill_stages, kill_tasks
from .load import grow, use_processes, use_threads
from .parts import Row, Setup, build_encoder, train_pipeline

HEADER = ("experiment", "cases", "survived", "lost", "doubled", "wrong")
SMALL = 0.003


def reliability(
    size: Annotated[float, typer.Option(help="Share of the full size")] = SMALL,
    full: Annotated[bool, typer.Option("--full", help="Run the full size")] = False,
    output: Annotated[Path | None, typer.Option(help="JSON file for the result")] = None,
) -> None:
    """Run all experiments and print how many cases there were and what went wrong.

    The exit code is 1 if anything was lost, doubled or wrong.
    """
    logging.disable()  # the warnings of hostile texts
    torch.set_num_threads(1)  # processes are forked, and threads of torch do not survive that
    size = 1.0 if full else size
    rows: list[Row] = []
    start = time.perf_counter()
    with TemporaryDirectory() as folder:
        setup = Setup(Path(folder), size)
        nlp = train_pipeline(build_encoder(Path(folder) / "encoder"))
        experiments: list[Callable[[], Iterator[Row]]] = [
            lambda: fuzz_pipeline(setup, nlp),
            lambda: fuzz_convert(setup),
            lambda: kill_tasks(setup, nlp),
            lambda: kill_stages(setup),
            lambda: damage_files(setup, nlp),
            lambda: fill_disk(setup, nlp),
            lambda: use_threads(setup, nlp),
            lambda: use_processes(setup, nlp),
        ]
        for experiment in experiments:
            for row in experiment():
                msg.info(f"{row.name}: {row.survived} of {row.cases}")
                rows.append(row)
        memory = [(docs, round(mb)) for docs, mb in grow(setup, nlp)]
    msg.table([tuple(row) for row in rows], header=HEADER, divider=True, aligns=tuple("lrrrrr"))
    msg.text(f"RSS in MB after documents of new words: {memory}")
    if output is not None:
        seconds = round(time.perf_counter() - start)
        result: dict[str, Any] = {"size": size, "seconds": seconds, "memory": memory}
        write_result(output, {**result, "rows": [row._asdict() for row in rows]})
    faulty = [row for row in rows if row.survived < row.cases or any(row[3:])]
    failed = [row.name for row in faulty]
    if failed:
        msg.fail(f"Something went wrong in: {', '.join(failed)}", exits=1)
    msg.good("Nothing was lost, doubled or wrong")
