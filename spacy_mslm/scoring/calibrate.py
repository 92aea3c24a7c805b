"""Fit the confidences of a pipe to gold documents, and check the fit on other documents."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from spacy.training import Example
from spacy.util import minibatch

from ..inference.calibration import (
    EPSILON,
    FEATURES,
    Calibration,
    calibration_error,
    debiased_error,
    error_by_chance,
    features,
    sigmoid,
    uncalibrated,
)
from .logistic import fit_logistic
from .scorer import judge, judged_spans

if TYPE_CHECKING:
    from ..pipeline.component import MSLM

BATCH = 256
FOLDS = 5
# Pull of the weights to those of uncalibrated confidences, and of the offsets of types to 0. An
# offset is halved with about 25 mentions of a type, so types with few mentions have hardly any.
STRENGTH, TYPE_STRENGTH, OFFSET_STRENGTH, FIXED = 1.0, 5.0, 0.01, 1e9
# The maps, of which the one with the lowest log-loss out of fold is taken, and their features. The
# others have a weight of 0.
KINDS = {
    "temperature": FEATURES[:1],
    "logistic": tuple(name for name in FEATURES if not name.startswith("over_")),
    "logistic with bends": FEATURES,
}


class CalibrationFit(NamedTuple):
    """A calibration and its effect on the documents that it was fitted to.

    Attributes:
        calibration: The calibration.
        kind: The map that was chosen, one of KINDS.
        error_before: The expected calibration error (ECE) without calibration.
        error_fitted: The ECE of the calibration on the documents that it was fitted to.
        error_out_of_fold: The ECE where each fifth of the documents is calibrated by a fit to the
            others. This is what to expect on new text of the same kind.
        error_debiased: The same without the part that chance explains.
        error_by_chance: The ECE out of fold that exact confidences would have.
        mentions: The number of predicted mentions.
    """

    calibration: Calibration
    kind: str
    error_before: float
    error_fitted: float
    error_out_of_fold: float
    error_debiased: float
    error_by_chance: float
    mentions: int


class Observed(NamedTuple):
    """Predicted mentions that can be judged.

    Attributes:
        documents: (n,) The document of each.
        types: (n,) The index of its type.
        evidence: (n, evidence) Its Evidence.
        correct: (n,) Whether a gold mention has the same boundaries and type.
    """

    documents: np.ndarray
    types: np.ndarray
    evidence: np.ndarray
    correct: np.ndarray


def calibrate_pipe(pipe: "MSLM", examples: Iterable[Example]) -> CalibrationFit:
    """Fit the confidences of a pipe and store the calibration in the pipe.

    Calibrate again after further training.

    Args:
        pipe: The pipe.
        examples: Gold documents that the pipe was not trained on. The predicted documents have no
            entities, as in the examples of a corpus reader.

    Returns:
        The calibration and its effect.

    Raises:
        ValueError: If there is not enough to fit, or the calibration does not lower the error on
            documents that it was not fitted to. The pipe is unchanged.
    """
    fit = fit_calibration(observe(pipe, examples), pipe.labels)
    if fit.error_out_of_fold >= fit.error_before:
        raise ValueError(
            "The calibration does not make confidences better: on documents that it was not "
            f"fitted to, the expected calibration error is {100 * fit.error_out_of_fold:.2f} % "
            f"with it and {100 * fit.error_before:.2f} % without, over {fit.mentions} mentions. "
            "The pipeline keeps the confidences that it has. More annotated text may help."
        )
    pipe.cfg["calibration"] = fit.calibration.to_dict()
    return fit


def observe(pipe: "MSLM", examples: Iterable[Example]) -> Observed:
    """Predict the documents, whatever the threshold of the pipe, and judge the mentions."""
    documents, types, evidence, correct = [], [], [], []
    with pipe.without_threshold():
        for batch in minibatch(enumerate(examples), BATCH):
            docs = [example.predicted for _, example in batch]
            predictions = pipe.predict(docs)
            pipe.set_annotations(docs, predictions)
            for (index, example), prediction in zip(batch, predictions, strict=True):
                found = {(e.start, e.end, pipe.labels[e.type]): e for e in prediction.entities}
                judged = judge(example, pipe.spans_key)
                for span, right in judged_spans([] if judged is None else [judged]):
                    entity = found.get((span.start, span.end, span.label_))
                    if entity is not None:  # entities of earlier pipes are kept
                        documents.append(index)
                        types.append(entity.type)
                        evidence.append(entity.evidence)
                        correct.append(right)
    return Observed(*map(np.array, (documents, types, evidence, correct)))


def fit_calibration(observed: Observed, labels: Sequence[str]) -> CalibrationFit:
    """Fit a calibration and measure its effect.

    All maps are fitted, and the one that predicts best which mentions are correct, in documents
    that it was not fitted to, is taken. With few mentions this is often the temperature.

    Args:
        observed: Predicted mentions.
        labels: The entity types.

    Raises:
        ValueError: If the mentions are in fewer than two documents.
    """
    documents, types, evidence, correct = observed
    folds = _folds(documents)
    x = _columns(evidence, types, len(labels))
    out_of_fold = {kind: _out_of_fold(x, correct, folds, kind) for kind in KINDS}
    kind = min(KINDS, key=lambda kind: _log_loss(out_of_fold[kind], correct))
    values = out_of_fold[kind]
    weights = _fit(x, correct, kind)
    *of_features, offset = weights[: len(FEATURES) + 1].tolist()
    calibration = Calibration(
        dict(zip(FEATURES, of_features, strict=True)),
        offset,
        dict(zip(labels, weights[len(FEATURES) + 1 :].tolist(), strict=True)),
    )
    return CalibrationFit(
        calibration,
        kind,
        calibration_error(uncalibrated(evidence, types), correct),
        calibration_error(sigmoid(x @ weights), correct),
        calibration_error(values, correct),
        debiased_error(values, correct),
        error_by_chance(values),
        len(correct),
    )


def _out_of_fold(x: np.ndarray, correct: np.ndarray, folds: np.ndarray, kind: str) -> np.ndarray:
    """Return (n,) confidences, each from a fit to the other folds."""
    values = np.empty(len(correct))
    for fold in range(folds.max() + 1):
        own = folds == fold
        values[own] = sigmoid(x[own] @ _fit(x[~own], correct[~own], kind))
    return values


def _log_loss(values: np.ndarray, correct: np.ndarray) -> float:
    return float(-np.log(np.maximum(np.where(correct, values, 1 - values), EPSILON)).mean())


def _folds(documents: np.ndarray) -> np.ndarray:
    """Return (n,) the fold of each mention, the same for all mentions of a document."""
    names, index = np.unique(documents, return_inverse=True)
    if len(names) < 2:
        raise ValueError(
            f"A calibration needs predicted mentions in at least two documents, but there are "
            f"{len(documents)} in {len(names)}. Give annotated text in which the pipeline finds "
            "entities."
        )
    shuffled = np.random.default_rng(0).permutation(len(names))
    return shuffled[index] % min(FOLDS, len(names))


def _columns(evidence: np.ndarray, types: np.ndarray, n_types: int) -> np.ndarray:
    """Return (n, FEATURES + 1 + types) the features, 1 for the offset, and 1 for the type."""
    return np.hstack([features(evidence), np.ones((len(types), 1)), np.eye(n_types)[types]])


def _fit(x: np.ndarray, correct: np.ndarray, kind: str) -> np.ndarray:
    n_types = x.shape[1] - len(FEATURES) - 1
    prior = np.zeros(x.shape[1])
    prior[0] = 1.0  # the confidence as it is
    strength = np.array([STRENGTH] * len(FEATURES) + [OFFSET_STRENGTH] + [TYPE_STRENGTH] * n_types)
    if kind == "temperature":  # for all types
        strength[len(FEATURES) :] = FIXED
    strength[[i for i, name in enumerate(FEATURES) if name not in KINDS[kind]]] = FIXED
    lower = np.full(x.shape[1], -np.inf)
    lower[: FEATURES.index("tokens")] = 0.0
    weights = fit_logistic(x, correct.astype(float), prior, strength, lower)
    weights[strength == FIXED] = 0.0
    return weights
