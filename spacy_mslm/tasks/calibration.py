"""Calibrate the confidences of a pipeline."""

import shutil
from pathlib import Path
from typing import NamedTuple

from ..corpus.readers import make_corpus
from ..errors import Errors
from ..pipeline.find import find_mslm, run_pipes_before
from ..pipeline.loading import load_pipeline
from ..scoring.calibrate import CalibrationFit, calibrate_pipe
from ..util.files import HIDDEN
from ..util.manifest import signed_folder


class Calibrated(NamedTuple):
    """The calibration with its errors, and the folder of the calibrated pipeline."""

    fit: CalibrationFit
    path: Path


def calibrate(
    model: str, dev_path: Path, output: Path | None = None, force: bool = False
) -> Calibrated:
    """Calibrate the confidences of a pipeline on a development set and save it.

    Predicted entities stay the same; `span._.confidence` becomes the probability that a mention is
    right.

    Args:
        model: Name or path of the pipeline.
        dev_path: Annotated text that the pipeline was not trained on: a .spacy file, a folder of
            them, or an IOB file.
        output: Folder to save the pipeline to; by default it is changed in place.
        force: Replace `output` if it exists.

    Raises:
        ValueError: If the pipeline cannot be saved there, predicts too little on the text, or its
            confidences would not be better. Nothing is changed.
    """
    path = output or Path(model)
    if output is None and not path.is_dir():
        raise ValueError(
            f"{model} is not a folder, so the result cannot be saved in place. Give a folder for "
            "it (--output)."
        )
    if output is not None and output.exists() and not force:
        raise ValueError(Errors.M133.format(path=output))
    nlp = load_pipeline(model)
    name, pipe = find_mslm(nlp, model)
    examples = list(make_corpus(dev_path)(nlp))
    docs = run_pipes_before(nlp, name, (example.predicted for example in examples))
    for example, doc in zip(examples, docs, strict=True):
        example.predicted = doc
    fit = calibrate_pipe(pipe, examples)
    with signed_folder(path) as folder:
        # Only the pipe's own folder changes; the rest of the pipeline stays as it is.
        shutil.copytree(nlp.path, folder, dirs_exist_ok=True, ignore=HIDDEN)
        pipe.to_disk(folder / name)
    return Calibrated(fit, path)
