"""Concepts that a spaCy pipeline finds: its entities."""

from collections.abc import Iterable, Sequence

import spacy
from spacy.tokens import Doc

from ...util.extensions import confidence_of
from ..concepts import Concept


class PipelineAnnotator:
    """`spacy_mslm.pipeline.v1`.

    model: name or folder of a pipeline. The label of an entity is its semantic type, its `kb_id_`
        the concept; the score is its `_.confidence` where it has one (that of an `mslm` pipe has),
        else 1.
    min_score: entities with less are left out.
    """

    def __init__(self, model: str, min_score: float = 0.0) -> None:
        self.nlp = spacy.load(model)
        self.min_score = min_score

    def __call__(self, docs: Sequence[Doc]) -> Iterable[list[Concept]]:
        with self.nlp.memory_zone():
            for doc in self.nlp.pipe(doc.text for doc in docs):
                concepts = [
                    Concept(ent.start_char, ent.end_char, ent.kb_id_, ent.label_, _score(ent))
                    for ent in doc.ents
                ]
                yield [concept for concept in concepts if concept.score >= self.min_score]


def _score(ent: spacy.tokens.Span) -> float:
    confidence = confidence_of(ent)
    return 1.0 if confidence is None else confidence
