"""Embeddings in 8-bit integers: numbers worked out by hand, and the distance to the floats."""

from pathlib import Path

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from transformers import AutoModelForMaskedLM

from spacy_mslm.model.fast.int8_embedding import Int8Embedding, replace_piece_embeddings
from spacy_mslm.model.fast.onnx_export import export_encoder


def test_by_hand():
    """12.7 is 127 at a scale of 0.1, so -3.14 is -31 and comes back as -3.1."""
    table = nn.Embedding.from_pretrained(torch.tensor([[12.7, -3.14], [0.0, 0.0]]))
    made = Int8Embedding(table)
    assert made.weight.tolist() == [[127, -31], [0, 0]] and made.weight.dtype == torch.int8
    expected = torch.tensor([[[0.0, 0.0], [12.7, -3.1]]])
    torch.testing.assert_close(made(torch.tensor([[1, 0]])), expected)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), rows=st.integers(1, 20), size=st.integers(1, 40))
def test_half_a_step_from_the_floats(seed, rows, size):
    weight = torch.randn(rows, size, generator=torch.Generator().manual_seed(seed))
    weight[0] *= 1000  # a piece with large values does not harm the others
    found = Int8Embedding(nn.Embedding.from_pretrained(weight))(torch.arange(rows))
    steps = weight.abs().amax(1, keepdim=True) / 127
    assert ((found - weight).abs() <= 0.501 * steps).all()


def test_the_exported_file_holds_integers(encoder: Path):
    lm = AutoModelForMaskedLM.from_pretrained(encoder)
    floats, integers = (len(export_encoder(lm, int8)) for int8 in (False, True))
    n_weights = sum(p.numel() for p in lm.base_model.parameters())
    assert floats > 4 * n_weights and integers < 2 * n_weights + (floats - 4 * n_weights) * 2
    # The encoder that was exported is as it was.
    assert isinstance(lm.base_model.get_input_embeddings(), nn.Embedding)
    replace_piece_embeddings(lm.base_model)
    assert isinstance(lm.base_model.get_input_embeddings(), Int8Embedding)
