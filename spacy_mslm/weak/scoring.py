"""Scoring of weak labels: each annotator and their aggregation against annotated notes."""

from collections import defaultdict
from pathlib import Path
from typing import Any

from spacy.scorer import PRFScore
from spacy.tokens import Doc
from spacy.util import minibatch

from ..corpus.readers import make_corpus
from ..types import Mention
from .concepts import MentionsBySource
from .label_corpus import BATCH
from .labeller import make_labeller
from .notes import Note

VOTE, ALL = "vote", "all"


def score_labels(settings: dict[str, Any], gold: Path) -> dict[str, dict[str, PRFScore]]:
    """Score each annotator and their aggregation (`vote`), by label and for `all` labels. A mention
    is right if its boundaries and label are.

    settings: The [labelling] block of a config. Its context is not applied.
    gold: Documents whose entities have the labels of the clusters. An aggregation that learns is
        fitted to their texts.

    Returns scores by annotator and label.
    """
    labeller = make_labeller(settings)
    references = [eg.reference for eg in make_corpus(gold)(labeller.documents.nlp)]
    found: list[tuple[Doc, MentionsBySource]] = []
    for batch in minibatch(references, BATCH):
        notes = [Note(str(i), "", doc.text) for i, doc in enumerate(batch)]
        for doc, result in labeller.find([labeller.documents(note) for note in notes]):
            found.append((doc, {} if isinstance(result, str) else result[0]))
    labeller.aggregation.load(labeller.aggregation.fit(iter(found)))
    scores: dict[str, dict[str, PRFScore]] = {
        source: defaultdict(PRFScore) for source in (*labeller.annotators, VOTE)
    }
    for reference, (doc, mentions) in zip(references, found, strict=True):
        expected = [Mention(e.start_char, e.end_char, e.label_) for e in reference.ents]
        voted = {VOTE: labeller.aggregation(doc, mentions)}
        for source, ours in {**mentions, **voted}.items():
            spans = [(doc[m.start : m.end], m.label) for m in ours]
            places = [Mention(span.start_char, span.end_char, label) for span, label in spans]
            _add(scores[source], places, expected)
    return scores


def _add(scores: dict[str, PRFScore], ours: list[Mention], expected: list[Mention]) -> None:
    for label in {mention.label for mention in (*ours, *expected)}:
        scores[label].score_set(
            {mention for mention in ours if mention.label == label},
            {mention for mention in expected if mention.label == label},
        )
    scores[ALL].score_set(set(ours), set(expected))
