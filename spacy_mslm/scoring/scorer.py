"""Scores of entity mentions, in `doc.ents` or in a span group, with the counts behind them.

Exact match (EM) is the measure of the MSLM paper: a gold mention scores 1 if a prediction has the
same boundaries, in words, and the same type, else 0. EM is the mean over the gold mentions of the
whole set. This is micro recall, which false positives do not lower: read it with the precision.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from spacy.scorer import PRFScore
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.vocab import Vocab

from ..corpus.gold import gold_spans
from ..corpus.readers import read_gold, select
from ..inference.calibration import calibration_error, debiased_error
from ..text.sentences import sentence_starts
from ..types import Mention
from ..util.extensions import annotated_labels, confidence_of, raw_confidence_of

logger = logging.getLogger("spacy_mslm")


class Judged(NamedTuple):
    """The mentions of one annotated document, in tokens of the reference.

    Attributes:
        gold: The gold mentions.
        predicted: The predicted mentions that can be judged. This leaves out those on unannotated
            tokens and those that do not align with the reference.
        spans: The predicted span of each of these.
        labels: The labels of all predicted mentions.
        reference: The gold document.
        not_annotated: The number of predicted mentions that were left out because the gold document
            does not annotate their type.
    """

    gold: set[Mention]
    predicted: list[Mention]
    spans: list[Span]
    labels: set[str]
    reference: Doc
    not_annotated: int = 0


def make_entity_scorer(
    spans_key: str | None = None,
    train: str | None = None,
    limit: int = 0,
    seed: int | None = None,
) -> Callable[..., dict[str, Any]]:
    """`spacy_mslm.entity_scorer.v1`: creates the scorer of entities or spans.

    The scorer returns plain numbers. A rate is None if there is nothing to rate, and spaCy leaves
    it out of the weighted score. `{attr}` is "ents" or "spans_{spans_key}":

    - `{attr}_p`, `{attr}_r`, `{attr}_f`, `{attr}_per_type`: the same as in spaCy's `ner` and
      `spancat`, from matches in boundaries and type.
    - `mslm_em`: exact match, equal to `{attr}_r`.
    - `mslm_macro_p`, `_r`, `_f`: mean over the types that have gold mentions. Other types have no
      recall. Their false positives count in the micro scores.
    - `mslm_boundary_p`, `_r`, `_f`: matches in boundaries only.
    - `mslm_partial_p`, `_r`, `_f`: matches in boundaries only, where an overlap counts as half a
      match.
    - `mslm_type_p`, `_r`, `_f`: matches in type with any overlap.
    - `mslm_type_acc`: the share of correct types among the gold mentions whose boundaries were
      found.
    - `mslm_em_seen`, `mslm_em_unseen`: EM of the gold mentions whose lower-cased text is that of a
      mention in the training set, and of the others. None without `train`.
    - `mslm_em_short`, `mslm_em_long`: EM in sentences shorter than the mean of the set, and in
      others.
    - `mslm_confidence`: mean confidence over gold mentions: the confidence of the exact match, or 0
      if there is none.
    - `mslm_ece`: expected calibration error of the confidences of predicted mentions.
    - `mslm_ece_uncalibrated`: the same error before calibration.
    - `mslm_counts`: the number of gold and predicted mentions, of exact and boundary matches, of
      gold mentions behind each EM, of documents, of documents that were skipped because the
      reference has no annotation, and of predictions that were left out because the document does
      not annotate their type.
    - `mslm_documents`: the number of gold, predicted and exactly matched mentions of each document
      with annotation. `spacy mslm report` computes intervals from them.

    In a document that annotates only some types (`doc._.annotated_labels`), only mentions of these
    types are scored. Predictions of other types are neither correct nor wrong.

    Args:
        spans_key: Score `doc.spans[spans_key]`, or `doc.ents` if None.
        train: The training set, whose mentions count as seen. It is read when it is first needed.
        limit: The number of training documents that are used, as in the corpus reader.
        seed: The seed with which they are shuffled, as in the corpus reader.
    """
    return EntityScorer(spans_key, train, limit, seed)


class EntityScorer:
    """The scorer of `make_entity_scorer`. It is a class so that `nlp.pipe` can pickle a pipe."""

    def __init__(
        self,
        spans_key: str | None = None,
        train: str | None = None,
        limit: int = 0,
        seed: int | None = None,
    ) -> None:
        self.spans_key = spans_key
        self.sample = (train, limit, seed)

    def __call__(self, examples: Iterable[Example], /, **cfg: Any) -> dict[str, Any]:
        """Score examples. See `make_entity_scorer` for the scores.

        Args:
            examples: The examples.
            **cfg: The `cfg` of the pipe, which is ignored.
        """
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
            **_confidence_scores(judged),
            "mslm_counts": {
                "gold": exact.tp + exact.fn,
                "predicted": exact.tp + exact.fp,
                "exact": exact.tp,
                "boundary": boundary.tp,
                **{f"gold_{name}": len(hits) for name, hits in groups.items()},
                "docs": docs,
                "docs_without_annotation": docs - len(judged),
                "predicted_not_annotated": sum(mentions.not_annotated for mentions in judged),
            },
            "mslm_documents": [_exact_counts(mentions) for mentions in judged],
        }

    @cached_property
    def _seen(self) -> set[str] | None:
        """The lower-cased mentions of the training set, or None if there is no training set."""
        train, limit, seed = self.sample
        if train is None:
            return None
        if not Path(train).exists():
            logger.warning(
                f"The training set {train} does not exist, so there are no separate scores for "
                "seen and unseen mentions. Give its path with 'python -m spacy mslm evaluate ... "
                "--train PATH'."
            )
            return None
        docs = select(read_gold(Path(train), Vocab()), limit, seed)
        return {
            _key(doc, span.start, span.end)
            for doc in docs
            for span in gold_spans(doc, self.spans_key)
        }

    def _by_seen(self, judged: Iterable[Judged]) -> dict[str, list[bool]]:
        """Return whether each gold mention was found, for those seen in training and for others."""
        groups: dict[str, list[bool]] = {"seen": [], "unseen": []}
        seen = self._seen
        if seen is not None:
            for mentions in judged:
                found = set(mentions.predicted)
                for mention in mentions.gold:
                    known = _key(mentions.reference, mention.start, mention.end) in seen
                    groups["seen" if known else "unseen"].append(mention in found)
        return groups


# ---- documents ----


def judge(example: Example, spans_key: str | None) -> Judged | None:
    """Return the gold and predicted mentions of a document, None if it has no gold annotation."""
    judged = _judge_ents(example) if spans_key is None else _judge_spans(example, spans_key)
    annotated = annotated_labels(example.reference)
    if judged is None or annotated is None:
        return judged
    pairs = zip(judged.predicted, judged.spans, strict=True)
    kept = [(mention, span) for mention, span in pairs if mention.label in annotated]
    return judged._replace(
        gold={mention for mention in judged.gold if mention.label in annotated},
        predicted=[mention for mention, _ in kept],
        spans=[span for _, span in kept],
        labels=judged.labels & annotated,
        not_annotated=len(judged.predicted) - len(kept),
    )


def _judge_ents(example: Example) -> Judged | None:
    """Compare entities token by token, like spaCy's `get_ner_prf`.

    A prediction on tokens without annotation is neither correct nor wrong.
    """
    gold_doc, predicted_doc = example.reference, example.predicted
    if not gold_doc.has_annotation("ENT_IOB"):
        return None
    x2y = example.alignment.x2y
    predicted, spans = [], []
    for ent in predicted_doc.ents:
        tokens = x2y[ent.start : ent.end]
        if len(tokens):
            start, end = int(tokens[0]), int(tokens[-1]) + 1
            if all(token.ent_iob for token in gold_doc[start:end]):
                predicted.append(Mention(start, end, ent.label_))
                spans.append(ent)
    return Judged(
        {_mention(ent) for ent in gold_doc.ents},
        predicted,
        spans,
        {ent.label_ for ent in predicted_doc.ents},
        gold_doc,
    )


def _judge_spans(example: Example, key: str) -> Judged | None:
    """Compare the spans of a group, which may overlap, like spaCy's `spancat`.

    A reference without the group is not annotated. A prediction that does not align with tokens of
    the reference is left out.
    """
    gold_doc, predicted_doc = example.reference, example.predicted
    if key not in gold_doc.spans:
        return None
    spans = list(predicted_doc.spans.get(key, []))
    found: dict[Mention, Span] = {}
    for span in spans:
        for aligned in example.get_aligned_spans_x2y([span], allow_overlap=True):
            found[_mention(aligned)] = span
    return Judged(
        {_mention(span) for span in gold_doc.spans[key]},
        list(found),
        list(found.values()),
        {span.label_ for span in spans},
        gold_doc,
    )


def _mention(span: Span) -> Mention:
    return Mention(span.start, span.end, span.label_)


def _key(doc: Doc, start: int, end: int) -> str:
    words = " ".join(token.text for token in doc[start:end])
    return " ".join(words.lower().split())


# ---- matches ----


def _count_exact(judged: Iterable[Judged]) -> dict[str, PRFScore]:
    """Count matches, false positives and misses by type. A gold mention matches once."""
    per_type: dict[str, PRFScore] = defaultdict(PRFScore)
    for mentions in judged:
        for label in mentions.labels:
            per_type[label]  # spaCy lists every predicted type, even if nothing could be judged
        missed = set(mentions.gold)
        for mention in mentions.predicted:
            if mention in missed:
                missed.remove(mention)
                per_type[mention.label].tp += 1
            else:
                per_type[mention.label].fp += 1
        for mention in missed:
            per_type[mention.label].fn += 1
    return per_type


def _exact_counts(mentions: Judged) -> list[int]:
    """Return the number of gold, predicted and exactly matched mentions of a document."""
    exact = len(mentions.gold.intersection(mentions.predicted))
    return [len(mentions.gold), len(mentions.predicted), exact]


def _boundary(judged: Iterable[Judged]) -> PRFScore:
    boundary = PRFScore()
    for mentions in judged:
        places = {mention[:2] for mention in mentions.predicted}
        boundary.score_set(places, {mention[:2] for mention in mentions.gold})
    return boundary


def _boundary_hits(mentions: Judged) -> int:
    """Return the number of gold mentions whose boundaries were found."""
    places = {mention[:2] for mention in mentions.predicted}
    return sum(mention[:2] in places for mention in mentions.gold)


def _soft_scores(judged: Iterable[Judged], exact: PRFScore) -> dict[str, float | None]:
    """Return partial and type scores. Each gold mention is paired with at most one prediction."""
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
    """Pair predictions with gold mentions that overlap them, and return the distances of the pairs.

    Predictions with the boundaries of a gold mention are paired first. Each other prediction, from
    left to right, is paired with the first gold mention that overlaps it and is not paired yet. The
    distance is the number of tokens by which the boundaries differ.
    """
    by_token: dict[int, list[Mention]] = defaultdict(list)
    for mention in mentions.gold:
        for token in range(mention.start, mention.end):
            by_token[token].append(mention)
    candidates = []
    for i, (start, end, label) in enumerate(mentions.predicted):
        near = {m for token in range(start, end) for m in by_token[token]}
        for gold in near:
            if gold.label == label or not same_type:
                distance = abs(gold.start - start) + abs(gold.end - end)
                candidates.append((distance > 0, start, end, i, gold, distance))
    pairs: dict[int, int] = {}
    taken: set[Mention] = set()
    for _, _, _, i, gold, distance in sorted(candidates):
        if i not in pairs and gold not in taken:
            pairs[i] = distance
            taken.add(gold)
    return list(pairs.values())


def _by_length(judged: Sequence[Judged]) -> dict[str, list[bool]]:
    """Return whether each gold mention was found, for mentions in short sentences and in others."""
    lengths: list[int] = []
    hits: list[tuple[int, bool]] = []  # length of the mention's sentence
    for mentions in judged:
        starts = sentence_starts(mentions.reference)
        sizes = np.diff(np.append(starts, len(mentions.reference)))
        lengths.extend(sizes.tolist())
        found = set(mentions.predicted)
        for mention in mentions.gold:
            sentence = int(np.searchsorted(starts, mention.start, side="right")) - 1
            hits.append((int(sizes[sentence]), mention in found))
    mean = float(np.mean(lengths)) if lengths else 0.0
    return {
        "short": [hit for length, hit in hits if length < mean],
        "long": [hit for length, hit in hits if length >= mean],
    }


# ---- confidences ----


def judged_spans(judged: Iterable[Judged]) -> Iterator[tuple[Span, bool]]:
    """Yield each predicted span that can be judged, and whether it is correct.

    A gold mention matches once, as in the counts: if tokens differ, two predictions may align with
    it.

    Args:
        judged: The mentions of each document.
    """
    for mentions in judged:
        missed = set(mentions.gold)
        for mention, span in zip(mentions.predicted, mentions.spans, strict=True):
            yield span, mention in missed
            missed.discard(mention)


def confidences(
    judged: Iterable[Judged], get: Callable[[Span], float | None] = confidence_of
) -> tuple[np.ndarray, np.ndarray]:
    """Return the confidences of predicted mentions, and whether each is correct.

    Args:
        judged: The mentions of each document.
        get: Returns the confidence of a span.

    Returns:
        (n,) the confidences of those mentions that have one, and (n,) whether each is correct.
    """
    found = [(get(span), correct) for span, correct in judged_spans(judged)]
    pairs = [(value, correct) for value, correct in found if value is not None]
    values, correct = zip(*pairs, strict=True) if pairs else ((), ())
    return np.array(values, dtype=np.float64), np.array(correct, dtype=bool)


def _confidence_scores(judged: Sequence[Judged]) -> dict[str, float | None]:
    values, correct = confidences(judged)
    gold = sum(len(mentions.gold) for mentions in judged)
    scores: dict[str, float | None] = dict.fromkeys(
        ("mslm_confidence", "mslm_ece", "mslm_ece_debiased", "mslm_ece_uncalibrated")
    )
    silent = not any(mentions.predicted for mentions in judged)
    if gold and (silent or len(values)):  # otherwise, the component has no confidences
        scores["mslm_confidence"] = float(values[correct].sum() / gold)
    if len(values):
        scores["mslm_ece"] = calibration_error(values, correct)
        scores["mslm_ece_debiased"] = debiased_error(values, correct)
        raw, _ = confidences(judged, raw_confidence_of)
        scores["mslm_ece_uncalibrated"] = calibration_error(raw, correct)
    return scores


# ---- rates ----


def _rates(prefix: str, prf: PRFScore) -> dict[str, float | None]:
    """Return precision, recall and F, each None if there are neither gold nor predictions."""
    values = prf.to_dict() if len(prf) else dict.fromkeys("prf")
    return {f"{prefix}_{rate}": values[rate] for rate in "prf"}


def _soft_rates(prefix: str, credit: float, gold: int, predicted: int) -> dict[str, float | None]:
    """Return precision, recall and F of a sum of matches that may contain halves, or None."""
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
    """Return the mean of a rate over types, or None if there are no types."""
    return sum(prf.to_dict()[rate] for prf in types) / len(types) if types else None


def _share(hits: list[bool]) -> float | None:
    return sum(hits) / len(hits) if hits else None
