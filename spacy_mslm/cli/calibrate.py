"""`python -m spacy mslm calibrate`: confidences that mean probabilities."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import Errors

if TYPE_CHECKING:
    from ..inference.calibration import Calibration


def calibrate_cli(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Pipeline: folder or package")],
    dev_path: Annotated[
        Path,
        typer.Argument(
            metavar="DEV", help="Annotated text that was not trained on: .spacy, folder or IOB file"
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder for the result; else it goes into MODEL"),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace OUTPUT if it is there")] = False,
    use_gpu: Annotated[int, typer.Option("--gpu-id", "-g", help="GPU; -1 for the CPU")] = -1,
) -> None:
    """Fit the temperature of a pipeline's confidences on a development set, and save it.

    Entities stay the same; `span._.confidence` becomes the probability that a mention is right.
    """
    from spacy.cli._util import setup_gpu
    from wasabi import msg

    try:
        setup_gpu(use_gpu, silent=True)
        fit, path = calibrate(model, dev_path, output, force)
    except (ValueError, OSError) as err:
        msg.fail("The calibration failed; nothing was changed", str(err), exits=1)
    rows = [
        ("temperature", f"{fit.temperature:.3f}"),
        ("predicted mentions", f"{fit.mentions:,}"),
        ("ECE on DEV before", f"{100 * fit.error_before:.2f}"),
        ("ECE on DEV after", f"{100 * fit.error_after:.2f}"),
    ]
    msg.table(rows, aligns=("l", "r"))
    msg.good(f"Saved: {path}")


def calibrate(
    model: str, dev_path: Path, output: Path | None, force: bool = False
) -> "tuple[Calibration, Path]":
    """Fit and save; returns the fit, and where the pipeline went."""
    import shutil

    import spacy

    from ..corpus.readers import make_corpus
    from ..pipeline.find import find_mslm, run_pipes_before
    from ..scoring.calibrate import calibrate_pipe
    from ..util.files import replaced_folder

    path = output or Path(model)
    if output is None and not path.is_dir():
        raise ValueError(
            f"{model} is no folder, so that the result cannot be saved in its place. Say where "
            "to save it (--output FOLDER)."
        )
    if output is not None and output.exists() and not force:
        raise ValueError(Errors.M133.format(path=output))
    nlp = spacy.load(model)
    name, pipe = find_mslm(nlp, model)
    examples = list(make_corpus(dev_path)(nlp))
    docs = run_pipes_before(nlp, name, (example.predicted for example in examples))
    for example, doc in zip(examples, docs, strict=True):
        example.predicted = doc
    fit = calibrate_pipe(pipe, examples)
    # Only the pipe's own folder changes: whatever else is in the pipeline's stays as it is.
    if output is None:
        with replaced_folder(path / name) as folder:
            pipe.to_disk(folder)
    else:
        with replaced_folder(path) as folder:
            shutil.copytree(nlp.path, folder, dirs_exist_ok=True)
            pipe.to_disk(folder / name)
    return fit, path
