"""Mentions of several annotators -> one set of them; and how far the annotators agree."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import permutations
from typing import TypeVar

from spacy.tokens import Doc

from .concepts import Mention

SpanT = TypeVar("SpanT", bound=tuple)


class Priority:
    """`spacy_mslm.Priority.v1`: of mentions that overlap, the one of the annotator that stands
    first in the config; then the longest; then the first in the text."""

    def fit(self, found: Iterable[tuple[Doc, dict[str, list[Mention]]]]) -> bytes:
        """Nothing is learnt, and no document is read."""
        return b""

    def load(self, learnt: bytes) -> None: ...

    def __call__(self, doc: Doc, found: dict[str, list[Mention]]) -> list[Mention]:
        """found: mentions by source, in the order of the config."""
        taken = bytearray(len(doc))
        kept = []
        for mentions in found.values():
            for mention in sorted(mentions, key=lambda m: (m.start - m.end, m.start)):
                if not any(taken[mention.start : mention.end]):
                    taken[mention.start : mention.end] = b"\1" * (mention.end - mention.start)
                    kept.append(mention)
        return sorted(kept)


def agreement(found: dict[str, list[Mention]]) -> Counter[str]:
    """How the mentions of each source look to each other one, as counts that can be added up over
    documents. A source that has a mention twice, under two concepts, has it once here.

        agreement/a/b/same          of a's mentions, those that b has, too
        agreement/a/b/other label   b has only others with the same boundaries
        agreement/a/b/overlap       b has only others that overlap
        agreement/a/b/only          b has nothing there
        agreement/a/b/conflict/Disease/Symptom
                                    pairs that overlap, Disease by a and Symptom by b

    Both a/b and b/a are counted, and the first four add up to the mentions of the first source;
    conflicts are those of b/a, too, and are counted once, a being before b in the config.
    """
    places = {
        source: {(m.start, m.end, m.label) for m in mentions} for source, mentions in found.items()
    }
    covers = {source: cover(spans) for source, spans in places.items()}
    order = {source: number for number, source in enumerate(found)}
    counts: Counter[str] = Counter()
    for source, other in permutations(found, 2):
        for span in places[source]:
            start, end, label = span
            there = {s for i in range(start, end) for s in covers[other].get(i, ())}
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


def cover(spans: Iterable[SpanT]) -> dict[int, list[SpanT]]:
    """Tuples that begin with a start and an end -> those at each token that has some."""
    found: dict[int, list[SpanT]] = defaultdict(list)
    for span in spans:
        for i in range(span[0], span[1]):
            found[i].append(span)
    return found
