"""Score the pipeline of a trial: on clean text, and what else a spec measures."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from spacy.language import Language

from ...corpus.readers import make_corpus
from ...masking.strategies import JointMasking
from ...pipeline.component import MSLM
from ...pipeline.find import find_mslm
from ...scoring.counts import COUNTS
from ...scoring.masked_protocol import masked_scores
from ...scoring.perplexity import perplexity
from ...scoring.scorer import EntityScorer


def score(
    nlp: Language, data: Path, train: Path, limit: int = 0, seed: int | None = None
) -> tuple[dict[str, float | None], np.ndarray]:
    """Score a pipeline on clean text.

    Args:
        nlp: The pipeline.
        data: The annotated text.
        train, limit, seed: The training set, which tells seen from unseen mentions.

    Returns:
        `p`, `em`, `f`, `em_unseen` and `ece`, from 0 to 1, and (documents, COUNTS) the counts of
        each document.
    """
    examples = list(make_corpus(data)(nlp))
    docs = list(nlp.pipe((example.predicted for example in examples), batch_size=256))
    keys = [pipe.spans_key for _, pipe in nlp.pipeline if isinstance(pipe, MSLM)]
    scorer = EntityScorer(keys[0] if keys else None, str(train), limit, seed)
    counts: np.ndarray = np.zeros((len(examples), len(COUNTS)), dtype=np.uint16)
    for i, (example, doc) in enumerate(zip(examples, docs, strict=True)):
        example.predicted = doc
        counts[i] = document_counts(scorer([example]))
    gold, predicted, exact, gold_unseen, exact_unseen = counts.sum(axis=0, dtype=int).tolist()
    if not gold:
        raise ValueError(f"{data} holds no gold mention, so there is nothing to score.")
    return {
        "p": exact / max(predicted, 1),
        "em": exact / gold,
        "f": 2 * exact / (gold + predicted),
        "em_unseen": exact_unseen / max(gold_unseen, 1),
        "ece": scorer(examples)["mslm_ece"],
    }, counts


def document_counts(scores: Mapping[str, Any]) -> list[int]:
    """Return the COUNTS of a document from its scores."""
    found = scores["mslm_counts"]
    unseen = found["gold_unseen"]
    hits = round((scores["mslm_em_unseen"] or 0.0) * unseen)
    return [found["gold"], found["predicted"], found["exact"], unseen, hits]


def measure(nlp: Language, data: Path, measures: Sequence[str]) -> dict[str, float | None]:
    """Measure what needs masks: those of the paper, whatever masks were used in training.

    Args:
        nlp: The pipeline.
        data: The annotated text.
        measures: "masked" for scores on text with masked mentions, "perplexity".

    Returns:
        `masked_p`, `masked_em` and `masked_f`; `perplexity`, `perplexity_elm` and `perplexity_blm`.
    """
    found: dict[str, float | None] = {}
    if not measures:
        return found
    _, pipe = find_mslm(nlp, "the trained pipeline")
    examples = list(make_corpus(data)(nlp))
    if "masked" in measures:
        scores = masked_scores(pipe, examples, JointMasking())
        names = {"masked_p": "p", "masked_em": "r", "masked_f": "f"}
        found |= {name: scores[f"mslm_masked_{rate}"] for name, rate in names.items()}
    if "perplexity" in measures:
        scores = perplexity(pipe, examples, JointMasking())
        found |= {key.replace("mslm_ppl", "perplexity"): value for key, value in scores.items()}
    return found
