"""Merging of the mentions of several annotators by priority, and statistics of their agreement."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import permutations

from spacy.tokens import Doc

from ..util.spans import SpanT, drop_overlapping, longest_first
from .concepts import MentionsBySource, WeakMention


class Priority:
    """`spacy_mslm.Priority.v1`: of mentions that overlap, keeps that of the annotator that is first
    in the config; then the longest; then the first in the text."""

    def fit(self, found: Iterable[tuple[Doc, MentionsBySource]]) -> bytes:
        """Return b"". There is nothing to learn, and no document is read."""
        return b""

    def load(self, state: bytes) -> None: ...

    def __call__(self, doc: Doc, found: MentionsBySource) -> list[WeakMention]:
        """Return mentions that do not overlap, in the order of the text."""
        ordered = (sorted(mentions, key=longest_first) for mentions in found.values())
        return drop_overlapping(mention for mentions in ordered for mention in mentions)


def agreement(found: MentionsBySource) -> Counter[str]:
    """Count how the mentions of each annotator relate to those of each other annotator. Counts can
    be summed over documents.

        agreement/a/b/same          mentions of a that b has, too
        agreement/a/b/other label   b has the same boundaries with other labels only
        agreement/a/b/overlap       b has mentions that overlap, with other boundaries only
        agreement/a/b/only          b has no mention there
        agreement/a/b/conflict/Disease/Symptom
                                    pairs that overlap, labelled Disease by a and Symptom by b

    Both a/b and b/a are counted, and the first four kinds sum to the mentions of the first
    annotator. Conflicts are symmetric, and are counted once, with a before b in the config. A
    mention that an annotator has under two concepts is counted once.
    """
    places = {
        source: {(m.start, m.end, m.label) for m in mentions} for source, mentions in found.items()
    }
    by_token = {source: spans_by_token(spans) for source, spans in places.items()}
    order = {source: number for number, source in enumerate(found)}
    counts: Counter[str] = Counter()
    for source, other in permutations(found, 2):
        for span in places[source]:
            start, end, label = span
            there = {s for i in range(start, end) for s in by_token[other].get(i, ())}
            if span in there:
                kind = "same"
            elif any(s[:2] == span[:2] for s in there):
                kind = "other label"
            else:
                kind = "overlap" if there else "only"
            counts[f"agreement/{source}/{other}/{kind}"] += 1
            if order[source] < order[other]:
                for *_, other_label in there:
                    if other_label != label:
                        counts[f"agreement/{source}/{other}/conflict/{label}/{other_label}"] += 1
    return counts


def spans_by_token(spans: Iterable[SpanT]) -> dict[int, list[SpanT]]:
    """Map each token to the spans that cover it. Spans are tuples that begin with start and end."""
    found: dict[int, list[SpanT]] = defaultdict(list)
    for span in spans:
        for i in range(span[0], span[1]):
            found[i].append(span)
    return found
