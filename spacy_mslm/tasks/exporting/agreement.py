"""How often an exported classifier, run by transformers on plain text, agrees with its pipeline."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from spacy.language import Language
from spacy.tokens import Doc
from transformers import PreTrainedModel, PreTrainedTokenizerFast
from transformers import pipeline as hugging_face_pipeline

from ...pipeline.component import MSLM
from ...pipeline.find import run_pipes_before


class Agreement(NamedTuple):
    """Counts on a set of texts."""

    tokens: int
    same_tokens: int  # with the same type, or outside in both
    entities: int  # of the pipeline
    same_entities: int  # with the same type and boundaries in both

    @property
    def token_share(self) -> float:
        """The share of tokens on which both agree."""
        return self.same_tokens / self.tokens if self.tokens else 1.0

    @property
    def entity_share(self) -> float:
        """The share of the pipeline's entities that the classifier finds exactly."""
        return self.same_entities / self.entities if self.entities else 1.0


def measure(
    nlp: Language,
    name: str,
    pipe: MSLM,
    classifier: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    docs: Iterable[Doc],
) -> Agreement:
    """Compare the entities of a pipeline with those of `pipeline("token-classification")`.

    Args:
        nlp: The pipeline.
        name: The name of its pipe.
        pipe: The pipe.
        classifier: The exported classifier.
        tokenizer: The exported tokenizer.
        docs: The texts. Only the text of a document reaches the classifier.
    """
    docs = run_pipes_before(nlp, name, docs)
    docs = [doc for doc in docs if len(doc)]
    found = find_all(classifier, tokenizer, [doc.text for doc in docs])
    predictions = pipe.predict(docs)
    pipe.set_annotations(docs, predictions)
    counts = Agreement(0, 0, 0, 0)
    for doc, entities in zip(docs, found, strict=True):
        spans = doc.ents if pipe.spans_key is None else doc.spans[pipe.spans_key]
        ours = [(span.start, span.end, span.label_) for span in spans]
        theirs = []
        for entity in entities:
            span = doc.char_span(entity["start"], entity["end"], alignment_mode="expand")
            if span is not None:
                theirs.append((span.start, span.end, entity["entity_group"]))
        tags = _types(ours, len(doc)), _types(theirs, len(doc))
        same = sum(one == other for one, other in zip(*tags, strict=True))
        own = (len(doc), same, len(ours), len({*ours} & {*theirs}))
        counts = Agreement(*(a + b for a, b in zip(counts, own, strict=True)))
    return counts


def find_all(
    classifier: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, texts: Sequence[str]
) -> list[list[dict[str, Any]]]:
    """Return the entities that transformers finds in each text; long texts overlap by a quarter."""
    run = hugging_face_pipeline(
        "token-classification",
        model=classifier,
        tokenizer=tokenizer,
        aggregation_strategy="first",
        stride=tokenizer.model_max_length // 4,
        device="cpu",
    )
    return [run(text) if text.strip() else [] for text in texts]


def _types(entities: Iterable[tuple[int, int, str]], n: int) -> list[str]:
    """Return the type of each token, "" outside."""
    types = [""] * n
    for start, end, label in entities:
        types[start:end] = [label] * (end - start)
    return types
