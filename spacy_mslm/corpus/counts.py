"""Count documents, sentences, tokens and mentions of an entity corpus."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from spacy.tokens import Doc

from ..text.sentences import sentence_starts


@dataclass
class Counts:
    """The counts of a split. White space does not count as tokens."""

    docs: int = 0
    sentences: int = 0
    tokens: int = 0
    mention_tokens: int = 0
    labels: Counter[str] = field(default_factory=Counter)

    @property
    def mentions(self) -> int:
        return self.labels.total()


def count_docs(docs: Iterable[Doc]) -> Counts:
    """Count the documents of a split."""
    counts = Counts()
    for doc in docs:
        counts.docs += 1
        for start, end in pairwise([*sentence_starts(doc).tolist(), len(doc)]):
            words = sum(not token.is_space for token in doc[start:end])
            counts.sentences += words > 0
            counts.tokens += words
        counts.mention_tokens += sum(not token.is_space for ent in doc.ents for token in ent)
        counts.labels.update(ent.label_ for ent in doc.ents)
    return counts


def make_figures(counts: dict[str, Counts]) -> dict[str, Any]:
    """Compute the figures of a corpus, those of the columns of the paper's Table 9.

    Mean lengths are over all splits; mentions per sentence are those of train.
    """
    sentences = sum(c.sentences for c in counts.values())
    mentions = sum(c.mentions for c in counts.values())
    train = counts.get("train", Counts())
    return {
        "sentences": {name: c.sentences for name, c in counts.items()},
        "classes": len({label for c in counts.values() for label in c.labels}),
        "sentence_length": _mean(sum(c.tokens for c in counts.values()), sentences),
        "mentions": {name: c.mentions for name, c in counts.items()},
        "mentions_per_sentence": _mean(train.mentions, train.sentences),
        "mention_length": _mean(sum(c.mention_tokens for c in counts.values()), mentions),
    }


def _mean(total: int, count: int) -> float | None:
    return total / count if count else None
