"""Scores of entity mentions, in `doc.ents` or in a span group, with the counts behind them.

Exact match (EM) is the measure of the MSLM paper: a gold mention counts 1 if a prediction has the
same boundaries, in words, and the same type, else 0; EM is the mean over the gold mentions of the
whole set. That is micro recall, so false alarms do not lower it: read it beside the precision.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

from spacy.scorer import PRFScore
from spacy.tokens import Span
from spacy.training import Example

Mention = tuple[str, int, int]  # label, first token, last token + 1, in tokens of the reference


class Mentions(NamedTuple):
    """What one annotated document contributes.

    gold: all gold mentions. predicted: the predictions that can be judged, which leaves out those
    on unannotated tokens or without counterpart in the reference. labels: of all the predictions.
    """

    gold: set[Mention]
    predicted: list[Mention]
    labels: set[str]


def make_entity_scorer(spans_key: str | None = None) -> Callable[..., dict[str, Any]]:
    """The registered scorer `spacy_mslm.entity_scorer.v1`.

    spans_key: Score `doc.spans[spans_key]`; `doc.ents` when None.

    The scorer returns plain numbers. A rate is None where nothing is there to be rated, which spaCy
    leaves out of the weighted score. `{attr}` is "ents" or "spans_{spans_key}":

    - `{attr}_p`, `{attr}_r`, `{attr}_f`, `{attr}_per_type`: as of spaCy's `ner` and `spancat`.
    - `mslm_em`: exact match, equal to `{attr}_r`.
    - `mslm_macro_p`, `_r`, `_f`: mean over the types that have gold mentions. A type without any
      has no recall to average; its false alarms count in the micro scores.
    - `mslm_boundary_p`, `_r`, `_f`: boundaries only.
    - `mslm_type_acc`: of the gold mentions whose boundaries were found, the share with right type.
    - `mslm_counts`: gold and predicted mentions, exact and boundary matches, documents in all and
      those of them that were skipped because the reference has no annotation.
    """
    return partial(_score, spans_key)


def _score(spans_key: str | None, examples: Iterable[Example], /, **cfg: Any) -> dict[str, Any]:
    """Not a closure: a pipe goes to the worker processes of `nlp.pipe` in a pickle."""
    attr = "ents" if spans_key is None else f"spans_{spans_key}"
    per_type: dict[str, PRFScore] = defaultdict(PRFScore)
    boundary = PRFScore()
    located = docs = skipped = 0
    for example in examples:
        docs += 1
        mentions = _ents(example) if spans_key is None else _spans(example, spans_key)
        if mentions is None:
            skipped += 1
            continue
        _count_exact(mentions, per_type)
        places = {mention[1:] for mention in mentions.predicted}
        boundary.score_set(places, {mention[1:] for mention in mentions.gold})
        located += sum(mention[1:] in places for mention in mentions.gold)
    exact = sum(per_type.values(), PRFScore())
    of_gold = [prf for prf in per_type.values() if prf.tp + prf.fn]
    micro, place = _rates(exact), _rates(boundary)
    scores: dict[str, Any] = {
        **{f"{attr}_{rate}": micro[rate] for rate in "prf"},
        f"{attr}_per_type": (
            {label: prf.to_dict() for label, prf in per_type.items()} if len(exact) else None
        ),
        "mslm_em": micro["r"],
        **{f"mslm_macro_{rate}": _mean(of_gold, rate) for rate in "prf"},
        **{f"mslm_boundary_{rate}": place[rate] for rate in "prf"},
        "mslm_type_acc": exact.tp / located if located else None,
        "mslm_counts": {
            "gold": exact.tp + exact.fn,
            "predicted": exact.tp + exact.fp,
            "exact": exact.tp,
            "boundary": boundary.tp,
            "docs": docs,
            "docs_without_annotation": skipped,
        },
    }
    return scores


def _ents(example: Example) -> Mentions | None:
    """Entities, compared token by token as spaCy's `get_ner_prf` does: a prediction on tokens with
    missing annotation is neither right nor wrong."""
    gold_doc, predicted_doc = example.reference, example.predicted
    if not gold_doc.has_annotation("ENT_IOB"):
        return None
    x2y = example.alignment.x2y
    predicted = []
    for ent in predicted_doc.ents:
        tokens = x2y[ent.start : ent.end]
        if len(tokens):
            start, end = int(tokens[0]), int(tokens[-1]) + 1
            if all(token.ent_iob for token in gold_doc[start:end]):
                predicted.append((ent.label_, start, end))
    return Mentions(
        {_mention(ent) for ent in gold_doc.ents},
        predicted,
        {ent.label_ for ent in predicted_doc.ents},
    )


def _spans(example: Example, key: str) -> Mentions | None:
    """Spans of a group, which may overlap, compared as spaCy's `spancat` does: a reference without
    the group is not annotated, and a prediction that fits no reference tokens is left out."""
    gold_doc, predicted_doc = example.reference, example.predicted
    if key not in gold_doc.spans:
        return None
    spans = list(predicted_doc.spans.get(key, []))
    aligned = example.get_aligned_spans_x2y(spans, allow_overlap=True)
    return Mentions(
        {_mention(span) for span in gold_doc.spans[key]},
        list({_mention(span) for span in aligned}),
        {span.label_ for span in spans},
    )


def _mention(span: Span) -> Mention:
    return span.label_, span.start, span.end


def _count_exact(mentions: Mentions, per_type: dict[str, PRFScore]) -> None:
    """Add one document's hits, false alarms and misses by type; each gold mention is hit once."""
    for label in mentions.labels:
        per_type[label]  # spaCy lists a type that was predicted, even if nothing of it was judged
    missed = set(mentions.gold)
    for mention in mentions.predicted:
        if mention in missed:
            missed.remove(mention)
            per_type[mention[0]].tp += 1
        else:
            per_type[mention[0]].fp += 1
    for label, _, _ in missed:
        per_type[label].fn += 1


def _rates(prf: PRFScore) -> dict[str, float | None]:
    """Precision, recall and F by their initials; None if there is neither gold nor prediction."""
    return dict(prf.to_dict()) if len(prf) else dict.fromkeys("prf")


def _mean(types: list[PRFScore], rate: str) -> float | None:
    """Mean of one rate over the types; None if there are none."""
    return sum(prf.to_dict()[rate] for prf in types) / len(types) if types else None
