"""Alignment of gold annotation: Example -> tags and mentions in the predicted Doc's tokens.

Missing annotation is treated as in spaCy: no tag, no loss. A mention that the tokens cannot express
is missing, too, and is listed as unaligned: no mention is dropped silently.

A corpus may annotate only some entity types (`doc._.annotated_labels`). `typed_tags` has a column
of tags for each type, in which all tags are missing if the type is not annotated.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
from spacy.tokens import Doc, Span
from spacy.training import Example

from ..types import MISSING, B, Gold, I, Mention, O, Unaligned, one_hot
from ..util.extensions import annotated_labels

logger = logging.getLogger("spacy_mslm")

# The key of `doc._.soft_tags` of a pipeline that tags all its types together.
JOINT = ""


def gold_spans(doc: Doc, spans_key: str | None) -> Iterable[Span]:
    """Return the spans in `doc.spans[spans_key]`, or the entities of a document if it is None."""
    return doc.ents if spans_key is None else doc.spans.get(spans_key, ())


def align_gold(example: Example, spans_key: str | None, *, overlaps: bool = False) -> Gold:
    """Return the tags and mentions of an example.

    spans_key: Read mentions from `doc.spans[spans_key]`; None to read `doc.ents`.
    overlaps: Keep mentions that overlap, if they are of different types.
    """
    reference = example.reference
    annotated = annotated_labels(reference)
    if spans_key is not None:
        return _align_spans(example, spans_key, annotated, overlaps)
    tags = np.full(len(example.predicted), MISSING, dtype=np.int64)
    if not reference.has_annotation("ENT_IOB"):
        return Gold(tags, [], [], annotated)
    mentions, unaligned = _align(example, reference.ents, overlaps)
    outside = [iob == 2 for iob in example.get_aligned("ENT_IOB")]
    tags[np.array(outside, dtype=bool)] = O
    _tag(tags, mentions)
    return Gold(tags, mentions, unaligned, annotated)


def typed_tags(gold: Gold, labels: Sequence[str]) -> np.ndarray:
    """Return (tokens, types) tags: a column of B, I, O for each type.

    All tags of a type that is not annotated are MISSING, and so are tokens without annotation.

    gold: The annotation, from `align_gold`.
    labels: The entity types. Mentions of other types are left out.
    """
    tags = np.where(gold.tags == MISSING, MISSING, O)[:, None].repeat(len(labels), axis=1)
    if gold.annotated is not None:
        tags[:, [label not in gold.annotated for label in labels]] = MISSING
    columns = {label: column for column, label in enumerate(labels)}
    for mention in gold.mentions:
        if mention.label in columns:
            _tag(tags[:, columns[mention.label]], [mention])
    return tags


def soft_tags(example: Example, tags: np.ndarray, labels: Sequence[str]) -> np.ndarray | None:
    """Return the probabilities of tags to learn, or None if the document has no `doc._.soft_tags`.

    A token that is not the same in the reference has its tag.

    Args:
        example: The example.
        tags: (tokens,) or (tokens, types) Its tags.
        labels: The entity types.

    Returns:
        (tokens, 3) or (tokens, types, 3) Probabilities of B, I, O; zeros if the tag is MISSING.

    Raises:
        ValueError: If the probabilities are those of another kind of model.
    """
    stored = example.reference._.soft_tags
    if not stored:
        return None
    typed = tags.ndim > 1
    names = [label for label in labels if label in stored] if typed else [JOINT] * (JOINT in stored)
    if not names:
        raise ValueError(
            "The pipeline that completes the corpus and the one that is trained tag in different "
            "ways: one has spacy_mslm.MSLM.v1 and the other spacy_mslm.MSLM.v2. Set soft = false "
            "for spacy_mslm.CompletedCorpus.v1."
        )
    aligned = example.alignment.x2y
    same = np.flatnonzero(aligned.lengths == 1)
    firsts = np.cumsum(aligned.lengths) - aligned.lengths
    there = aligned.data[firsts[same]]
    once = np.bincount(aligned.data, minlength=len(example.reference))[there] == 1
    same, there = same[once], there[once]
    soft = one_hot(tags)
    for name in names:
        column = soft[:, labels.index(name)] if typed else soft
        given = np.asarray(stored[name], dtype=np.float32)[there]
        known = ~np.isnan(given[:, 0])
        column[same[known]] = given[known]
    return soft


def _align_spans(
    example: Example, key: str, annotated: frozenset[str] | None, overlaps: bool
) -> Gold:
    """Align a span group, which does not say which tokens are annotated: a document with the group
    counts as fully annotated, one without it as not annotated."""
    group = example.reference.spans.get(key)
    predicted = example.predicted
    tags = np.full(len(predicted), O if group is not None else MISSING, dtype=np.int64)
    mentions, unaligned = _align(example, group or (), overlaps)
    for bad in unaligned:
        covered = predicted.char_span(bad.start, bad.end, alignment_mode="expand")
        if covered is not None:
            tags[covered.start : covered.end] = MISSING
    _tag(tags, mentions)
    return Gold(tags, mentions, unaligned, annotated)


def _align(
    example: Example, spans: Iterable[Span], overlaps: bool
) -> tuple[list[Mention], list[Unaligned]]:
    length = len(example.predicted)
    # By label if only mentions of the same type must not overlap.
    taken_by: dict[str, np.ndarray] = defaultdict(lambda: np.zeros(length, dtype=bool))
    mentions, unaligned = [], []
    for span in spans:
        reason = None
        taken = taken_by[span.label_ if overlaps else ""]
        if not span.label_:
            reason = "it has no label"
        elif span.start == span.end or not span.text.strip():
            reason = "it is empty"
        else:
            indices = _aligned_tokens(example, span)
            if indices is None:
                reason = "it splits a token"
            elif taken[indices[0] : indices[1]].any():
                reason = "it overlaps another"
            else:
                taken[indices[0] : indices[1]] = True
                mentions.append(Mention(*indices, span.label_))
        if reason is not None:
            unaligned.append(Unaligned(span.start_char, span.end_char, reason))
    return mentions, unaligned


def _aligned_tokens(example: Example, span: Span) -> tuple[int, int] | None:
    aligned = example.get_aligned_spans_y2x([span], allow_overlap=True)
    return (aligned[0].start, aligned[0].end) if aligned else None


def _tag(tags: np.ndarray, mentions: Iterable[Mention]) -> None:
    for mention in mentions:
        tags[mention.start : mention.end] = I
        tags[mention.start] = B


def document_name(doc: Doc, index: int) -> str:
    """Return the name of a document for messages: its id, or else its index in the stream."""
    return str(doc.user_data.get("id", f"#{index}"))


class UnalignedLog:
    """Logs each gold mention that cannot be aligned once: document, offsets and reason, no text."""

    def __init__(self) -> None:
        self._logged: set[int] = set()

    def __call__(self, example: Example, index: int, gold: Gold) -> None:
        """Log the unaligned mentions of an example.

        index: The example's place in the stream, which names a document that has no id.
        """
        for start, end, reason in gold.unaligned:
            key = hash((example.reference.text, start, end))
            if key not in self._logged:
                self._logged.add(key)
                logger.warning(
                    f"Gold mention left out: document {document_name(example.reference, index)}, "
                    f"characters {start}:{end}: {reason}. Its tokens are treated as not annotated."
                )
