"""One pass over a training set before training: masks, tag transitions, unaligned mentions."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from spacy.training import Example

from ..corpus.gold import UnalignedLog
from ..errors import listing
from ..inference.decoding import count_transitions
from ..masking.strategies import Masking
from ..masking.views import maskable
from ..masking.weights import MaskWeighting, MaskWeights
from ..pieces.windows import WindowSettings
from ..pieces.wordpieces import Wordpieces
from ..types import BLM, ELM, Gold

logger = logging.getLogger("spacy_mslm")

# spaCy's `debug data` warns below the same number.
FEW_MENTIONS = 50


class TrainingSetCounts(NamedTuple):
    """The counts of one pass over a training set.

    Attributes:
        docs: The number of documents.
        empty: The number of documents without a gold mention.
        labels: The number of aligned gold mentions of each type.
        mentions: The number of gold mentions, aligned or not.
        unaligned: The number of gold mentions that do not fit the tokens.
        masks: (3,) The number of pieces that are UNMASKED, BLM and ELM (eq. 2).
        transitions: (3, 3) or (types, 3, 3) How often one of B, I, O follows another.
    """

    docs: int
    empty: int
    labels: Counter[str]
    mentions: int
    unaligned: int
    masks: np.ndarray
    transitions: np.ndarray


def count_training_set(
    examples: Iterable[Example],
    align: Callable[[Example], Gold],
    wordpieces: Wordpieces,
    windows: WindowSettings,
    masking: Masking,
    seed: int,
    log: UnalignedLog,
) -> TrainingSetCounts:
    """Count masks, transitions and unaligned mentions over a training set.

    Args:
        examples: The training set.
        align: Returns the annotation of an example.
        wordpieces: Splits documents.
        windows: How documents are divided into windows.
        masking: The masking strategy.
        seed: The seed of the masks.
        log: Logs mentions that do not fit the tokens.
    """
    masks = np.zeros(3, dtype=np.int64)
    transitions = np.zeros((), dtype=np.int64)
    generator = np.random.default_rng([seed])
    labels: Counter[str] = Counter()
    docs = empty = mentions = unaligned = 0
    for index, example in enumerate(examples):
        docs += 1
        gold = align(example)
        labels.update(mention.label for mention in gold.mentions)
        empty += not gold.mentions and not gold.unaligned
        mentions += len(gold.mentions) + len(gold.unaligned)
        unaligned += len(gold.unaligned)
        log(example, index, gold)
        pieces = wordpieces([example.predicted])[0]
        transitions = transitions + count_transitions(gold.tags[pieces.tagged])
        for window in windows.cover(pieces):
            kinds = masking(maskable(pieces, window, gold), generator)
            masks += np.bincount(kinds, minlength=3)
    return TrainingSetCounts(docs, empty, labels, mentions, unaligned, masks, transitions)


def log_labels(counts: TrainingSetCounts, types: Sequence[str]) -> None:
    """Log the number of documents and of mentions of each type, and which types have few."""
    by_count = sorted(types, key=lambda label: (-counts.labels[label], label))
    each = ", ".join(f"{label} {counts.labels[label]:,}" for label in by_count)
    logger.info(
        f"Training set: {counts.docs:,} documents, {counts.empty:,} of them without mentions; "
        f"{counts.mentions:,} mentions{': ' if each else ''}{each}"
    )
    few = [label for label in by_count if counts.labels[label] < FEW_MENTIONS]
    if few:
        logger.info(
            f"Types with fewer than {FEW_MENTIONS} mentions in the training set: {listing(few)}. "
            "Annotate more of them, or join them with other types."
        )


def check_alignment(counts: TrainingSetCounts, limit: float) -> None:
    """Raise a ValueError if the share of unaligned gold mentions is above `limit`."""
    if counts.unaligned > limit * counts.mentions:
        share = counts.unaligned / counts.mentions
        raise ValueError(
            f"{counts.unaligned} of {counts.mentions} gold mentions ({share:.1%}) do not fit the "
            f"tokens, but at most {limit:.1%} are allowed. They are listed above by document and "
            "offsets. Use the tokenizer that the annotation was made for, or raise "
            "components.mslm.max_unaligned."
        )


def weigh_masks(counts: TrainingSetCounts, weighting: MaskWeighting) -> MaskWeights:
    """Return the weight of each kind of mask (eqs. 2-5), and log it."""
    n_blm, n_elm = int(counts.masks[BLM]), int(counts.masks[ELM])
    weights = weighting(n_blm, n_elm)
    if n_blm + n_elm:
        logger.info(
            "Mask weights: ELM %.3f, BLM %.3f (%d and %d masked pieces)",
            *(weights.elm, weights.blm, n_elm, n_blm),
        )
        if weights.elm == weights.blm and n_blm and n_elm:
            logger.warning(
                f"The mask-specific weights are equal ({n_elm} ELM and {n_blm} BLM pieces are "
                "masked), so domain terms have the same weight as other words. Use "
                "spacy_mslm.MaskSpecificWeights.v2, in which terms weigh more at any density of "
                "mentions, or lower the ELM rate."
            )
    return weights
