"""Other components that read the encoder of an `mslm` pipe."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
import torch
from spacy.language import Language
from spacy.training import Example

from spacy_mslm.model.optimizer import make_adamw
from spacy_mslm.pipeline.saving import safe_save

from ..conftest import TEXTS, build_encoder, make_examples

LISTENER = {"@architectures": "spacy_mslm.Listener.v1"}
PLAIN: dict[str, Any] = {
    "masking": {"@misc": "spacy_mslm.NoMasking.v1"},
    "loss_weights": {"mlm": 0.0, "ed": 1.0, "el": 1.0},
}
SENTENCES = [text for text, _ in TEXTS]
LONG = " ".join(text for text, _ in TEXTS * 3)


def textcat(tok2vec: dict[str, Any]) -> dict[str, Any]:
    model = {"@architectures": "spacy.TextCatReduce.v1", "exclusive_classes": True}
    pools = {"use_reduce_first": False, "use_reduce_last": False}
    # The maximum over an empty document is an error in thinc.
    pools |= {"use_reduce_max": False, "use_reduce_mean": True}
    return {"model": {**model, **pools, "tok2vec": tok2vec}}


def spancat(tok2vec: dict[str, Any]) -> dict[str, Any]:
    suggester = {"@misc": "spacy.ngram_suggester.v1", "sizes": [1, 2, 3]}
    reducer = {"@layers": "spacy.mean_max_reducer.v1", "hidden_size": 32}
    scorer = {"@layers": "spacy.LinearLogistic.v1", "nO": None, "nI": None}
    return {
        "spans_key": "sc",
        "suggester": suggester,
        "model": {
            "@architectures": "spacy.SpanCategorizer.v1",
            "tok2vec": tok2vec,
            "reducer": reducer,
            "scorer": scorer,
        },
    }


def annotated(nlp: Language) -> list[Example]:
    """The test texts: their type is whether they mention something, their spans the chemicals."""
    examples = make_examples(nlp)
    for example, (_, entities) in zip(examples, TEXTS, strict=True):
        doc = example.reference
        doc.cats = {"FINDING": float(bool(entities)), "PLAN": float(not entities)}
        doc.spans["sc"] = [ent for ent in doc.ents if ent.label_ == "Chemical"]
    return examples


@pytest.fixture
def make_shared(make_nlp: Callable[..., Language]) -> Callable[..., Language]:
    """A pipeline of `mslm` and components that listen to it."""

    def make(
        initialize: bool = True, tok2vec: dict[str, Any] = LISTENER, **settings: Any
    ) -> Language:
        nlp = make_nlp(initialize=False, **{**PLAIN, **settings})
        nlp.add_pipe("textcat", config=textcat(tok2vec))
        nlp.add_pipe("spancat", config=spancat(tok2vec))
        if initialize:
            nlp.initialize(lambda: annotated(nlp))
        return nlp

    return make


def learn(nlp: Language, steps: int, **settings: Any) -> dict[str, float]:
    """Updates as those of `spacy train`: all components first, then the steps of the optimizer."""
    optimizer = make_adamw(2e-3, 1e-2)
    losses: dict[str, float] = {}
    for _ in range(steps):
        losses = {}
        nlp.update(annotated(nlp), sgd=False, losses=losses, **settings)
        for name, pipe in nlp.pipeline:
            if name not in settings.get("exclude", ()):
                pipe.finish_update(optimizer)
    return losses


def found(nlp: Language) -> list[tuple]:
    return [
        (
            [(e.start_char, e.end_char, e.label_) for e in doc.ents],
            max(doc.cats, key=doc.cats.__getitem__),
            sorted(span.text for span in doc.spans["sc"]),
        )
        for doc in nlp.pipe(SENTENCES)
    ]


def gold() -> list[tuple]:
    return [
        (
            entities,
            "FINDING" if entities else "PLAN",
            sorted(text[start:end] for start, end, label in entities if label == "Chemical"),
        )
        for text, entities in TEXTS
    ]


def weights(nlp: Language) -> dict[str, torch.Tensor]:
    network = nlp.get_pipe("mslm").shim.network
    return {name: p.detach().clone() for name, p in network.named_parameters()}


def gradients(nlp: Language) -> dict[str, torch.Tensor]:
    network = nlp.get_pipe("mslm").shim.network
    return {
        name: p.grad.to_dense().clone()
        for name, p in network.named_parameters()
        if p.grad is not None
    }


# ---- training ----


def test_all_components_learn(make_shared):
    nlp = make_shared()
    learn(nlp, 60)
    assert found(nlp) == gold()


def test_scripts_that_pass_an_optimizer_train_together_too(make_shared):
    """`nlp.update(..., sgd=...)` asks for the step of `mslm` before the others have read."""
    nlp, other = make_shared(), make_shared()
    one, two = make_adamw(2e-3, 1e-2), make_adamw(2e-3, 1e-2)
    for _ in range(3):
        torch.manual_seed(0)
        nlp.update(annotated(nlp), sgd=one)
        torch.manual_seed(0)
        other.update(annotated(other), sgd=False)
        for _, pipe in other.pipeline:
            pipe.finish_update(two)
    assert nlp.get_pipe("mslm").cfg["step"] == other.get_pipe("mslm").cfg["step"] == 3
    for name, weight in weights(nlp).items():
        assert torch.equal(weight, weights(other)[name]), name


def test_the_encoder_learns_from_the_sum_of_the_gradients(make_shared):
    """The gradient of all is the sum of those of each component alone."""

    def gradient(*components: str) -> dict[str, torch.Tensor]:
        nlp = make_shared()
        torch.manual_seed(0)
        learn(nlp, 2)  # the last layer of textcat starts with zeros
        pipe = nlp.get_pipe("mslm")
        if "mslm" not in components:
            pipe.loss_weights = {name: lambda step: 0.0 for name in pipe.loss_weights}
        disabled = [n for n in ("textcat", "spancat") if n not in components]
        torch.manual_seed(0)
        nlp.update(annotated(nlp), sgd=False, exclude=disabled)
        pipe._close_shared()
        return gradients(nlp)

    whole = gradient("mslm", "textcat", "spancat")
    parts = [gradient(name) for name in ("mslm", "textcat", "spancat")]
    name = "lm.bert.encoder.layer.0.attention.self.query.weight"
    norms = [float(part[name].norm()) for part in parts]
    assert min(norms) > 0
    for key, value in whole.items():
        total = sum(part[key] for part in parts if key in part)
        assert torch.allclose(value, total, atol=1e-5), key


def test_the_gradient_through_pooling_by_hand(make_shared):
    """Of a token with n pieces, each piece gets 1/n; a gradient factor scales it."""
    nlp = make_shared(tok2vec={**LISTENER, "grad_factor": 0.5})
    pipe = nlp.get_pipe("mslm")
    (example,) = [annotated(nlp)[0]]
    pipe.update([example])
    (held,) = pipe._shared._held
    pieces = pipe.shim.wordpieces([example.predicted])[0]
    listener = pipe.listeners[0]
    vectors, backprop = listener.begin_update([example.predicted])
    raw = held.outputs.shared.detach().numpy()
    means = [raw[pieces.token_of == token].mean(0) for token in range(len(example.predicted))]
    assert np.allclose(vectors[0], means, atol=1e-6)
    caught = []
    pipe._shared._held[0] = held._replace(backprop=caught.append)
    backprop([np.ones_like(vectors[0])])
    pipe._close_shared()
    counts = np.bincount(pieces.token_of)[pieces.token_of]
    assert counts.max() > 1
    expected = np.repeat(0.5 / counts[:, None], vectors[0].shape[1], axis=1)
    assert np.allclose(caught[0].shared.numpy(), expected)


def test_one_pass_through_the_encoder(make_shared, monkeypatch):
    nlp = make_shared()
    network = nlp.get_pipe("mslm").shim.network
    encode, read = network.encode, []

    def counting(ids: np.ndarray, lengths: np.ndarray) -> torch.Tensor:
        read.append(int((lengths - 2).sum()))  # without [CLS] and [SEP]
        return encode(ids, lengths)

    monkeypatch.setattr(network, "encode", counting)
    nlp.update(annotated(nlp), sgd=False)
    pieces = nlp.get_pipe("mslm").shim.wordpieces([nlp.make_doc(text) for text in SENTENCES])
    assert sum(read) == sum(len(own.ids) for own in pieces)


@pytest.mark.parametrize("view", ["clean", "mixed", "masked"])
def test_listeners_never_read_masks(make_shared, view):
    joint = {"@misc": "spacy_mslm.JointMasking.v1", "elm_rate": 1.0, "blm_rate": 0.3}
    nlp = make_shared(view=view, masking=joint, loss_weights={"mlm": 1.0, "ed": 1.0, "el": 1.0})
    pipe = nlp.get_pipe("mslm")
    network = pipe.shim.network
    for module in network.modules():  # no dropout, so that both passes are the same
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    for module in network.modules():
        if hasattr(module, "dropout_prob"):
            module.dropout_prob = 0.0
    examples = annotated(nlp)
    pipe.update(examples)
    docs = [example.predicted for example in examples]
    vectors, _ = pipe.listeners[0].begin_update(docs)
    pipe._close_shared()
    predicted = [prediction.vectors for prediction in pipe.predict(docs)]
    for one, other in zip(vectors, predicted, strict=True):
        assert np.allclose(one, other, atol=1e-5)


def test_gradients_of_parts_of_a_batch_add_up(make_shared):
    """`training.accumulate_gradient`: the pass of each part is closed by the next one."""
    nlp = make_shared()
    examples = annotated(nlp)
    for part in (examples[:2], examples[2:]):
        nlp.update(part, sgd=False)
    pipe = nlp.get_pipe("mslm")
    before = weights(nlp)
    for _, each in nlp.pipeline:
        each.finish_update(make_adamw(1e-3, 1e-2))
    assert pipe.cfg["step"] == 1 and not gradients(nlp)
    assert any(not torch.equal(before[name], value) for name, value in weights(nlp).items())


def test_a_component_that_does_not_answer_holds_nothing_up(make_shared):
    nlp = make_shared()
    pipe = nlp.get_pipe("mslm")
    learn(nlp, 2, exclude=["spancat"])
    assert pipe.cfg["step"] == 2
    # Nobody reads: the step is taken when the next update begins, or the pipe is saved.
    learn(nlp, 1, exclude=["textcat", "spancat"])
    pipe.to_bytes()
    assert pipe.cfg["step"] == 3 and not gradients(nlp)


def test_an_answer_after_the_next_update_began_is_an_error(make_shared):
    nlp = make_shared()
    pipe = nlp.get_pipe("mslm")
    examples = annotated(nlp)
    pipe.update(examples)
    docs = [example.predicted for example in examples]
    vectors, backprop = pipe.listeners[0].begin_update(docs)
    pipe.update(examples)
    with pytest.raises(ValueError, match="Update each component once per batch"):
        backprop(vectors)


# ---- frozen pipes ----


def test_a_frozen_pipe_gives_vectors_if_it_annotates(make_shared):
    nlp = make_shared()
    before = weights(nlp)
    learn(nlp, 60, exclude=["mslm"], annotates=["mslm"])
    assert all(torch.equal(before[name], value) for name, value in weights(nlp).items())
    assert [row[1:] for row in found(nlp)] == [row[1:] for row in gold()]


def test_a_frozen_pipe_that_does_not_annotate_is_an_error(make_shared):
    nlp = make_shared()
    with pytest.raises(ValueError, match=r"add it to training\.annotating_components"):
        learn(nlp, 1, exclude=["mslm"])


def test_freezing_after_training(make_shared):
    """What the listeners received in earlier updates is not used."""
    nlp = make_shared()
    learn(nlp, 3)
    learn(nlp, 1, exclude=["mslm"], annotates=["mslm"])


def test_a_pipe_that_learns_and_annotates(make_shared):
    nlp = make_shared()
    learn(nlp, 60, annotates=["mslm"])
    assert found(nlp) == gold()
    optimizer = make_adamw(1e-4, 1e-3)
    for _ in range(3):
        nlp.update(annotated(nlp), sgd=optimizer, annotates=["mslm"])
    assert found(nlp) == gold()


# ---- documents ----


def test_windows_groups_and_batches_do_not_change_vectors(make_shared, monkeypatch):
    nlp = make_shared(model={"window": 12, "context": 3, "split_sentences": False})
    texts = ["", "  ", LONG, *SENTENCES, "a" * 30, "\u200b"]
    docs = list(nlp.pipe(texts))
    for doc in docs:
        assert doc._.mslm_vectors["mslm"].shape == (len(doc), 32)
    assert not docs[1]._.mslm_vectors["mslm"].any()
    monkeypatch.setattr("spacy_mslm.inference.predict.GROUP_PIECES", 7)
    for doc, text in zip(docs, texts, strict=True):
        again = nlp(text)._.mslm_vectors["mslm"]
        assert np.allclose(doc._.mslm_vectors["mslm"], again, atol=1e-5)


def test_documents_without_pieces_are_trained_on(make_shared):
    nlp = make_shared()
    for texts in (["", " ", LONG], ["", " \n"]):
        examples = [
            Example.from_dict(nlp.make_doc(text), {"cats": {"FINDING": 0.0, "PLAN": 1.0}})
            for text in texts
        ]
        for _ in range(2):
            nlp.update(examples, sgd=make_adamw(1e-3, 1e-2))
    list(nlp.pipe(["", " ", LONG]))


def test_worker_processes(make_shared):
    nlp = make_shared()
    learn(nlp, 30)
    docs = list(nlp.pipe(SENTENCES, n_process=2, batch_size=2))
    for doc, expected in zip(docs, nlp.pipe(SENTENCES), strict=True):
        assert doc.cats == pytest.approx(expected.cats, abs=1e-5)


def test_no_vectors_without_listeners(make_nlp):
    doc = make_nlp()(SENTENCES[0])
    assert doc._.mslm_vectors is None


# ---- pipelines ----


def test_the_encoder_is_saved_once(make_shared, tmp_path: Path):
    nlp = make_shared()
    learn(nlp, 60)
    safe_save(nlp, tmp_path / "model")
    sizes = {
        name: sum(f.stat().st_size for f in (tmp_path / "model" / name).rglob("*") if f.is_file())
        for name in nlp.pipe_names
    }
    assert sizes["textcat"] + sizes["spancat"] < sizes["mslm"]
    loaded = spacy.load(tmp_path / "model")
    assert found(loaded) == found(nlp) == gold()
    for one, other in zip(loaded.pipe(SENTENCES), nlp.pipe(SENTENCES), strict=True):
        assert one.cats == other.cats
    copy = spacy.blank("en").from_config(nlp.config).from_bytes(nlp.to_bytes())
    assert found(copy) == gold()
    learn(loaded, 2)  # the listeners are linked again


def test_a_trained_pipe_is_sourced_into_another_pipeline(make_nlp, tmp_path: Path):
    source = make_nlp(**PLAIN)
    optimizer = make_adamw(2e-3, 1e-2)
    for _ in range(60):
        source.update(make_examples(source), sgd=optimizer)
    safe_save(source, tmp_path / "source")
    nlp = spacy.blank("en")
    nlp.add_pipe("mslm", source=spacy.load(tmp_path / "source"), name="entities")
    nlp.add_pipe("textcat", config=textcat({**LISTENER, "upstream": "entities"}))
    nlp.add_pipe("spancat", config=spancat(LISTENER))
    with nlp.select_pipes(disable="entities"):
        nlp.initialize(lambda: annotated(nlp))
    learn(nlp, 60, exclude=["entities"], annotates=["entities"])
    assert found(nlp) == gold()
    safe_save(nlp, tmp_path / "model")
    assert found(spacy.load(tmp_path / "model")) == gold()


def test_a_component_gets_an_encoder_of_its_own(make_shared, tmp_path: Path):
    nlp = make_shared()
    learn(nlp, 60)
    nlp.replace_listeners("mslm", "textcat", ["model.tok2vec"])
    assert nlp.get_pipe("mslm").listening_components == ["spancat"]
    config = nlp.config["components"]["textcat"]["model"]["tok2vec"]
    assert config["@architectures"] == "spacy_mslm.Encoder.v1" and config["window"] == 40
    assert found(nlp) == gold()
    before = weights(nlp)
    learn(nlp, 2, exclude=["mslm", "spancat"])
    assert all(torch.equal(before[name], value) for name, value in weights(nlp).items())
    safe_save(nlp, tmp_path / "model")
    loaded = spacy.load(tmp_path / "model")
    for one, other in zip(loaded.pipe(SENTENCES), nlp.pipe(SENTENCES), strict=True):
        assert one.cats == pytest.approx(other.cats)
    # The component no longer needs the pipe.
    with loaded.select_pipes(disable=["mslm", "spancat"]):
        assert loaded(SENTENCES[0]).cats


def test_a_separate_encoder_learns(make_shared, encoder: Path):
    own = {"@architectures": "spacy_mslm.Encoder.v1", "encoder": str(encoder), "window": 40}
    nlp = make_shared(tok2vec={**own, "context": 8})
    assert not nlp.get_pipe("mslm").listeners
    learn(nlp, 60)
    assert found(nlp) == gold()


def test_a_listener_reads_the_nearest_of_two_pipes_or_the_one_it_names(make_nlp, tmp_path: Path):
    nlp = make_nlp(initialize=False, **PLAIN)
    wide = build_encoder(tmp_path / "wide", hidden_size=64)
    model = {"encoder": str(wide), "window": 40, "context": 8}
    nlp.add_pipe("mslm", name="second", config={**PLAIN, "model": model})
    nlp.add_pipe("textcat", config=textcat({**LISTENER, "upstream": "mslm"}))
    nlp.add_pipe("spancat", config=spancat(LISTENER))
    nlp.initialize(lambda: annotated(nlp))
    assert [listener.linked_name for listener in nlp.get_pipe("mslm").listeners] == ["mslm"]
    assert [listener.linked_name for listener in nlp.get_pipe("second").listeners] == ["second"]
    learn(nlp, 60)
    vectors = nlp(SENTENCES[0])._.mslm_vectors
    assert {name: own.shape[1] for name, own in vectors.items()} == {"mslm": 32, "second": 64}
    safe_save(nlp, tmp_path / "model")
    assert [row[1:] for row in found(spacy.load(tmp_path / "model"))] == [row[1:] for row in gold()]


# ---- mistakes ----


def test_a_disabled_pipe_is_an_error_not_a_guess(make_shared):
    nlp = make_shared()
    learn(nlp, 1)
    with (
        nlp.select_pipes(disable="mslm"),
        pytest.raises(ValueError, match="Do not disable 'mslm'"),
    ):
        nlp(SENTENCES[0])


def test_a_listener_without_a_pipe_is_an_error(make_nlp):
    nlp = spacy.blank("en")
    nlp.add_pipe("textcat", config=textcat(LISTENER))
    with pytest.raises(ValueError, match="found no mslm pipe with an encoder"):
        nlp.initialize(lambda: annotated(nlp))


def test_listeners_of_others_are_refused(make_nlp):
    nlp = make_nlp(initialize=False, **PLAIN)
    other = {"@architectures": "spacy.Tok2VecListener.v1", "width": 32, "upstream": "mslm"}
    with pytest.raises(ValueError, match="tok2vec-listener, which cannot read an mslm pipe"):
        nlp.add_pipe("textcat", config=textcat(other))


def test_an_encoder_of_another_width_is_refused(make_shared, make_nlp, tmp_path):
    nlp = make_shared()
    wide = build_encoder(tmp_path / "wide", hidden_size=64)
    other = make_nlp(model={"encoder": str(wide)}, **PLAIN)
    other.add_pipe("textcat", source=nlp)
    with pytest.raises(ValueError, match=r"vectors of size 32.*vectors of size 64"):
        other(SENTENCES[0])
