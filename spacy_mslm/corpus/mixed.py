"""Corpora that annotate different entity types, for one pipeline with all of these types.

Each document is marked with the types that its corpus annotates (`doc._.annotated_labels`). For the
other types, tokens outside mentions are unknown: they have no loss in training, and predictions of
these types are neither correct nor wrong in scoring.

    corpus    annotates            fever and asthma after aspirin
    ncbi      Disease              O     O   B      O     O          Chemical: unknown
    chemdner  Chemical             O     O   O      O     B          Disease: unknown
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example

from ..errors import listing
from ..util.extensions import annotated_labels, set_annotated_labels
from .readers import make_corpus, select


class PartialCorpus:
    """`spacy_mslm.PartialCorpus.v1`: a corpus that annotates only some entity types.

    path: A `.spacy` file, a folder of them, or an IOB file, as for `spacy_mslm.Corpus.v1`.
    annotates: The entity types that the corpus annotates, by their new names. Mentions of other
        types are left out, and these types count as unknown. Null for all types found in the
        corpus, and those of `doc._.annotated_labels` in documents that have it.
    labels: New names of entity types, such as `{"protein": "Gene"}`. Types that are not named here
        keep their name.
    limit: Maximum number of documents; 0 for all.
    seed: Seed of a shuffle before the limit is applied; null to keep the order of the file.
    """

    def __init__(
        self,
        path: str | Path | None,
        annotates: Sequence[str] | None = None,
        labels: Mapping[str, str] | None = None,
        limit: int = 0,
        seed: int | None = None,
    ) -> None:
        # All documents are read, since the types of the corpus must not depend on the limit.
        self._read = make_corpus(path)
        self.path = path
        self.annotates = None if annotates is None else frozenset(annotates)
        self.labels = dict(labels or {})
        self.limit = limit
        self.seed = seed

    def __call__(self, nlp: Language) -> Iterator[Example]:
        """Yield an Example per document."""
        examples = list(self._read(nlp))
        found: set[str] = set()
        for example in examples:
            rename(example.reference, self.labels)
            found |= labels_of(example.reference)
        self._check(found)
        for example in select(examples, self.limit, self.seed):
            doc = example.reference
            own = annotated_labels(doc)
            renamed = {self.labels.get(label, label) for label in own or ()}
            if self.annotates is None:
                keep_labels(doc, found if own is None else renamed)
            else:
                keep_labels(doc, self.annotates if own is None else renamed & self.annotates)
            yield example

    def _check(self, found: set[str]) -> None:
        """Raise an error if a declared type looks like a wrong name of one that is left out."""
        if self.annotates is None:
            return
        missing, left_out = sorted(self.annotates - found), sorted(found - self.annotates)
        if missing and left_out:
            raise ValueError(
                f"{self.path} is said to annotate {listing(missing)}, but has no mention of it, "
                f"while it has mentions of {listing(left_out)}. Correct `annotates`, or rename the "
                "types of the corpus with `labels`."
            )


class MixedCorpus:
    """`spacy_mslm.MixedCorpus.v1`: several corpora that are mixed into one.

    corpora: The readers of the corpora by name, such as `spacy_mslm.PartialCorpus.v1`.
    weights: How often each document of a corpus is used, by the name of the corpus: 2 for every
        document twice, 0.5 for half of the documents, drawn at random. 1 if it is not given.
    seed: Seed of the draw and of a shuffle of all documents; null to keep one corpus after the
        other.
    """

    def __init__(
        self,
        # `Reader`s: a config is checked before those that it names are built.
        corpora: dict[str, Any],
        weights: dict[str, float] | None = None,
        seed: int | None = 0,
    ) -> None:
        weights = dict(weights or {})
        unknown = sorted(weights.keys() - corpora.keys())
        if unknown or not corpora:
            raise ValueError(
                f"weights names {listing(unknown)}, but the corpora are "
                f"{listing(sorted(corpora)) or 'none'}. Give each corpus below `corpora`."
            )
        wrong = sorted(name for name, weight in weights.items() if weight <= 0)
        if wrong:
            raise ValueError(
                f"The weight of {listing(wrong)} must be greater than 0. Leave out the corpus "
                "instead."
            )
        self.corpora = corpora
        self.weights = weights
        self.seed = seed

    def __call__(self, nlp: Language) -> Iterator[Example]:
        """Yield the Examples of all corpora."""
        generator = random.Random(self.seed or 0)
        examples: list[Example] = []
        for name, corpus in self.corpora.items():
            weight = self.weights.get(name, 1.0)
            while weight >= 1:
                examples += corpus(nlp)
                weight -= 1
            if weight > 0:
                part = list(corpus(nlp))
                examples += generator.sample(part, round(weight * len(part)))
        if self.seed is not None:
            generator.shuffle(examples)
        yield from examples


def labels_of(doc: Doc) -> set[str]:
    """Return the labels of all entities and spans of a document."""
    labels = {span.label_ for group in doc.spans.values() for span in group}
    return (labels | {ent.label_ for ent in doc.ents}) - {""}


def rename(doc: Doc, labels: Mapping[str, str]) -> None:
    """Rename the labels of a document's entities and spans."""
    if not labels_of(doc) & labels.keys():
        return
    doc.set_ents([_relabelled(ent, labels) for ent in doc.ents], default="unmodified")
    for key, group in doc.spans.items():
        doc.spans[key] = [_relabelled(span, labels) for span in group]


def keep_labels(doc: Doc, labels: frozenset[str] | set[str]) -> None:
    """Mark a document as annotated with the given labels, and remove all other mentions."""
    if not labels_of(doc) <= labels:
        others = [ent for ent in doc.ents if ent.label_ not in labels]
        doc.set_ents([], outside=others, default="unmodified")
        for key, group in doc.spans.items():
            doc.spans[key] = [span for span in group if span.label_ in labels]
    set_annotated_labels(doc, labels)


def _relabelled(span: Span, labels: Mapping[str, str]) -> Span:
    return Span(span.doc, span.start, span.end, label=labels.get(span.label_, span.label_))
