"""Fit the temperature of a pipe's confidences to gold text."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from spacy.training import Example
from spacy.util import minibatch

from ..inference.calibration import Calibration, calibrate
from .scorer import confidences, judge

if TYPE_CHECKING:
    from ..pipeline.component import MSLM

BATCH = 256


def calibrate_pipe(pipe: "MSLM", examples: Iterable[Example]) -> Calibration:
    """Fit the temperature of a pipe's confidences and store it in the pipe. Training after that
    makes it stale.

    examples: Gold text that the pipe was not trained on. Their predicted documents have no
        entities, as a corpus reader yields them.
    """
    examples = list(examples)
    pipe.cfg["temperature"] = 1.0
    for batch in minibatch(examples, BATCH):
        docs = [example.predicted for example in batch]
        pipe.set_annotations(docs, pipe.predict(docs))
    judged = (judge(example, pipe.spans_key) for example in examples)
    values, correct = confidences(mentions for mentions in judged if mentions is not None)
    fit = calibrate(values, correct)
    pipe.cfg["temperature"] = fit.temperature
    return fit
