"""Counts of documents as text."""

import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from spacy_mslm.scoring.counts import COUNTS, pack, unpack


@given(
    arrays(
        st.sampled_from([np.uint8, np.uint16]), st.tuples(st.integers(0, 40), st.just(len(COUNTS)))
    )
)
def test_counts_survive_the_way_through_json(counts):
    assert np.array_equal(unpack(json.loads(json.dumps(pack(counts)))), counts)


def test_counts_of_earlier_results_are_read():
    # Of the first row of a results file of an earlier version.
    assert unpack("eNpjYmRgYGAEEQAAMAAG").shape == (2, 5)
