"""Rows -> padded batches: every row once, within the budget, and the heads' positions are right."""

from itertools import pairwise

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from spacy_mslm.masking.weights import MaskWeights
from spacy_mslm.model.architecture import shim_of
from spacy_mslm.pieces.collate import (
    GPU_WORTH_A_PASS,
    WORTH_A_PASS,
    batch_by_padded_size,
    batch_rows,
    share_rows,
)
from spacy_mslm.pieces.wordpieces import Wordpieces
from spacy_mslm.training.losses import Terms
from spacy_mslm.training.step import learn
from spacy_mslm.types import UNMASKED

from ..helpers import make_rows

CLS, SEP, MASK, PAD = 1, 2, 3, 0
WORDPIECES = Wordpieces(
    Tokenizer(WordLevel({"a": 0}, unk_token="a")),
    prefix=[CLS],
    suffix=[SEP],
    mask=MASK,
    pad=PAD,
    max_length=512,
    first_space=False,
)


@given(st.lists(st.integers(1, 300), min_size=1, max_size=40), st.integers(0, 9))
def test_batches_of_rows(sizes, seed):
    budget = 1024
    rows = make_rows(sizes, seed)
    before = [row.ids.copy() for row in rows]
    batches = list(batch_rows(rows, budget, WORDPIECES))
    seen = []
    for batch in batches:
        pieces = np.concatenate([block.ids.ravel() for block in batch.blocks])
        assert len(pieces) <= budget
        assert (pieces[batch.mask_at] == MASK).all()
        shown = pieces.copy()
        shown[batch.mask_at] = batch.mask_ids
        # Every piece is tagged here: those positions are the text, in order of the rows.
        seen.append(shown[batch.tag_at])
        assert (np.delete(shown, batch.tag_at) < 10).all()
        for block in batch.blocks:
            assert (block.ids[:, 0] == CLS).all()
            assert (np.take_along_axis(block.ids, block.lengths[:, None] - 1, 1) == SEP).all()
            beyond = np.arange(block.ids.shape[1]) >= block.lengths[:, None]
            assert (block.ids[beyond] == PAD).all()
        assert (np.bincount(batch.span_of) > 0).all() and len(batch.types) == batch.span_of[-1] + 1
    assert sorted(np.concatenate(seen).tolist()) == np.concatenate(before).tolist()
    # Two batches next to each other would not have gone into one.
    blocks = [[block.ids.size for block in batch.blocks] for batch in batches]
    for batch, following in pairwise(blocks):
        assert sum(batch) + following[0] > budget


@given(st.lists(st.integers(1, 300), max_size=40))
def test_blocks_are_of_similar_length(sizes):
    items = [range(size) for size in sizes]
    for indices in batch_by_padded_size(items, 4096, 2):
        widths = [sizes[i] + 2 for i in indices]
        assert widths == sorted(widths, reverse=True)
        for n, width in enumerate(widths):
            assert width >= 0.75 * widths[0] or n * widths[0] < WORTH_A_PASS


@given(st.lists(st.integers(1, 300), max_size=40), st.integers(0, 2000))
def test_blocks_of_a_gpu_are_cut_later(sizes, budget):
    """Only when they are full, or worth a pass."""
    items = [range(size) for size in sizes]
    blocks = [[sizes[i] + 2 for i in b] for b in batch_by_padded_size(items, budget, 2, "cuda")]
    for block, following in pairwise(blocks):
        assert len(block) * block[0] + block[0] > budget
        assert following[0] <= block[-1]
    items = [range(300)] * 20 + [range(9)] * 5
    blocks = list(batch_by_padded_size(items, 10**6, 2, "cuda"))
    assert list(map(len, blocks)) == [20, 5] and GPU_WORTH_A_PASS < 20 * 302


@given(st.lists(st.integers(1, 300), max_size=40), st.integers(1, 5))
def test_shares_have_each_row_once_and_similar_work(sizes, n):
    rows = make_rows(sizes, 0)
    shares = share_rows(rows, n, 2)
    assert len(shares) == n
    assert sorted(id(row) for share in shares for row in share) == sorted(map(id, rows))
    work = [
        sum(block.ids.size for batch in batches for block in batch.blocks)
        + sum(len(batch.mask_at) for batch in batches)
        for batches in (list(batch_rows(share, 10**9, WORDPIECES)) for share in shares)
    ]
    whole = [block for batch in batch_rows(rows, 10**9, WORDPIECES) for block in batch.blocks]
    masked = sum(int((row.kinds != UNMASKED).sum()) for row in rows)
    largest = max(2 * size + 2 for size in (*sizes, 0))
    # A share ends before the row that does not fit.
    total = sum(block.ids.size for block in whole) + masked
    assert max(work) <= total / n + largest + n * WORTH_A_PASS / 4


def test_shares_of_rows_of_one_length_are_even():
    assert [len(share) for share in share_rows(make_rows([20] * 12, 0), 3, 2)] == [4, 4, 4]


def test_gradient_does_not_depend_on_the_batches(make_nlp, monkeypatch):
    """One batch of two blocks, or a batch for each row."""
    model = make_nlp().get_pipe("mslm").model
    network = shim_of(model).network
    monkeypatch.setattr(
        network, "train", lambda mode=True: None
    )  # the encoder has dropout of its own
    sizes = [60] * 10 + [9] * 4
    rows = make_rows(sizes, 0)
    for row in rows:
        row.ids %= network.lm.config.vocab_size
        row.mentions = [(pieces, 0) for pieces, _ in row.mentions]
    one, *more = batch_rows(rows, 4096, shim_of(model).wordpieces)
    assert len(one.blocks) == 2 and not more
    found = []
    for budget in (4096, 64):
        weights = MaskWeights(0.25, 0.75), Terms(1.0, 1.0, 1.0)
        terms = learn(model, shim_of(model).wordpieces, rows, budget, *weights)
        named = network.named_parameters()
        gradients = {n: p.grad.to_dense() for n, p in named if p.grad is not None}
        shim_of(model).drop_gradients()
        found.append((terms, gradients))
    (terms, gradients), (other_terms, other_gradients) = found
    torch.testing.assert_close(tuple(terms), tuple(other_terms))
    assert gradients.keys() == other_gradients.keys() and len(gradients) > 10
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, other_gradients[name], rtol=1e-4, atol=1e-6)
