"""Annotator that takes the entities of a spaCy pipeline."""

from collections.abc import Iterable, Sequence
from functools import cached_property

from spacy.language import Language
from spacy.tokens import Doc, Span

from ...pipeline.loading import load_pipeline
from ...util.extensions import confidence_of
from ..concepts import Concept


class PipelineAnnotator:
    """`spacy_mslm.pipeline.v1`: the entities of a pipeline. The semantic type is an entity's label,
    the concept its `kb_id_`, the score its `_.confidence`, which an `mslm` pipe sets, or else 1.

    model: Name or folder of a pipeline.
    min_score: Leave out entities with a lower score.
    """

    def __init__(self, model: str, min_score: float = 0.0) -> None:
        self.model = model
        self.min_score = min_score

    @cached_property
    def nlp(self) -> Language:
        """The pipeline."""
        return load_pipeline(self.model)

    def load(self) -> None:
        """Load the pipeline."""
        _ = self.nlp

    def __call__(self, docs: Sequence[Doc]) -> Iterable[list[Concept]]:
        """Yield the concepts of each document."""
        with self.nlp.memory_zone():
            for doc in self.nlp.pipe(doc.text for doc in docs):
                concepts = [
                    Concept(ent.start_char, ent.end_char, ent.kb_id_, ent.label_, _score(ent))
                    for ent in doc.ents
                ]
                yield [concept for concept in concepts if concept.score >= self.min_score]


def _score(ent: Span) -> float:
    confidence = confidence_of(ent)
    return 1.0 if confidence is None else confidence
