"""Fit the temperature of a pipe's confidences to gold documents."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from spacy.training import Example

from ..inference.calibration import Calibration, fit_calibration
from .scorer import confidences, judge

if TYPE_CHECKING:
    from ..pipeline.component import MSLM

BATCH = 256


def calibrate_pipe(pipe: "MSLM", examples: Iterable[Example]) -> Calibration:
    """Fit the temperature of a pipe's confidences and store it in the pipe.

    Calibrate again after further training.

    Args:
        pipe: The pipe.
        examples: Gold documents that the pipe was not trained on. The predicted documents have no
            entities, as in the examples of a corpus reader.

    Returns:
        The temperature and its effect.
    """
    examples = list(examples)
    pipe.cfg["temperature"] = 1.0
    for _ in pipe.pipe((example.predicted for example in examples), batch_size=BATCH):
        pass  # the pipe writes entities to the documents
    judged = (judge(example, pipe.spans_key) for example in examples)
    values, correct = confidences(mentions for mentions in judged if mentions is not None)
    fit = fit_calibration(values, correct)
    pipe.cfg["temperature"] = fit.temperature
    return fit
