"""Documents -> weak labels: annotators, clusters, aggregation, context, one after another."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from spacy.tokens import Doc, Span
from spacy.util import registry

from .aggregation import agreement
from .clusters import Clusters
from .concepts import Aggregation, Annotator, Concept, Mention
from .context import Context
from .documents import Documents, marks
from .notes import Note

Found = dict[str, list[Mention]]


class Labelled(NamedTuple):
    """A document with its weak labels as entities, and what happened on the way to them."""

    doc: Doc
    counts: Counter[str]


class Failed(NamedTuple):
    """A note that an annotator could not read."""

    note: str
    error: str


class Labeller:
    """Finds and labels the mentions of notes.

    annotators: by their names, the one to be believed most first.
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
        """In the order of the notes."""
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
            set_mentions(doc, kept)
            yield Labelled(doc, counts)

    def find(self, docs: Sequence[Doc]) -> Iterator[tuple[Doc, tuple[Found, Counter[str]] | str]]:
        """What each annotator has found in each document; or the name of the error that one has
        raised there. The documents beside it are not lost."""
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

    def _find(self, docs: Sequence[Doc]) -> list[tuple[Found, Counter[str]]]:
        results: list[tuple[Found, Counter[str]]] = [({}, Counter()) for _ in docs]
        for source, annotator in self.annotators.items():
            found = annotator(docs)
            for doc, (mentions, counts), concepts in zip(docs, results, found, strict=True):
                mentions[source] = list(self._mentions(doc, source, concepts, counts))
        return results

    def _mentions(
        self, doc: Doc, source: str, concepts: Iterable[Concept], counts: Counter[str]
    ) -> Iterator[Mention]:
        """Concepts of a cluster, in tokens; never inside of a mark of de-identification."""
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
                yield Mention(span.start, span.end, label, id_, source, concept.score)


def _is_hidden(concept: Concept, hidden: list[tuple[int, int]], ends: list[int]) -> bool:
    """Whether a part of a concept is in the first mark that ends behind its start: a note may have
    thousands of both."""
    first = bisect_right(ends, concept.start)
    return first < len(hidden) and hidden[first][0] < concept.end


def set_mentions(doc: Doc, mentions: Iterable[Mention]) -> None:
    spans = [Span(doc, m.start, m.end, label=m.label, kb_id=m.concept) for m in mentions]
    doc.set_ents(spans, default="outside")


def make_labeller(settings: dict[str, Any]) -> Labeller:
    """From the [labelling] block of a config. Loads all that the annotators need."""
    parts = ("sentences", "clusters", "annotators", "aggregation", "context")
    resolved = registry.resolve({part: settings[part] for part in parts})
    return Labeller(
        Documents(settings["lang"], resolved["sentences"]),
        resolved["annotators"],
        resolved["clusters"],
        resolved["aggregation"],
        resolved["context"],
    )
