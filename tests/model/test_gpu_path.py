"""The path of a GPU, as far as it can be tested without one.

On the device `meta`, tensors have no content, but as on a GPU they do not mix with those of the
CPU. bfloat16 is the half precision of a GPU; some processors have it, too.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from spacy.language import Language

from benchmarks.operations import Copies
from spacy_mslm.inference.predict import _encode, _groups
from spacy_mslm.masking.weights import MaskWeights
from spacy_mslm.model import shim
from spacy_mslm.model.fast.sparse_embeddings import use_sparse_gradient
from spacy_mslm.model.network import MSLMNetwork, mean_pool, to_device
from spacy_mslm.model.optimizer import make_adamw
from spacy_mslm.pieces.collate import batch_rows
from spacy_mslm.training.losses import Terms, count_totals, joint_loss

from ..conftest import TEXTS, build_encoder, make_examples

MakeNlp = Callable[..., Language]


@pytest.fixture
def on_meta(make_nlp: MakeNlp, monkeypatch: pytest.MonkeyPatch) -> tuple[Language, MSLMNetwork]:
    nlp = make_nlp()
    network = nlp.get_pipe("mslm").shim.network
    # transformers looks into the attention mask, which is a copy from the device: version 4 only
    # for SDPA, version 5 for any attention.
    use_sparse_gradient(network.lm, torch.device("meta"))
    network.lm.base_model.attn_implementation = "eager"
    look = "transformers.masking_utils._ignore_bidirectional_mask_sdpa"
    monkeypatch.setattr(look, lambda *_: False, raising=False)
    return nlp, network.to("meta")


def test_devices_do_not_mix() -> None:
    """Or the tests below would show nothing."""
    with pytest.raises(RuntimeError, match="device"):
        torch.zeros(3, device="meta") + torch.zeros(3)
    with pytest.raises(RuntimeError, match="device"):
        torch.nn.Linear(3, 2, device="meta")(torch.zeros(1, 3))


def test_network_and_losses_stay_on_their_device(on_meta: tuple[Language, MSLMNetwork]) -> None:
    nlp, network = on_meta
    pipe = nlp.get_pipe("mslm")
    ones = Terms(1.0, 1.0, 1.0)
    rows = list(pipe._training_rows(make_examples(nlp), ones, np.random.default_rng(0)))
    weights = MaskWeights(0.25, 0.75)
    batches = list(batch_rows(rows, 60, pipe.shim.wordpieces))
    assert len(batches) > 1
    totals = count_totals(batches, weights)
    for batch in batches:
        outputs = network.train()(batch)
        losses, gradients = joint_loss(outputs, batch, weights, ones, totals)
        pairs = [(o, g) for o, g in zip(outputs, gradients, strict=True) if o is not None]
        torch.autograd.backward(*map(list, zip(*pairs, strict=True)))
        assert {t.device.type for t in (losses, *(o for o, _ in pairs))} == {"meta"}
    assert {p.grad.device.type for p in network.parameters() if p.grad is not None} == {"meta"}


def test_prediction_stays_on_its_device(on_meta: tuple[Language, MSLMNetwork]) -> None:
    """Up to the probabilities, which are decoded on the CPU."""
    nlp, network = on_meta
    pipe = nlp.get_pipe("mslm")
    documents = pipe.shim.wordpieces([nlp.make_doc(text) for text, _ in TEXTS])
    with torch.inference_mode():
        for group in _groups(pipe.windows, documents):
            vectors = _encode(network, pipe.shim.wordpieces, documents, group, 100)
            pooled = mean_pool(vectors[:4], torch.tensor([0, 0, 1, 1], device="meta"), 2)
            found = (vectors, network.detect(vectors), network.classify(pooled))
            assert {t.device.type for t in found} == {"meta"}


def test_a_norm_that_is_copied_with_the_losses_gives_the_same_steps(
    make_nlp: MakeNlp, monkeypatch: pytest.MonkeyPatch
) -> None:
    def train(early: bool) -> tuple[dict[str, torch.Tensor], int]:
        monkeypatch.setattr(shim, "is_checked_early", lambda device: early)
        nlp = make_nlp()
        pipe = nlp.get_pipe("mslm")
        use_sparse_gradient(pipe.shim.network.lm, torch.device("cuda"))
        optimizer = make_adamw(1e-3, 1e-2, grad_clip=0.1)
        examples = make_examples(nlp)
        copies = 0
        for _ in range(2):
            for part in (examples[:2], examples[2:]):  # gradients of two updates are averaged
                with Copies() as counted:
                    pipe.update(part)
                copies += counted.back
                norm = pipe.shim.gradient_norm()
                assert (norm is not None) == early
                assert norm is None or norm > 2 * 0.1  # the gradient is clipped
            with Copies() as counted:
                pipe.finish_update(optimizer)
            copies += counted.back
        return pipe.shim.network.state_dict(), copies

    expected, copies = train(early=False)
    found, fewer = train(early=True)
    for name, tensor in found.items():
        torch.testing.assert_close(tensor, expected[name])
    assert fewer == copies - 2  # one for each step of the optimizer


def test_arrays_that_are_copied_at_once_keep_their_shapes() -> None:
    arrays = [np.arange(6).reshape(2, 3), np.arange(0), np.arange(4)]
    assert [t.tolist() for t in to_device(arrays, torch.device("cpu"))] == [
        array.tolist() for array in arrays
    ]
    there = to_device(arrays, torch.device("meta"))
    assert [tuple(t.shape) for t in there] == [(2, 3), (0,), (4,)]


def has_bfloat16() -> bool:
    """Whether the processor computes in bfloat16 without AMX, which ends the process here."""
    path = Path("/proc/cpuinfo")
    flags = set(path.read_text().split()) if path.exists() else set()
    return "avx512_bf16" in flags and not any(flag.startswith("amx") for flag in flags)


@pytest.mark.skipif(not has_bfloat16(), reason="no bfloat16 in this processor, or AMX")
def test_half_precision_learns_and_finds_the_same(make_nlp: MakeNlp, tmp_path: Path) -> None:
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    encoder = str(build_encoder(tmp_path, **still))

    def train(half: bool) -> tuple[list[float], list[list[tuple]], np.ndarray]:
        nlp = make_nlp(model={"encoder": encoder}, token_probabilities=True)
        optimizer = make_adamw(1e-3, 1e-2)
        losses = []
        for _ in range(60):
            # Entered for each update, as it keeps copies of the weights.
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
                losses.append(nlp.update(make_examples(nlp), sgd=optimizer)["mslm"])
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
            docs = list(nlp.pipe(text for text, _ in TEXTS))
        found = [[(ent.start, ent.end, ent.label_) for ent in doc.ents] for doc in docs]
        return losses, found, np.concatenate([doc._.bio_probabilities for doc in docs])

    losses, found, bio = train(half=True)
    exact, expected, probabilities = train(half=False)
    assert np.isfinite(losses).all() and losses != exact
    assert losses == pytest.approx(exact, abs=0.05 * exact[0])
    assert found == expected and sum(map(len, found)) == 6
    assert np.abs(bio - probabilities).max() < 0.1
