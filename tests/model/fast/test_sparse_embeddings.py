"""The vocabulary's gradient: what torch would compute, in one matrix."""

import pytest
import torch

from spacy_mslm.model import network as network_module
from spacy_mslm.model.checkpoints import load_checkpoint
from spacy_mslm.model.fast.sparse_embeddings import project_apart, use_sparse_gradient
from spacy_mslm.model.network import MSLMNetwork
from spacy_mslm.model.shim import MSLMShim
from spacy_mslm.pieces.collate import pad_rows

from ...checkpoints import FAMILIES, NO_ADAPTER, build_checkpoint
from ...helpers import make_rows


def gradients(shim: MSLMShim, masked: bool) -> dict[str, torch.Tensor]:
    """Of two updates, each of two blocks, as the optimizer gets them."""
    network = shim.network
    for seed in (0, 1):
        rows = make_rows([12, 12, 5, 4], seed)
        for row in rows:
            row.ids %= network.lm.config.vocab_size
            row.mentions = [(pieces, 0) for pieces, _ in row.mentions]
            row.kinds[:] *= masked
        batch = pad_rows([rows[:2], rows[2:]], shim.wordpieces)
        assert bool(len(batch.mask_at)) == masked and len(batch.blocks) == 2
        outputs, backprop = shim(batch, is_train=True)
        backprop(type(outputs)(*(None if t is None else torch.cos(t.detach()) for t in outputs)))
    shim._matrices.replace_sparse(network.parameters())
    found = {n: p.grad.clone() for n, p in network.named_parameters() if p.grad is not None}
    shim.drop_gradients()
    return found


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("family", FAMILIES + NO_ADAPTER)
def test_same_gradients(family, masked, tmp_path, monkeypatch):
    lm, wordpieces = load_checkpoint(str(build_checkpoint(tmp_path, family)))
    shim = MSLMShim()
    shim.set(MSLMNetwork(lm, k=4, d=4, types=1), wordpieces)
    monkeypatch.setattr(shim.network, "train", lambda mode=True: None)  # no dropout
    assert lm.get_input_embeddings().sparse
    gradients(shim, masked)  # leaves nothing in the matrix that is used again
    found = gradients(shim, masked)
    lm.get_input_embeddings().sparse = False
    monkeypatch.setattr(network_module, "project_apart", lambda project, vectors: project(vectors))
    expected = gradients(shim, masked)
    assert found.keys() == expected.keys() and len(found) > 10
    for name, gradient in expected.items():
        assert not found[name].is_sparse
        torch.testing.assert_close(found[name], gradient, rtol=1e-4, atol=1e-6)


def test_the_projection_is_not_added_to_out_of_place(tmp_path):
    """Its gradient is the very matrix in which rows are added up."""
    lm, wordpieces = load_checkpoint(str(build_checkpoint(tmp_path, "bert")))
    use_sparse_gradient(lm, torch.device("cpu"))
    network = MSLMNetwork(lm, k=4, d=4, types=1)
    weight = lm.get_input_embeddings().weight
    assert lm.get_output_embeddings().weight is weight
    vectors = network.encode(*pad_rows([make_rows([7, 7], 0)], wordpieces).blocks[0])
    places = []
    vectors.register_hook(lambda gradient: places.append(weight.grad.data_ptr()))
    project_apart(lm.cls, vectors).sum().backward()
    assert places == [weight.grad.data_ptr()]


def test_without_gradients():
    layer = torch.nn.Linear(3, 5)
    input = torch.randn(2, 3)
    with torch.inference_mode():
        assert torch.equal(project_apart(layer, input), layer(input))
