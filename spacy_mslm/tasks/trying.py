"""Find the entities of one text: a first look at a pipeline."""

from typing import NamedTuple

import spacy

from ..pipeline.find import find_mslm
from ..util.extensions import confidence_of

DEFAULT_MODEL = "en_mslm_mini"


class Found(NamedTuple):
    """An entity: its text, type, character offsets, and the probability that it is right."""

    text: str
    label: str
    start: int
    end: int
    confidence: float | None


def find_entities(text: str, model: str = DEFAULT_MODEL) -> list[Found]:
    """Return the entities of a text in order.

    Args:
        text: The text.
        model: Name or path of the pipeline.

    Raises:
        OSError: If the pipeline is not installed.
        ValueError: If it has no `mslm` pipe.
    """
    if model == DEFAULT_MODEL and not spacy.util.is_package(model):
        raise OSError(
            f"{model} is not installed. Install its wheel, which is in the repository of "
            "spacy-mslm: pip install models/en_mslm_mini-0.1.0-py3-none-any.whl. Or give the name "
            "or path of another pipeline (--model)."
        )
    nlp = spacy.load(model)
    _, pipe = find_mslm(nlp, model)
    doc = nlp(text)
    spans = doc.ents if pipe.spans_key is None else doc.spans[pipe.spans_key]
    return [
        Found(span.text, span.label_, span.start_char, span.end_char, confidence_of(span))
        for span in sorted(spans)
    ]
