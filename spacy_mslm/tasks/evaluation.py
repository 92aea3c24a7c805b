"""Evaluate a pipeline on annotated text under a named protocol."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypedDict

from spacy.training import Example

from ..corpus.mixed import PartialCorpus
from ..corpus.readers import make_corpus
from ..errors import Errors
from ..inference.threshold import Threshold
from ..masking.strategies import JointMasking
from ..pipeline.component import MSLM
from ..pipeline.find import find_mslm, run_pipes_before
from ..pipeline.loading import load_pipeline
from ..scoring.curve import precision_recall
from ..scoring.masked_protocol import annotate_masked
from ..scoring.scorer import EntityScorer, judge
from ..util.files import replace_files
from .choices import Protocol


class Evaluation(TypedDict):
    """Scores, and everything they depend on.

    protocol: "clean" or "masked".
    gold_positions_visible: True under the masked protocol, whose scores do not apply to new text.
    model: Name and version of the pipeline. path: Where it was loaded from.
    data: The annotated text.
    annotates: The types that the data annotates, if they were given.
    train: Path, limit and seed of the training set that tells seen from unseen mentions.
    elm_rate, blm_rate, seed: The masks of the perplexity and of the masked protocol.
    calibrated: Whether the confidences are calibrated.
    threshold: The threshold of the pipe, which the scores depend on, but not the curve.
    counts: Numbers of mentions. scores: Scores from 0 to 1, and perplexities.
    curve: Precision, recall and F1 at each threshold of the confidence, at most 200 of them.
    precision: A precision that is wanted. at_precision: The lowest threshold that reaches it, by
        type, None if no threshold does. The key of all types together is "".
    """

    protocol: str
    gold_positions_visible: bool
    model: str
    path: str
    data: str
    annotates: list[str] | None
    train: dict[str, Any]
    elm_rate: float
    blm_rate: float
    seed: int
    calibrated: bool
    threshold: Threshold
    counts: dict[str, int]
    scores: dict[str, Any]
    curve: list[dict[str, float]]
    precision: float
    at_precision: dict[str, dict[str, float] | None]


def evaluate(
    model: str,
    data_path: Path,
    *,
    annotates: Sequence[str] | None = None,
    protocol: Protocol = Protocol.clean,
    elm: float = 1.0,
    blm: float = 0.075,
    seed: int = 0,
    train: Path | None = None,
    precision: float = 0.9,
    output: Path | None = None,
    plot: Path | None = None,
) -> Evaluation:
    """Score a pipeline on annotated text.

    Args:
        model: Name or path of the pipeline.
        data_path: A .spacy file, a folder of them, or an IOB file.
        annotates: The types that the data annotates. Predictions and mentions of other types are
            not scored. By default, all types are scored, except in documents that name the types
            they annotate (`doc._.annotated_labels`).
        protocol: The text that the pipeline reads.
        elm: Share of the mentions to mask, for the perplexity and the masked protocol.
        blm: Share of the other words to mask.
        seed: Seed of the masks.
        train: The training set whose mentions count as seen; by default that of the pipeline's
            config.
        precision: Find the lowest threshold with this precision, over all types and for each.
        output: JSON file to write the evaluation to, as `compare` reads it.
        plot: PNG file to draw the precision/recall curve in.

    Returns:
        The scores and what they depend on.

    Raises:
        ValueError: If the pipeline has no mslm pipe, or the data has no gold mention.
        ImportError: If a plot is wanted and the extra `plots` is not installed.
    """
    protocol = Protocol(protocol)
    if output is not None and output.is_dir():
        raise ValueError(
            f"{output} is a folder, but the scores go to a file. Give another --output."
        )
    draw = None if plot is None else _find_plot(plot)
    nlp = load_pipeline(model)
    name, pipe = find_mslm(nlp, model)
    pipe.scorer = scorer = _make_scorer(pipe, train)
    pipe.score_perplexity = True
    pipe.score_masked = False  # an evaluation has one protocol
    masking = JointMasking(elm, blm)
    corpus = PartialCorpus(data_path, annotates) if annotates else make_corpus(data_path)
    masked = protocol is Protocol.masked

    def predict() -> list[Example]:
        examples = list(corpus(nlp))
        texts = (example.predicted for example in examples)
        docs = run_pipes_before(nlp, name, texts) if masked else list(nlp.pipe(texts))
        for example, doc in zip(examples, docs, strict=True):
            example.predicted = doc
        if masked:
            annotate_masked(pipe, examples, masking, seed)
        return examples

    examples = predict()
    scores = pipe.score(examples, masking=masking, seed=seed)
    counts = scores.pop("mslm_counts")
    if not counts["gold"]:
        raise ValueError(
            f"{data_path} holds no gold mention, so there is nothing to score. Give text that is "
            "annotated like the pipeline's training data."
        )
    if pipe.cfg["threshold"]:
        with pipe.without_threshold():
            examples = predict()
    mentions = [judged for example in examples if (judged := judge(example, pipe.spans_key))]
    curve = precision_recall(mentions)
    by_type = {label: precision_recall(mentions, label) for label in pipe.labels}
    at_precision = {
        label: found.at_precision(precision) for label, found in {"": curve, **by_type}.items()
    }
    evaluation: Evaluation = {
        "protocol": protocol.value,
        "gold_positions_visible": masked,
        "model": f"{nlp.meta['lang']}_{nlp.meta['name']} {nlp.meta['version']}",
        "path": model,
        "data": str(data_path),
        "annotates": sorted(annotates) if annotates else None,
        "train": dict(zip(("path", "limit", "seed"), scorer.sample, strict=True)),
        "elm_rate": elm,
        "blm_rate": blm,
        "seed": seed,
        "calibrated": pipe.cfg["calibration"] is not None,
        "threshold": pipe.cfg["threshold"],
        "counts": counts,
        "scores": scores,
        "curve": [point._asdict() for point in curve.thin()],
        "precision": precision,
        "at_precision": {k: point and point._asdict() for k, point in at_precision.items()},
    }
    files = {}
    if output is not None:
        files[output] = (json.dumps(evaluation, indent=2) + "\n").encode("utf8")
    if plot is not None and draw is not None:
        title = f"{evaluation['model']}, {protocol.value} text"
        files[plot] = draw(title, curve.points, at_precision[""])
    replace_files(files)
    return evaluation


def _find_plot(path: Path) -> Callable[..., bytes]:
    """Return the function that draws the curve, or raise an error before the evaluation."""
    if path.suffix.lower() != ".png":
        raise ValueError(f"The plot {path} must be a .png file. Give another --plot.")
    try:
        from .curve_plot import draw_curve
    except ImportError as err:
        raise ImportError(
            f"A plot requires matplotlib ({err}). Install it with 'pip install "
            '"spacy-mslm[plots]"\'.'
        ) from None
    return draw_curve


def _make_scorer(pipe: MSLM, train: Path | None) -> EntityScorer:
    """Return the scorer of a pipe, for its span group and with another training set if given."""
    if train is not None and not train.exists():
        raise ValueError(Errors.M106.format(path=train))
    scorer = pipe.scorer if isinstance(pipe.scorer, EntityScorer) else EntityScorer()
    if train is None and scorer.spans_key == pipe.spans_key:
        return scorer
    sample = scorer.sample if train is None else (str(train), 0, None)
    return EntityScorer(pipe.spans_key, *sample)
