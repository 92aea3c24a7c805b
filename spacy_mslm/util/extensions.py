"""Extension attributes that the pipe sets: `span._.confidence` and `doc._.bio_probabilities`."""

from spacy.tokens import Doc, Span

for _owner, _name in ((Span, "confidence"), (Doc, "bio_probabilities")):
    if not _owner.has_extension(_name):
        _owner.set_extension(_name, default=None)


def confidence_of(span: Span) -> float | None:
    """Return the probability that a predicted mention is correct, None if it has no confidence."""
    return span._.confidence
