"""Linear layers in prediction: the same numbers, by another library."""

import pytest
import torch
from torch import nn

from spacy_mslm import fast_linear
from spacy_mslm.fast_linear import FastLinear


@pytest.fixture
def calls(monkeypatch) -> list[torch.Size]:
    """The inputs' shapes of what oneDNN has computed."""
    if not fast_linear._is_usable():
        pytest.skip("this build of torch has no oneDNN")
    made: list[torch.Size] = []
    onednn = fast_linear._onednn

    def counted(input, weight, bias=None):
        made.append(input.shape)
        return onednn(input, weight, bias)

    monkeypatch.setattr(fast_linear, "_onednn", counted)
    return made


@pytest.mark.parametrize("shape", [(1, 16), (7, 16), (2, 5, 16)])
@pytest.mark.parametrize("bias", [True, False])
def test_same_numbers(calls, shape, bias):
    layer = nn.Linear(16, 9, bias=bias)
    input = torch.randn(shape)
    with torch.inference_mode():
        expected = layer(input)
        with FastLinear():
            found = layer(input)
            named = nn.functional.linear(input, weight=layer.weight, bias=layer.bias)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(named, expected)
    assert len(calls) == 2


@pytest.mark.parametrize(
    "input", [torch.randn(16), torch.randn(0, 16), torch.randn(3, 16, dtype=torch.float64)]
)
def test_what_does_not_fit_is_left_to_torch(calls, input):
    layer = nn.Linear(16, 9).to(input.dtype)
    with torch.inference_mode(), FastLinear():
        assert layer(input).shape == (*input.shape[:-1], 9)
    assert not calls


def test_prediction_uses_it_and_training_does_not(calls, make_nlp):
    from .conftest import make_examples

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

    monkeypatch.setattr(fast_linear, "_onednn", missing)
    fast_linear._is_usable.cache_clear()
    try:
        found = nlp("acute renal failure .")._.bio_probabilities
    finally:
        fast_linear._is_usable.cache_clear()
    assert found == pytest.approx(expected, abs=1e-5)
