"""Extension attributes of documents and spans.

The pipe sets `span._.confidence` and `doc._.bio_probabilities`. Corpora set
`doc._.annotated_labels`: the entity types that are annotated in a gold document, or None if all
are. A token outside the mentions of a gold document is known to be outside only for these types.
"""

from collections.abc import Iterable

from spacy.tokens import Doc, Span

for _owner, _name in (
    (Span, "confidence"),
    (Doc, "bio_probabilities"),
    (Doc, "annotated_labels"),
):
    if not _owner.has_extension(_name):
        _owner.set_extension(_name, default=None)


def confidence_of(span: Span) -> float | None:
    """Return the probability that a predicted mention is correct, None if it has no confidence."""
    return span._.confidence


def annotated_labels(doc: Doc) -> frozenset[str] | None:
    """Return the entity types that are annotated in a gold document, None if all are."""
    labels = doc._.annotated_labels
    return None if labels is None else frozenset(labels)


def set_annotated_labels(doc: Doc, labels: Iterable[str]) -> None:
    """Set the entity types that are annotated in a gold document."""
    doc._.annotated_labels = sorted(labels)  # a list, which DocBin can store
