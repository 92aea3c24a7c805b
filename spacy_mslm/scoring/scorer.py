"""Scores of entity mentions, in `doc.ents` or in a span group, with the counts behind them.

Exact match (EM) is the measure of the MSLM paper: a gold mention counts 1 if a prediction has the
same boundaries, in words, and the same type, else 0; EM is the mean over the gold mentions of the
whole set. That is micro recall, so false alarms do not lower it: read it beside the precision.
"""

import logging
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from spacy.scorer import PRFScore
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.vocab import Vocab

from ..corpus.readers import read_gold, select
from ..inference.calibration import calibration_error, unscale
from ..text.sentences import sentence_starts
from ..util.extensions import confidence_of

logger = logging.getLogger("spacy_mslm")

Mention = tuple[str, int, int]  # label, first token, last token + 1, in tokens of the reference


class Judged(NamedTuple):
    """What one annotated document contributes.

    gold: all gold mentions. predicted: the predictions that can be judged, which leaves out those
    on unannotated tokens or without counterpart in the reference. confidences: theirs, NaN for
    those of other components. labels: of all the predictions. reference: the gold document.
    """

    gold: set[Mention]
    predicted: list[Mention]
    confidences: list[float]
    labels: set[str]
    reference: Doc


def make_entity_scorer(
    spans_key: str | None = None,
    train: str | None = None,
    limit: int = 0,
    seed: int | None = None,
) -> Callable[..., dict[str, Any]]:
    """The registered scorer `spacy_mslm.entity_scorer.v1`.

    spans_key: Score `doc.spans[spans_key]`; `doc.ents` when None.
    train: The training set, whose mentions count as seen; read at the first scoring. limit and
        seed: as of the corpus reader, where training is on a part of it.

    The scorer returns plain numbers. A rate is None where nothing is there to be rated, which spaCy
    leaves out of the weighted score. `{attr}` is "ents" or "spans_{spans_key}":

    - `{attr}_p`, `{attr}_r`, `{attr}_f`, `{attr}_per_type`: as of spaCy's `ner` and `spancat`, by
      strict matches, in boundaries and type.
    - `mslm_em`: exact match, equal to `{attr}_r`.
    - `mslm_macro_p`, `_r`, `_f`: mean over the types that have gold mentions. A type without any
      has no recall to average; its false alarms count in the micro scores.
    - `mslm_boundary_p`, `_r`, `_f`: boundaries only.
    - `mslm_partial_p`, `_r`, `_f`: types are not looked at, an overlap counts half.
    - `mslm_type_p`, `_r`, `_f`: the type is right and there is an overlap.
    - `mslm_type_acc`: of the gold mentions whose boundaries were found, the share with right type.
    - `mslm_em_seen`, `mslm_em_unseen`: EM of the gold mentions whose text, in lower case, is that
      of a mention of the training set, and of the others; None without `train`.
    - `mslm_em_short`, `mslm_em_long`: EM in sentences shorter than the set's mean, and in others.
    - `mslm_confidence`: mean confidence on gold mentions: that of the exact match, 0 without one.
    - `mslm_ece`: expected calibration error of the predicted mentions' confidences;
      `mslm_ece_uncalibrated`: the same before the pipe's temperature.
    - `mslm_counts`: gold and predicted mentions, exact and boundary matches, gold mentions behind
      each of the EMs, documents in all and those of them that were skipped because the reference
      has no annotation.
    """
    return EntityScorer(spans_key, train, limit, seed)


class EntityScorer:
    """Not a closure: a pipe goes to the worker processes of `nlp.pipe` in a pickle."""

    def __init__(
        self,
        spans_key: str | None = None,
        train: str | None = None,
        limit: int = 0,
        seed: int | None = None,
    ) -> None:
        self.spans_key = spans_key
        self.sample = (train, limit, seed)

    def __call__(
        self, examples: Iterable[Example], /, *, temperature: float = 1.0, **cfg: Any
    ) -> dict[str, Any]:
        """temperature: at which the confidences were made (the pipe's `cfg` has it)."""
        docs = 0
        judged = []
        for example in examples:
            docs += 1
            mentions = judge(example, self.spans_key)
            if mentions is not None:
                judged.append(mentions)
        attr = "ents" if self.spans_key is None else f"spans_{self.spans_key}"
        per_type = _count_exact(judged)
        exact = sum(per_type.values(), PRFScore())
        of_gold = [prf for prf in per_type.values() if prf.tp + prf.fn]
        located = sum(_boundary_hits(mentions) for mentions in judged)
        boundary = _boundary(judged)
        groups = {**self._by_seen(judged), **_by_length(judged)}
        return {
            **_rates(attr, exact),
            f"{attr}_per_type": (
                {label: prf.to_dict() for label, prf in per_type.items()} if len(exact) else None
            ),
            "mslm_em": exact.recall if len(exact) else None,
            **{f"mslm_macro_{rate}": _mean(of_gold, rate) for rate in "prf"},
            **_rates("mslm_boundary", boundary),
            **_soft_scores(judged, exact),
            "mslm_type_acc": exact.tp / located if located else None,
            **{f"mslm_em_{name}": _share(hits) for name, hits in groups.items()},
            **_confidence_scores(judged, temperature),
            "mslm_counts": {
                "gold": exact.tp + exact.fn,
                "predicted": exact.tp + exact.fp,
                "exact": exact.tp,
                "boundary": boundary.tp,
                **{f"gold_{name}": len(hits) for name, hits in groups.items()},
                "docs": docs,
                "docs_without_annotation": docs - len(judged),
            },
        }

    @cached_property
    def _seen(self) -> set[str] | None:
        """The training set's mentions, by their lower-cased words; None if it cannot be told."""
        train, limit, seed = self.sample
        if train is None:
            return None
        if not Path(train).exists():
            logger.warning(
                f"The training set {train} is not there, so scores do not tell seen from "
                "unseen mentions. To have them, give its path: 'python -m spacy mslm evaluate "
                "... --train PATH'."
            )
            return None
        docs = select(read_gold(Path(train), Vocab()), limit, seed)
        return {
            _key(doc, span.start, span.end) for doc in docs for span in _gold(doc, self.spans_key)
        }

    def _by_seen(self, judged: Iterable[Judged]) -> dict[str, list[bool]]:
        """Whether each gold mention was hit, of those seen in training and of the others."""
        groups: dict[str, list[bool]] = {"seen": [], "unseen": []}
        seen = self._seen
        if seen is not None:
            for mentions in judged:
                found = set(mentions.predicted)
                for mention in mentions.gold:
                    known = _key(mentions.reference, *mention[1:]) in seen
                    groups["seen" if known else "unseen"].append(mention in found)
        return groups


# ---- documents ----


def judge(example: Example, spans_key: str | None) -> Judged | None:
    """Gold and predicted mentions of a document, None if its reference is not annotated."""
    return _judge_ents(example) if spans_key is None else _judge_spans(example, spans_key)


def _judge_ents(example: Example) -> Judged | None:
    """Entities, compared token by token as spaCy's `get_ner_prf` does: a prediction on tokens with
    missing annotation is neither right nor wrong."""
    gold_doc, predicted_doc = example.reference, example.predicted
    if not gold_doc.has_annotation("ENT_IOB"):
        return None
    x2y = example.alignment.x2y
    predicted, confidences = [], []
    for ent in predicted_doc.ents:
        tokens = x2y[ent.start : ent.end]
        if len(tokens):
            start, end = int(tokens[0]), int(tokens[-1]) + 1
            if all(token.ent_iob for token in gold_doc[start:end]):
                predicted.append((ent.label_, start, end))
                confidences.append(_confidence(ent))
    return Judged(
        {_mention(ent) for ent in gold_doc.ents},
        predicted,
        confidences,
        {ent.label_ for ent in predicted_doc.ents},
        gold_doc,
    )


def _judge_spans(example: Example, key: str) -> Judged | None:
    """Spans of a group, which may overlap, compared as spaCy's `spancat` does: a reference without
    the group is not annotated, and a prediction that fits no reference tokens is left out."""
    gold_doc, predicted_doc = example.reference, example.predicted
    if key not in gold_doc.spans:
        return None
    spans = list(predicted_doc.spans.get(key, []))
    found: dict[Mention, float] = {}
    for span in spans:
        for aligned in example.get_aligned_spans_x2y([span], allow_overlap=True):
            found[_mention(aligned)] = _confidence(span)
    return Judged(
        {_mention(span) for span in gold_doc.spans[key]},
        list(found),
        list(found.values()),
        {span.label_ for span in spans},
        gold_doc,
    )


def _gold(doc: Doc, spans_key: str | None) -> Iterable[Span]:
    return doc.ents if spans_key is None else doc.spans.get(spans_key, ())


def _mention(span: Span) -> Mention:
    return span.label_, span.start, span.end


def _confidence(span: Span) -> float:
    value = confidence_of(span)
    return float("nan") if value is None else float(value)


def _key(doc: Doc, start: int, end: int) -> str:
    words = " ".join(token.text for token in doc[start:end])
    return " ".join(words.lower().split())


# ---- matches ----


def _count_exact(judged: Iterable[Judged]) -> dict[str, PRFScore]:
    """Hits, false alarms and misses by type; each gold mention is hit once."""
    per_type: dict[str, PRFScore] = defaultdict(PRFScore)
    for mentions in judged:
        for label in mentions.labels:
            per_type[label]  # spaCy lists a type that was predicted, even if nothing was judged
        missed = set(mentions.gold)
        for mention in mentions.predicted:
            if mention in missed:
                missed.remove(mention)
                per_type[mention[0]].tp += 1
            else:
                per_type[mention[0]].fp += 1
        for label, _, _ in missed:
            per_type[label].fn += 1
    return per_type


def _boundary(judged: Iterable[Judged]) -> PRFScore:
    boundary = PRFScore()
    for mentions in judged:
        places = {mention[1:] for mention in mentions.predicted}
        boundary.score_set(places, {mention[1:] for mention in mentions.gold})
    return boundary


def _boundary_hits(mentions: Judged) -> int:
    """Gold mentions whose boundaries were found, each of them counted."""
    places = {mention[1:] for mention in mentions.predicted}
    return sum(mention[1:] in places for mention in mentions.gold)


def _soft_scores(judged: Iterable[Judged], exact: PRFScore) -> dict[str, float | None]:
    """Partial and type matches: each gold mention goes with one prediction at most."""
    partial = typed = 0.0
    for mentions in judged:
        partial += sum(
            1.0 if distance == 0 else 0.5 for distance in _pair(mentions, same_type=False)
        )
        typed += len(_pair(mentions, same_type=True))
    gold, predicted = exact.tp + exact.fn, exact.tp + exact.fp
    return {
        **_soft_rates("mslm_partial", partial, gold, predicted),
        **_soft_rates("mslm_type", typed, gold, predicted),
    }


def _pair(mentions: Judged, same_type: bool) -> list[int]:
    """Pair predictions of the same boundaries as a gold mention with it, and then each other one,
    from left to right, with the first gold mention that overlaps it and is not taken. Returns how
    far apart the boundaries of each pair are."""
    by_token: dict[int, list[Mention]] = defaultdict(list)
    for mention in sorted(mentions.gold, key=lambda m: m[1:]):
        for token in range(mention[1], mention[2]):
            by_token[token].append(mention)
    candidates = []
    for i, (label, start, end) in enumerate(mentions.predicted):
        near = {m for token in range(start, end) for m in by_token[token]}
        for gold in near:
            if gold[0] == label or not same_type:
                distance = abs(gold[1] - start) + abs(gold[2] - end)
                candidates.append((distance > 0, start, end, i, gold[1:], gold, distance))
    pairs: dict[int, int] = {}
    taken: set[Mention] = set()
    for _, _, _, i, _, gold, distance in sorted(candidates):
        if i not in pairs and gold not in taken:
            pairs[i] = distance
            taken.add(gold)
    return list(pairs.values())


def _by_length(judged: Sequence[Judged]) -> dict[str, list[bool]]:
    """Whether each gold mention was hit, of those in short sentences and of the others."""
    lengths: list[int] = []
    hits: list[tuple[int, bool]] = []  # length of the mention's sentence
    for mentions in judged:
        starts = sentence_starts(mentions.reference)
        sizes = np.diff(np.append(starts, len(mentions.reference)))
        lengths.extend(sizes.tolist())
        found = set(mentions.predicted)
        for mention in mentions.gold:
            sentence = int(np.searchsorted(starts, mention[1], side="right")) - 1
            hits.append((int(sizes[sentence]), mention in found))
    mean = float(np.mean(lengths)) if lengths else 0.0
    return {
        "short": [hit for length, hit in hits if length < mean],
        "long": [hit for length, hit in hits if length >= mean],
    }


# ---- confidences ----


def confidences(judged: Iterable[Judged]) -> tuple[np.ndarray, np.ndarray]:
    """(n,) confidences of the predicted mentions that have one, and (n,) whether each is right. A
    gold mention is hit once, as in the counts: tokens that differ may align two with it."""
    values, correct = [], []
    for mentions in judged:
        missed = set(mentions.gold)
        for mention, confidence in zip(mentions.predicted, mentions.confidences, strict=True):
            if not math.isnan(confidence):
                values.append(confidence)
                correct.append(mention in missed)
            missed.discard(mention)
    return np.array(values, dtype=np.float64), np.array(correct, dtype=bool)


def _confidence_scores(judged: Sequence[Judged], temperature: float) -> dict[str, float | None]:
    values, correct = confidences(judged)
    gold = sum(len(mentions.gold) for mentions in judged)
    scores: dict[str, float | None] = dict.fromkeys(
        ("mslm_confidence", "mslm_ece", "mslm_ece_uncalibrated")
    )
    silent = not any(mentions.predicted for mentions in judged)
    if gold and (silent or len(values)):  # a component without confidences has no mean of them
        scores["mslm_confidence"] = float(values[correct].sum() / gold)
    if len(values):
        scores["mslm_ece"] = calibration_error(values, correct)
        scores["mslm_ece_uncalibrated"] = calibration_error(unscale(values, temperature), correct)
    return scores


# ---- rates ----


def _rates(prefix: str, prf: PRFScore) -> dict[str, float | None]:
    """Precision, recall and F; None if there is neither gold nor prediction."""
    values = prf.to_dict() if len(prf) else dict.fromkeys("prf")
    return {f"{prefix}_{rate}": values[rate] for rate in "prf"}


def _soft_rates(prefix: str, credit: float, gold: int, predicted: int) -> dict[str, float | None]:
    """The same from the credit for matches, which may be halves."""
    if not gold and not predicted:
        return {f"{prefix}_{rate}": None for rate in "prf"}
    p = credit / predicted if predicted else 0.0
    r = credit / gold if gold else 0.0
    return {
        f"{prefix}_p": p,
        f"{prefix}_r": r,
        f"{prefix}_f": 2 * credit / (gold + predicted),
    }


def _mean(types: list[PRFScore], rate: str) -> float | None:
    """Mean of one rate over the types; None if there are none."""
    return sum(prf.to_dict()[rate] for prf in types) / len(types) if types else None


def _share(hits: list[bool]) -> float | None:
    return sum(hits) / len(hits) if hits else None
