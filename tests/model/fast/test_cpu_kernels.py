"""Layers in prediction on a CPU: the same numbers by other kernels, in few sizes."""

import pytest
import torch
from torch import nn
from torch.nn.functional import gelu, linear

from spacy_mslm.model.fast import cpu_kernels
from spacy_mslm.model.fast.cpu_kernels import fast_kernels

CPU = torch.device("cpu")


@pytest.fixture
def calls(monkeypatch) -> list[torch.Size]:
    """The inputs' shapes of what oneDNN has computed."""
    if not cpu_kernels._is_usable():
        pytest.skip("this build of torch has no oneDNN")
    made: list[torch.Size] = []
    onednn = cpu_kernels._onednn

    def counted(input, weight, bias):
        made.append(input.shape)
        return onednn(input, weight, bias)

    monkeypatch.setattr(cpu_kernels, "_onednn", counted)
    return made


@pytest.mark.parametrize("shape", [(16,), (1, 16), (16, 16), (7, 16), (2, 5, 16), (3, 101, 16)])
@pytest.mark.parametrize("bias", [True, False])
def test_same_numbers(calls, shape, bias):
    layer = nn.Linear(16, 9, bias=bias)
    input = torch.randn(shape)
    with torch.inference_mode():
        expected = layer(input)
        with fast_kernels(CPU):
            found = layer(input)
            named = linear(input, weight=layer.weight, bias=layer.bias)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(named, expected)
    assert len(calls) == 2


def test_transposed_input(calls):
    layer, input = nn.Linear(16, 9), torch.randn(4, 16, 7).mT
    with torch.inference_mode(), fast_kernels(CPU):
        torch.testing.assert_close(layer(input), input @ layer.weight.T + layer.bias)
    assert calls


@pytest.mark.parametrize("input", [torch.randn(0, 16), torch.randn(3, 16, dtype=torch.float64)])
def test_what_does_not_fit_is_left_to_torch(calls, input):
    layer = nn.Linear(16, 9).to(input.dtype)
    with torch.inference_mode(), fast_kernels(CPU):
        assert layer(input).shape == (*input.shape[:-1], 9)
    assert not calls


def test_few_sizes(calls):
    """oneDNN keeps memory for every size that it meets."""
    layer = nn.Linear(16, 9)
    with torch.inference_mode(), fast_kernels(CPU):
        for rows in range(1, 1025):
            assert len(layer(torch.ones(rows, 16))) == rows
    assert len(set(calls)) == 28
    assert all(0 <= shape[0] - rows < 64 for rows, shape in enumerate(calls, 1))


@pytest.mark.parametrize("shape", [(5,), (4, 6), (2, 3, 4), (0, 6)])
@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu(shape, approximate):
    input = torch.randn(shape)
    expected = gelu(input, approximate=approximate)
    with torch.inference_mode(), fast_kernels(CPU):
        found = gelu(input, approximate=approximate)
        torch.testing.assert_close(nn.GELU(approximate)(input), expected)
    torch.testing.assert_close(found, expected)
    assert found.is_contiguous()


def test_gelu_keeps_off_onednn():
    """torch's own kernel is met only where the tensor does not lie in the usual order."""
    input = torch.randn(4, 6)
    seen = []

    class Watch(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            if func is gelu:
                seen.append(args[0].is_contiguous())
            return func(*args, **(kwargs or {}))

    with torch.inference_mode(), Watch(), fast_kernels(CPU):
        gelu(input)
    assert seen == [False]


def test_prediction_uses_it_and_training_does_not(calls, make_nlp):
    from ...conftest import make_examples

    nlp = make_nlp()
    calls.clear()
    nlp.update(make_examples(nlp))
    assert not calls
    nlp("acute renal failure")
    assert calls


def test_a_build_without_it(monkeypatch, make_nlp):
    nlp = make_nlp(token_probabilities=True)
    expected = nlp("acute renal failure .")._.bio_probabilities

    def missing(*args):
        raise AttributeError("no such operator")

    monkeypatch.setattr(cpu_kernels, "_onednn", missing)
    cpu_kernels._is_usable.cache_clear()
    try:
        found = nlp("acute renal failure .")._.bio_probabilities
    finally:
        cpu_kernels._is_usable.cache_clear()
    assert found == pytest.approx(expected, abs=1e-5)


def test_the_first_prediction_draws_no_random_number(make_nlp):
    nlp = make_nlp()
    cpu_kernels._is_usable.cache_clear()
    before = torch.get_rng_state()
    nlp("acute renal failure .")
    assert cpu_kernels._is_usable.cache_info().misses == 1
    assert torch.equal(torch.get_rng_state(), before)
