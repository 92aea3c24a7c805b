"""What the pipe adds to spaCy's objects: `span._.confidence` and `doc._.bio_probabilities`."""

from spacy.tokens import Doc, Span

for _owner, _name in ((Span, "confidence"), (Doc, "bio_probabilities")):
    if not _owner.has_extension(_name):
        _owner.set_extension(_name, default=None)


def confidence_of(span: Span) -> float | None:
    """The probability that a predicted mention is right; None of a span that has no such."""
    return span._.confidence
