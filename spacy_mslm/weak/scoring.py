"""How good weak labels are: annotators and their vote against annotated notes."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spacy.scorer import PRFScore
from spacy.tokens import Doc
from spacy.util import minibatch

from ..corpus.readers import make_corpus
from .label_corpus import BATCH
from .labeller import Found, make_labeller
from .notes import Note

VOTE, ALL = "vote", "all"
Place = tuple[int, int, str]  # characters, and the label


def score_labels(settings: dict[str, Any], gold: Path) -> dict[str, dict[str, PRFScore]]:
    """Scores of each annotator and of the vote, by label and of all: strict, boundaries and label.

    settings: the [labelling] block of a config; context changes no label here.
    gold: documents whose entities have the labels of the clusters. An aggregation that learns does
        so from their texts.
    """
    labeller = make_labeller(settings)
    references = [eg.reference for eg in make_corpus(gold)(labeller.documents.nlp)]
    found: list[tuple[Doc, Found]] = []
    for batch in minibatch(references, BATCH):
        notes = [Note(str(i), "", doc.text) for i, doc in enumerate(batch)]
        for doc, result in labeller.find([labeller.documents(note) for note in notes]):
            found.append((doc, {} if isinstance(result, str) else result[0]))
    labeller.aggregation.load(labeller.aggregation.fit(iter(found)))
    scores: dict[str, dict[str, PRFScore]] = {
        source: defaultdict(PRFScore) for source in (*labeller.annotators, VOTE)
    }
    for reference, (doc, mentions) in zip(references, found, strict=True):
        expected = [(ent.start_char, ent.end_char, ent.label_) for ent in reference.ents]
        voted = {VOTE: labeller.aggregation(doc, mentions)}
        for source, ours in {**mentions, **voted}.items():
            places = [(doc[m.start].idx, doc[m.start : m.end].end_char, m.label) for m in ours]
            _add(scores[source], places, expected)
    return scores


def _add(scores: dict[str, PRFScore], ours: Sequence[Place], expected: Sequence[Place]) -> None:
    for label in {place[2] for place in (*ours, *expected)}:
        scores[label].score_set(
            {place for place in ours if place[2] == label},
            {place for place in expected if place[2] == label},
        )
    scores[ALL].score_set(set(ours), set(expected))
