"""Mention swap: by hand, and that the new windows are sound."""

import random
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spacy_mslm.training.swap import confirmed, swap_mentions, swapped
from spacy_mslm.types import B, Entity, Evidence, I, O, Pieces, Prediction, Row


def row(ids: list[int], at: list[int], tags: list[int], mentions: list[tuple[range, int]]) -> Row:
    kinds = np.zeros(len(ids), dtype=np.int8)
    places = [(np.array(pieces), type_) for pieces, type_ in mentions]
    return Row(np.array(ids), kinds, np.array(at), np.array(tags), places)


def found_at(start: int, end: int, type_: int, confidence: float) -> Entity:
    return Entity(start, end, type_, confidence, Evidence(confidence, 1.0, 1.0, 1.0, end - start))


# Words of one piece, but for the 12 13 and 21 22 23.
ONE = row(
    [10, 11, 12, 13, 14, 15], [0, 1, 2, 4, 5], [O, B, I, O, B], [(range(1, 4), 0), (range(5, 6), 1)]
)
TWO = row([20, 21, 22, 23, 24], [0, 1, 4], [O, B, O], [(range(1, 4), 0)])
THREE = row([30, 31], [0, 1], [B, O], [(range(1), 0)])


def test_a_longer_mention_by_hand():
    new = swapped(THREE, 0, ONE, 0)
    assert new.ids.tolist() == [11, 12, 13, 31]
    assert new.tag_at.tolist() == [0, 1, 3] and new.tags.tolist() == [B, I, O]
    assert [(at.tolist(), type_) for at, type_ in new.mentions] == [([0, 1, 2], 0)]
    assert new.kinds.tolist() == [0, 0, 0, 0]


def test_a_shorter_mention_moves_what_follows():
    new = swapped(ONE, 0, THREE, 0)
    assert new.ids.tolist() == [10, 30, 14, 15]
    assert new.tag_at.tolist() == [0, 1, 2, 3] and new.tags.tolist() == [O, B, O, B]
    assert [(at.tolist(), type_) for at, type_ in new.mentions] == [([3], 1), ([1], 0)]
    assert ONE.ids.tolist() == [10, 11, 12, 13, 14, 15]  # the window itself is left alone


def test_tags_may_be_probabilities():
    soft = [np.eye(3, dtype=np.float32)[r.tags] for r in (ONE, TWO)]
    pairs = zip((ONE, TWO), soft, strict=True)
    one, two = (replace(r, tags=tags) for r, tags in pairs)
    new = swapped(one, 0, two, 0)
    assert new.ids.tolist() == [10, 21, 22, 23, 14, 15]
    assert new.tags.tolist() == np.eye(3)[[O, B, O, B]].tolist()


@given(st.integers(0, 999))
def test_types_are_kept_and_windows_fit(seed):
    """The mention of type 1 has no other of its type; windows over 5 pieces are left out."""
    rows = swap_mentions([ONE, TWO, THREE], 20, 5, random.Random(seed))
    assert 0 < len(rows) <= 20 and all(len(r) <= 5 for r in rows)
    for new in rows:
        begins = [int(at[0]) for at, _ in new.mentions]
        assert sorted(begins) == new.tag_at[new.tags == B].tolist()
        assert 15 in new.ids or all(type_ == 0 for _, type_ in new.mentions)
        for at, _ in new.mentions:
            assert np.diff(at).tolist() == [1] * (len(at) - 1) and at[-1] < len(new)


def test_a_new_mention_that_the_model_does_not_find_is_left_out():
    """The model finds tokens 0:2 of type 0, and nothing else."""
    read = []

    def predict(documents: list[Pieces]) -> list[Prediction]:
        read.extend(pieces.token_of.tolist() for pieces in documents)
        return [Prediction([found_at(0, 2, 0, 0.9)], np.zeros((0, 3))) for _ in documents]

    found = swapped(THREE, 0, ONE, 0)
    other_type = replace(found, mentions=[(found.mentions[0][0], 1)])
    elsewhere = swapped(TWO, 0, TWO, 0)  # token 1:2
    assert [id(r) for r in confirmed([found, other_type, elsewhere], predict)] == [id(found)]
    assert read == [[0, 1, 1, 2], [0, 1, 1, 2], [0, 1, 1, 1, 2]]


def test_nothing_to_swap():
    lonely = row([1, 2], [0, 1], [B, O], [(range(1), 0)])
    empty = row([1, 2], [0, 1], [O, O], [])
    assert swap_mentions([lonely, empty], 5, 10, random.Random(0)) == []
    assert swap_mentions([], 5, 10, random.Random(0)) == []
