"""Run a spec of `benchmarks/specs` by `spacy mslm sweep`, and store its results with the project.

Paths in these specs are relative to the project's root. Trials that have a stored result are
skipped. Several runners can work on one spec at the same time.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer
from wasabi import msg

from spacy_mslm.cli.live import print_trial
from spacy_mslm.tasks import sweep

from .accuracy_report import accuracy_report

ROOT = Path(__file__).parents[1]
SPECS = Path(__file__).parent / "specs"
RESULTS = Path(__file__).parent / "results" / "accuracy"


def accuracy(
    spec: Annotated[str, typer.Argument(help="A spec of trials, or `report`")],
    results: Annotated[
        list[Path] | None,
        typer.Argument(help="With `report`: result files [default: the stored ones]"),
    ] = None,
    output: Annotated[Path, typer.Option(help="Folder for the trials")] = ROOT
    / "training"
    / "accuracy",
    store: Annotated[Path, typer.Option(help="Folder for the results")] = RESULTS,
    detach: Annotated[bool, typer.Option(help="Run in the background and write a log")] = False,
    against: Annotated[str, typer.Option(help="With `report`: trial to compare with")] = "vanilla",
) -> None:
    """Run the trials of a spec one after another, or report results."""
    if spec == "report":
        accuracy_report(results or sorted(store.glob("*.jsonl")), against)
        return
    path = Path(spec).resolve()
    folder = (output / path.stem).resolve()
    stored = (store / f"{path.stem}.jsonl").resolve()
    if detach:
        folder.mkdir(parents=True, exist_ok=True)
        log = folder / f"runner-{os.getpid()}.log"
        arguments = [a for a in sys.argv[1:] if a != "--detach"]
        with log.open("w") as file:
            subprocess.Popen(
                [sys.executable, "-m", "benchmarks", *arguments],
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        msg.info(f"Running in the background, log: {log}")
        return
    os.chdir(ROOT)
    swept = sweep(path, folder, results=stored, watch=print_trial)
    if swept.failures:
        msg.fail(f"{len(swept.failures)} trials failed, see {swept.log}", exits=1)
