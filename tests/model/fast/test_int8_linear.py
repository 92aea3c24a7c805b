"""Layers in 8-bit integers: numbers worked out by hand, and how far they are from the floats."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from spacy_mslm.model.fast.int8_linear import Int8Linear, replace_linear_layers


def layer(weight: list[list[float]], bias: list[float] | None) -> nn.Linear:
    made = nn.Linear(len(weight[0]), len(weight), bias=bias is not None)
    with torch.no_grad():
        made.weight.copy_(torch.tensor(weight))
        if bias is not None:
            made.bias.copy_(torch.tensor(bias))
    return made


def test_by_hand():
    """Weights: 6.3 is 63 at a scale of 0.1, so -3.14 is -31; 0.63 at 0.01, so 0.104 is 10.
    Rows: 127 is 127 at a scale of 1, so 40.4 is 40; -1.27 is -127 at 0.01, so 0.333 is 33."""
    made = Int8Linear(layer([[6.3, -3.14], [0.104, 0.63]], [1.0, -2.0]))
    assert made.weight.tolist() == [[63, 10], [-31, 63]] and made.weight.dtype == torch.int8
    found = made(torch.tensor([[127.0, 40.4], [-1.27, 0.333]]))
    expected = [
        [(127 * 63 - 40 * 31) * 0.1 + 1, (127 * 10 + 40 * 63) * 0.01 - 2],
        [(-127 * 63 - 33 * 31) * 0.001 + 1, (-127 * 10 + 33 * 63) * 0.0001 - 2],
    ]
    torch.testing.assert_close(found, torch.tensor(expected))


def test_zeros():
    made = Int8Linear(layer([[0.0, 0.0], [1.0, 2.0]], None))
    assert made(torch.zeros(3, 2)).tolist() == [[0.0, 0.0]] * 3
    assert made(torch.tensor([[1.0, 1.0]])) == pytest.approx(torch.tensor([[0.0, 3.0]]), abs=0.05)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), rows=st.integers(1, 8), size=st.integers(1, 40))
def test_near_the_floats_and_row_by_row(seed, rows, size):
    generator = torch.Generator().manual_seed(seed)
    floats = layer(torch.randn(5, size, generator=generator).tolist(), None)
    input = torch.randn(rows, size, generator=generator)
    input[0] *= 1000  # a row of large values does not harm the others
    made = Int8Linear(floats)
    found = made(input)
    # Half a step of each of the two roundings, at each of the products.
    largest, heaviest = input.abs().amax(1, keepdim=True), floats.weight.abs().amax(1)
    bound = size * largest * heaviest * (0.5 / 127 + 0.5 / 63 + 0.25 / 127 / 63)
    assert ((found - floats(input)).abs() <= bound * 1.001).all()
    alone = torch.cat([made(row[None]) for row in input])
    torch.testing.assert_close(found, alone, rtol=1e-5, atol=1e-5)


def test_all_layers_are_replaced():
    network = nn.Sequential(nn.Linear(3, 4), nn.Sequential(nn.Tanh(), nn.Linear(4, 2, bias=False)))
    replace_linear_layers(network)
    assert [type(m) for m in network.modules() if not list(m.children())] == [
        Int8Linear,
        nn.Tanh,
        Int8Linear,
    ]
    assert network(torch.ones(1, 3)).shape == (1, 2)
