"""Labelling of notes: annotators, clusters, aggregation and context, one after another."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from spacy.tokens import Doc, Span
from spacy.util import registry

from .aggregation import agreement
from .clusters import Clusters
from .concepts import Aggregation, Annotator, Concept, MentionsBySource, WeakMention
from .context import Context
from .documents import Documents, marks
from .notes import Note


class Labelled(NamedTuple):
    """A document with its weak labels as entities, and counts for the statistics."""

    doc: Doc
    counts: Counter[str]


class Failed(NamedTuple):
    """The id of a note on which an annotator failed, and the name of the exception."""

    note: str
    error: str


class Labeller:
    """Finds and labels the mentions of notes.

    annotators: By name, in the order of priority.
    """

    def __init__(
        self,
        documents: Documents,
        annotators: dict[str, Annotator],
        clusters: Clusters,
        aggregation: Aggregation,
        context: Context,
    ) -> None:
        self.documents = documents
        self.annotators = annotators
        self.clusters = clusters
        self.aggregation = aggregation
        self.context = context

    def __call__(self, notes: Sequence[Note]) -> Iterator[Labelled | Failed]:
        """Yield the result of each note, in the order of the notes."""
        docs = [self.documents(note) for note in notes]
        for doc, found in self.find(docs):
            if isinstance(found, str):
                yield Failed(doc.user_data["id"], found)
                continue
            mentions, counts = found
            counts.update(agreement(mentions))
            labels = self.aggregation(doc, mentions)
            kept, contexts = self.context(doc, labels)
            counts.update({f"context/{kind}": n for kind, n in contexts.items()})
            ents = [Span(doc, m.start, m.end, label=m.label, kb_id=m.concept) for m in kept]
            doc.set_ents(ents, default="outside")
            yield Labelled(doc, counts)

    def find(
        self, docs: Sequence[Doc]
    ) -> Iterator[tuple[Doc, tuple[MentionsBySource, Counter[str]] | str]]:
        """Yield each document with the mentions by annotator and counts; or with the name of the
        exception that an annotator raised. A failure does not affect other documents."""
        try:
            results = self._find(docs)
        except Exception as err:
            if len(docs) == 1:
                yield docs[0], type(err).__name__
            else:
                for doc in docs:
                    yield from self.find([doc])
            return
        yield from zip(docs, results, strict=True)

    def _find(self, docs: Sequence[Doc]) -> list[tuple[MentionsBySource, Counter[str]]]:
        results: list[tuple[MentionsBySource, Counter[str]]] = [({}, Counter()) for _ in docs]
        for source, annotator in self.annotators.items():
            found = annotator(docs)
            for doc, (mentions, counts), concepts in zip(docs, results, found, strict=True):
                mentions[source] = list(self._mentions(doc, source, concepts, counts))
        return results

    def _mentions(
        self, doc: Doc, source: str, concepts: Iterable[Concept], counts: Counter[str]
    ) -> Iterator[WeakMention]:
        """Convert concepts to mentions. Those that are in no cluster, that do not fit the tokens,
        or that are in a mark of de-identification are left out and counted."""
        hidden = marks(doc.text)
        ends = [end for _, end in hidden]
        for concept in concepts:
            counts[f"found/{source}"] += 1
            label = self.clusters(concept.semantic_type)
            span = doc.char_span(concept.start, concept.end)
            if label is None:
                counts[f"left out/{source}/type {concept.semantic_type} is in no cluster"] += 1
            elif span is None:
                counts[f"left out/{source}/ends within a token"] += 1
            elif _is_hidden(concept, hidden, ends):
                counts[f"left out/{source}/in a mark of de-identification"] += 1
            else:
                id_ = concept.concept
                yield WeakMention(span.start, span.end, label, id_, source, concept.score)


def _is_hidden(concept: Concept, hidden: list[tuple[int, int]], ends: list[int]) -> bool:
    """Return whether a concept overlaps a mark. A note may have thousands of both, so only the
    first mark that ends after the concept's start is compared."""
    first = bisect_right(ends, concept.start)
    return first < len(hidden) and hidden[first][0] < concept.end


def make_labeller(settings: dict[str, Any]) -> Labeller:
    """Create a labeller from the [labelling] block of a config, with all its resources loaded."""
    parts = ("sentences", "clusters", "annotators", "aggregation", "context")
    resolved = registry.resolve({part: settings[part] for part in parts})
    for part in (resolved["clusters"], *resolved["annotators"].values()):
        if hasattr(part, "load"):
            part.load()
    return Labeller(
        Documents(settings["lang"], resolved["sentences"]),
        resolved["annotators"],
        resolved["clusters"],
        resolved["aggregation"],
        resolved["context"],
    )
