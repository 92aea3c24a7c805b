"""`python -m spacy mslm calibrate`: confidences that mean probabilities."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import Errors

if TYPE_CHECKING:
    from ..calibration import Calibration


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
        typer.Option("--output", "-o", help="Folder for the result; else MODEL is replaced"),
    ] = None,
    use_gpu: Annotated[int, typer.Option("--gpu-id", "-g", help="GPU; -1 for the CPU")] = -1,
) -> None:
    """Fit the temperature of a pipeline's confidences on a development set, and save it.

    Entities stay the same; `span._.confidence` becomes the probability that a mention is right.
    """
    from spacy.cli._util import setup_gpu
    from wasabi import msg

    setup_gpu(use_gpu, silent=True)
    try:
        fit, path = calibrate(model, dev_path, output)
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


def calibrate(model: str, dev_path: Path, output: Path | None) -> "tuple[Calibration, Path]":
    """Fit and save; returns the fit, and where the pipeline went."""
    import spacy

    from ..component import find_mslm
    from ..readers import make_corpus
    from ..saving import safe_save

    path = output or Path(model)
    if output is None and not path.is_dir():
        raise ValueError(Errors.M132.format(model=model))
    nlp = spacy.load(model)
    name, pipe = find_mslm(nlp, model)
    with nlp.select_pipes(enable=nlp.pipe_names[: nlp.pipe_names.index(name)]):
        examples = list(make_corpus(dev_path)(nlp))
        docs = list(nlp.pipe(example.predicted for example in examples))
    for example, doc in zip(examples, docs, strict=True):
        example.predicted = doc
    fit = pipe.calibrate(examples)
    safe_save(nlp, path)
    return fit, path
