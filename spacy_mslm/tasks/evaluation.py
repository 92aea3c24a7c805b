"""Evaluate a pipeline on annotated text under a named protocol."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict

from ..corpus.mixed import PartialCorpus
from ..corpus.readers import make_corpus
from ..errors import Errors
from ..masking.strategies import JointMasking
from ..pipeline.component import MSLM
from ..pipeline.find import find_mslm, run_pipes_before
from ..pipeline.loading import load_pipeline
from ..scoring.masked_protocol import annotate_masked
from ..scoring.scorer import EntityScorer
from ..util.files import replace_file
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
    temperature: The temperature of the confidences.
    counts: Numbers of mentions. scores: Scores from 0 to 1, and perplexities.
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
    temperature: float
    counts: dict[str, int]
    scores: dict[str, Any]


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
    output: Path | None = None,
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
        output: JSON file to write the evaluation to, as `compare` reads it.

    Returns:
        The scores and what they depend on.

    Raises:
        ValueError: If the pipeline has no mslm pipe, or the data has no gold mention.
    """
    protocol = Protocol(protocol)
    if output is not None and output.is_dir():
        raise ValueError(
            f"{output} is a folder, but the scores go to a file. Give another --output."
        )
    nlp = load_pipeline(model)
    name, pipe = find_mslm(nlp, model)
    pipe.scorer = scorer = _make_scorer(pipe, train)
    pipe.score_perplexity = True
    pipe.score_masked = False  # an evaluation has one protocol
    masking = JointMasking(elm, blm)
    corpus = PartialCorpus(data_path, annotates) if annotates else make_corpus(data_path)
    examples = list(corpus(nlp))
    texts = (example.predicted for example in examples)
    masked = protocol is Protocol.masked
    docs = run_pipes_before(nlp, name, texts) if masked else list(nlp.pipe(texts))
    for example, doc in zip(examples, docs, strict=True):
        example.predicted = doc
    if masked:
        annotate_masked(pipe, examples, masking, seed)
    scores = pipe.score(examples, masking=masking, seed=seed)
    counts = scores.pop("mslm_counts")
    if not counts["gold"]:
        raise ValueError(
            f"{data_path} holds no gold mention, so there is nothing to score. Give text that is "
            "annotated like the pipeline's training data."
        )
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
        "temperature": pipe.cfg["temperature"],
        "counts": counts,
        "scores": scores,
    }
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        replace_file(output, (json.dumps(evaluation, indent=2) + "\n").encode("utf8"))
    return evaluation


def _make_scorer(pipe: MSLM, train: Path | None) -> EntityScorer:
    """Return the scorer of a pipe, for its span group and with another training set if given."""
    if train is not None and not train.exists():
        raise ValueError(Errors.M106.format(path=train))
    scorer = pipe.scorer if isinstance(pipe.scorer, EntityScorer) else EntityScorer()
    if train is None and scorer.spans_key == pipe.spans_key:
        return scorer
    sample = scorer.sample if train is None else (str(train), 0, None)
    return EntityScorer(pipe.spans_key, *sample)
