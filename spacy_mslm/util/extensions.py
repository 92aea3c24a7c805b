"""Extension attributes of documents and spans.

`span._.confidence` is the probability that a mention is right, `span._.raw_confidence` the same
before calibration. Both belong to the offsets of a span and to its label: an entity with another
label has none. They are in `doc.user_data`, as those of spaCy, so they are kept by `Doc.copy`, by
`Span.as_doc(copy_user_data=True)` and by a `DocBin` with `store_user_data`.

The pipe `mslm_context` sets `span._.negated`, `span._.hypothetical`, `span._.family` and
`span._.template`, in the same way: True, False, or None for spans that it has not read.

`mslm` also sets `doc._.bio_probabilities`. Corpora set `doc._.annotated_labels`: the entity types
that are annotated in a gold document, or None if all are. A token outside the mentions of a gold
document is known to be outside only for these types. `doc._.soft_tags` are the probabilities of
tags that another pipeline has given, to learn from instead of tags.

If other components listen to its encoder, `mslm` also sets `doc._.mslm_vectors`: the vectors of
tokens, (tokens, hidden), by the name of the pipe.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np
from spacy.tokens import Doc, Span


def _data(span: Span) -> dict[Any, Any]:
    return span.doc.user_data  # whose keys are not only strings, as spaCy's types say


def _get(name: str, span: Span) -> Any:
    values = _data(span).get(("._.", name, span.start_char, span.end_char))
    # Files of earlier versions have a number, without the label.
    return values.get(span.label_) if isinstance(values, dict) else values


def _set(name: str, span: Span, value: Any) -> None:
    key = ("._.", name, span.start_char, span.end_char)
    if isinstance(value, dict):  # from Doc.from_json, which knows no labels
        _data(span)[key] = value
        return
    known = _data(span).get(key)
    others = known if isinstance(known, dict) else {}
    _data(span)[key] = {**others, span.label_: value}


# Kinds of context, in the order of precedence.
CONTEXTS = ("template", "family", "hypothetical", "negated")

for _name in ("confidence", "raw_confidence", *CONTEXTS):
    if not Span.has_extension(_name):
        # spaCy sends extensions to worker processes, so they must not be local functions.
        Span.set_extension(_name, getter=partial(_get, _name), setter=partial(_set, _name))
for _name in ("bio_probabilities", "annotated_labels", "soft_tags", "mslm_vectors"):
    if not Doc.has_extension(_name):
        Doc.set_extension(_name, default=None)


def confidence_of(span: Span) -> float | None:
    """Return the probability that a predicted mention is correct, None if it has no confidence."""
    return span._.confidence


def raw_confidence_of(span: Span) -> float | None:
    """Return the same probability before calibration."""
    raw = span._.raw_confidence
    return confidence_of(span) if raw is None else raw


def annotated_labels(doc: Doc) -> frozenset[str] | None:
    """Return the entity types that are annotated in a gold document, None if all are."""
    labels = doc._.annotated_labels
    return None if labels is None else frozenset(labels)


def set_annotated_labels(doc: Doc, labels: Iterable[str]) -> None:
    """Set the entity types that are annotated in a gold document."""
    doc._.annotated_labels = sorted(labels)  # a list, which DocBin can store


def token_vectors(doc: Doc, pipe: str | None) -> np.ndarray | None:
    """Return the (tokens, hidden) vectors that a pipe has set, or None."""
    return (doc._.mslm_vectors or {}).get(pipe)


def set_token_vectors(doc: Doc, pipe: str, vectors: np.ndarray) -> None:
    """Set the (tokens, hidden) vectors of a pipe."""
    doc._.mslm_vectors = {**(doc._.mslm_vectors or {}), pipe: vectors}
