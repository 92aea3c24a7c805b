"""A teacher labels text, and stops when it is confident of too little of it."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
from spacy.tokens import Doc
from spacy.util import filter_spans

from ..util.extensions import confidence_of

if TYPE_CHECKING:
    from ..pipeline.component import MSLM

# The teacher stops if it has found entities in so many sentences and is confident of a smaller
# share of them, or if it is confident of none after reading so many.
ENOUGH_FOUND, LEAST_SHARE = 200, 0.05
ENOUGH_READ = 20_000
# The share of sentences with entities that the advice would keep.
ADVISED_SHARE = 0.2


class Labelling:
    """Labels sentences with the entities of a teacher, and counts them.

    Args:
        teacher: The teacher.
        min_confidence: A sentence is used if no entity in it has a lower confidence.
    """

    def __init__(self, teacher: "MSLM", min_confidence: float) -> None:
        self._teacher = teacher
        self._min_confidence = min_confidence
        self._lowest: list[float] = []  # the lowest confidence in each sentence with entities
        self.read = 0
        self.kept = 0  # sentences with entities that are used
        self.is_stopped = False

    def __call__(self, docs: Iterable[Doc]) -> Iterator[Doc]:
        """Yield sentences with the teacher's entities in `doc.ents`, also if it writes span groups,
        until it is confident of too few."""
        for doc in self._teacher.pipe(docs, batch_size=256):
            for spans in doc.spans.values():
                doc.set_ents(filter_spans(spans), default="outside")
            doc.spans.clear()
            self.read += 1
            if doc.ents:
                self._lowest.append(min(confidence_of(ent) or 0.0 for ent in doc.ents))
                self.kept += self._lowest[-1] >= self._min_confidence
            yield doc
            found = len(self._lowest)
            self.is_stopped = (found >= ENOUGH_FOUND and self.kept < LEAST_SHARE * found) or (
                self.read >= ENOUGH_READ and not self.kept
            )
            if self.is_stopped:
                return

    def summary(self) -> str:
        """Say what was read, found and kept."""
        if not self._lowest:
            return f"The teacher read {self.read:,} sentences and found no entity in them."
        return (
            f"The teacher read {self.read:,} sentences, found entities in {len(self._lowest):,} of "
            f"them (mean of the lowest confidences: {np.mean(self._lowest):.2f}), and in "
            f"{self.kept:,} none below {self._min_confidence:g}."
        )

    def advice(self) -> str:
        """Say what to change if too few sentences are kept."""
        lower = ""
        if self._lowest:
            value = float(np.quantile(self._lowest, 1 - ADVISED_SHARE))
            lower = (
                f" To use a fifth of the sentences with entities, set "
                f"adaptation.corpus.min_confidence to {np.floor(100 * value) / 100:g}."
            )
        return (
            f"{lower} More updates (--training.max_steps) or more labelled sentences make the "
            "teacher more confident. It is kept: with other settings of the text, it is not "
            "trained again."
        )
