"""Even masks: every piece is masked at the same rate, so a mask does not mark mentions."""

import numpy as np
import pytest

from benchmarks.arms.masks import EvenMasking
from spacy_mslm.types import BLM, ELM, UNMASKED, MaskableWindow

LENGTHS = np.array([1, 2, 2, 3, 5, 7])


def make_sequences(generator: np.random.Generator, n: int) -> list[MaskableWindow]:
    sequences = []
    for _ in range(n):
        words = int(generator.integers(4, 40))
        token_of = np.repeat(np.arange(words), generator.integers(1, 4, size=words))
        mentions, at = [], int(generator.integers(0, 5))
        while at < words - 1:
            end = min(at + int(generator.integers(1, 4)), words)
            mentions.append((at, end))
            at = end + int(generator.integers(0, 12))
        sequences.append(
            MaskableWindow(
                token_of, np.array(mentions).reshape(-1, 2), [f"w{i}" for i in range(words)]
            )
        )
    return sequences


@pytest.mark.parametrize("unit", ["mentions", "spans", "words"])
def test_masked_pieces_are_in_mentions_as_often_as_others(unit):
    generator = np.random.default_rng(0)
    masking = EvenMasking(unit, 0.3, LENGTHS)
    masked_inside = masked = inside_all = total = 0
    for sequence in make_sequences(generator, 3000):
        kinds = masking(sequence, generator)
        inside = np.zeros(len(kinds), dtype=bool)
        for start, end in sequence.mentions:
            inside |= (sequence.token_of >= start) & (sequence.token_of < end)
        assert set(kinds[inside]) <= {UNMASKED, ELM}
        assert set(kinds[~inside]) <= {UNMASKED, BLM}
        masked_inside += int((inside & (kinds != UNMASKED)).sum())
        masked += int((kinds != UNMASKED).sum())
        inside_all += int(inside.sum())
        total += len(kinds)
    assert masked / total == pytest.approx(0.3, abs=0.01)
    assert masked_inside / masked == pytest.approx(inside_all / total, abs=0.01)


def test_mentions_are_masked_whole_and_words_are_never_cut():
    generator = np.random.default_rng(1)
    masking = EvenMasking("mentions", 0.3, LENGTHS)
    for sequence in make_sequences(generator, 300):
        masked = masking(sequence, generator) != UNMASKED
        for start, end in sequence.mentions:
            at = (sequence.token_of >= start) & (sequence.token_of < end)
            assert len(set(masked[at])) == 1
        for token in np.unique(sequence.token_of):
            assert len(set(masked[sequence.token_of == token])) == 1


@pytest.mark.parametrize("unit", ["mentions", "spans", "words"])
def test_stretches_cover_the_sequence_once(unit):
    generator = np.random.default_rng(2)
    for sequence in make_sequences(generator, 200):
        covered = np.zeros(len(sequence.token_of), dtype=int)
        for start, end in EvenMasking(unit, 0.3, LENGTHS).stretches(sequence, generator):
            covered[start:end] += 1
        assert (covered == 1).all()
