"""Texts -> entities and heat maps. What is returned has no reference to a Doc: the memory zones of
the pipelines free the words of the texts."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import NamedTuple

from spacy.language import Language
from spacy.tokens import Doc, Span

from ..pipeline.find import find_mslm
from ..tasks.annotation.formats import entities_of
from ..tasks.heatmap.reading import TextBlock, make_block, read_model
from ..util.extensions import CONTEXTS, confidence_of
from .schema import Entity


class Served(NamedTuple):
    """A loaded pipeline with the name that it is shown under."""

    name: str
    nlp: Language


class EntityReader:
    """Finds the entities of texts with one call of the pipeline.

    Args:
        served: The pipeline.
    """

    def __init__(self, served: Served) -> None:
        self.nlp = served.nlp
        _, pipe = find_mslm(served.nlp, served.name)
        self.keys = [] if pipe.spans_key is None else [pipe.spans_key]

    def __call__(self, texts: Sequence[str]) -> list[list[Entity]]:
        """Return the entities of each text, in order."""
        with self.nlp.memory_zone():
            docs = self.nlp.pipe(texts, batch_size=len(texts))
            return [list(self._entities(doc)) for doc in docs]

    def _entities(self, doc: Doc) -> Iterator[Entity]:
        for span in sorted(entities_of(doc, self.keys)):
            yield Entity(
                text=span.text,
                label=span.label_,
                start=span.start_char,
                end=span.end_char,
                confidence=confidence_of(span),
                contexts=contexts_of(span),
            )


def contexts_of(span: Span) -> list[str] | None:
    """Return the contexts of an entity, or None if no pipe has looked for them."""
    values = {name: getattr(span._, name) for name in CONTEXTS}
    known = [name for name, value in values.items() if value is not None]
    return [name for name in known if values[name]] if known else None


class HeatmapReader:
    """Reads texts with one or more pipelines, on the tokens of the first.

    Args:
        pipelines: The pipelines.
    """

    def __init__(self, pipelines: Sequence[Served]) -> None:
        self.pipelines = pipelines
        for served in pipelines:
            find_mslm(served.nlp, served.name)

    def __call__(self, texts: Sequence[str]) -> list[TextBlock]:
        """Return what the pipelines predict for the words of each text."""
        with ExitStack() as zones:
            for served in self.pipelines:
                zones.enter_context(served.nlp.memory_zone())
            docs = [self.pipelines[0].nlp.make_doc(text) for text in texts]
            for doc in docs:
                doc.user_data["id"] = ""
            readings = [read_model(served.nlp, served.name, docs) for served in self.pipelines]
            return [make_block(doc, own) for doc, *own in zip(docs, *readings, strict=True)]
