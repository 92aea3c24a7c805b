"""The `mslm` pipe: trains, predicts, keeps its promises to spaCy users."""

import logging
from collections.abc import Callable

import numpy as np
import pytest
import spacy
import torch
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example

from spacy_mslm.model.optimizer import make_adamw
from spacy_mslm.pipeline.component import MSLM
from spacy_mslm.types import BLM, ELM

from ..conftest import TEXTS, make_examples
from ..helpers import train

NO_MASKING = {"@misc": "spacy_mslm.NoMasking.v1"}


def gradients(nlp: Language, **kwargs: float) -> dict[str, torch.Tensor]:
    """Gradients of one update without a step."""
    torch.manual_seed(0)
    nlp.get_pipe("mslm").update(make_examples(nlp), **kwargs)
    network = nlp.get_pipe("mslm").shim.network
    found = {n: p.grad for n, p in network.named_parameters() if p.grad is not None}
    return {n: g.to_dense() if g.is_sparse else g.clone() for n, g in found.items()}


def test_gradient_checkpointing_changes_no_gradient(make_nlp):
    """Layers that are computed again have the dropout that they had."""
    expected = gradients(make_nlp(), drop=0.1)
    nlp = make_nlp(model={"gradient_checkpointing": True})
    network = nlp.get_pipe("mslm").shim.network
    calls = []
    layer = network.lm.base_model.encoder.layer[0]
    layer.attention.register_forward_hook(lambda *args: calls.append(args))
    found = gradients(nlp, drop=0.1)
    assert len(calls) == 2 and not network.training
    assert found.keys() == expected.keys()
    for name, gradient in found.items():
        torch.testing.assert_close(gradient, expected[name])


def entities(docs) -> list[list[tuple[int, int, str]]]:
    return [[(e.start_char, e.end_char, e.label_) for e in doc.ents] for doc in docs]


GOLD = [entities for _, entities in TEXTS]


# ---- losses and views ----


@pytest.mark.parametrize("view", ["clean", "mixed", "masked"])
def test_every_loss_falls_when_overfitting(make_nlp, view):
    history = train(make_nlp(view=view))
    for term, share in (("mslm_mlm", 0.8), ("mslm_ed", 0.3), ("mslm_el", 0.3), ("mslm", 0.8)):
        assert history[0][term] > 0
        last = np.mean([losses[term] for losses in history[-5:]])
        assert last < share * history[0][term], term
    total = sum(history[-1][f"mslm_{term}"] for term in ("mlm", "ed", "el"))
    assert history[-1]["mslm"] == pytest.approx(total)


@pytest.mark.parametrize("view", ["clean", "mixed"])
def test_overfitted_pipe_finds_the_entities(make_nlp, view):
    nlp = make_nlp(view=view)
    train(nlp, 90)
    docs = list(nlp.pipe([text for text, _ in TEXTS]))
    assert entities(docs) == GOLD
    scores = nlp.evaluate(make_examples(nlp))
    assert scores["ents_f"] == scores["mslm_em"] == scores["mslm_type_acc"] == 1.0


def test_masked_view_warns_and_hides_the_mentions(make_nlp, caplog):
    nlp = make_nlp(view="masked", loss_weights={"mlm": 0.0, "ed": 1.0, "el": 1.0})
    assert "find few or no entities in ordinary" in caplog.text
    pipe = nlp.get_pipe("mslm")
    examples = make_examples(nlp)
    rows = list(pipe._training_rows(examples, _terms(pipe), np.random.default_rng(0)))
    for row in rows:
        mention_pieces = {int(i) for at, _ in row.mentions for i in at}
        assert mention_pieces == set(np.flatnonzero(row.kinds == ELM).tolist())
        assert (row.kinds == BLM).any()
        assert len(row.tag_at)


def test_views_give_the_right_rows(make_nlp):
    def rows(**config):
        pipe = make_nlp(**config).get_pipe("mslm")
        examples = make_examples(spacy.blank("en"))
        return list(pipe._training_rows(examples, _terms(pipe), np.random.default_rng(0)))

    clean = rows(view="clean")
    tagged = [row for row in clean if len(row.tag_at)]
    assert len(clean) == 2 * len(TEXTS) and len(tagged) == len(TEXTS)
    assert not any(row.kinds.any() for row in tagged)
    assert all(row.kinds.any() for row in clean if not len(row.tag_at))
    mixed = rows(view="mixed", mask_probability=0.5)
    assert len(mixed) == len(TEXTS) and all(len(row.tag_at) for row in mixed)
    assert any(row.kinds.any() for row in rows(view="mixed", mask_probability=1.0))
    assert not any(row.kinds.any() for row in rows(view="mixed", mask_probability=0.0))
    assert not any(row.kinds.any() for row in rows(view="clean", masking=NO_MASKING))


def _terms(pipe: MSLM):
    from spacy_mslm.training.losses import Terms

    return Terms(*(pipe.loss_weights[term](0) for term in Terms._fields))


def test_clean_view_without_masked_lm_has_vanillas_gradients(make_nlp):
    """Bit for bit, with dropout: a training bug must not pass for 'MSLM does not help'."""
    vanilla = gradients(make_nlp(masking=NO_MASKING), drop=0.1)
    off = gradients(make_nlp(loss_weights={"mlm": 0.0, "ed": 1.0, "el": 1.0}), drop=0.1)
    assert vanilla.keys() == off.keys()
    assert all(torch.equal(vanilla[name], off[name]) for name in vanilla)
    on = gradients(make_nlp(), drop=0.1)
    assert not torch.equal(on["detection.output.weight"], off["detection.output.weight"]) or (
        on.keys() != off.keys()
    )


def test_two_passes_add_up(make_nlp):
    """Without dropout, the clean view's gradient is the masked-LM pass plus the tagging pass."""
    both = gradients(_no_dropout(make_nlp()))
    tagging = gradients(_no_dropout(make_nlp(loss_weights={"mlm": 0.0, "ed": 1.0, "el": 1.0})))
    lm = gradients(_no_dropout(make_nlp(loss_weights={"mlm": 1.0, "ed": 0.0, "el": 0.0})))
    for name, gradient in both.items():
        parts = [part[name] for part in (tagging, lm) if name in part]
        assert torch.allclose(gradient, sum(parts), atol=1e-6), name


def _no_dropout(nlp: Language) -> Language:
    for module in nlp.get_pipe("mslm").shim.network.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        if hasattr(module, "dropout_prob"):  # BERT's fused attention keeps its own
            module.dropout_prob = 0.0
    return nlp


def test_accumulated_gradients_are_averaged(make_nlp):
    nlp = _no_dropout(make_nlp(masking=NO_MASKING))
    pipe = nlp.get_pipe("mslm")
    network = pipe.shim.network
    before = {n: p.detach().clone() for n, p in network.named_parameters()}
    examples = make_examples(nlp)
    pipe.update(examples)
    pipe.update(examples)
    pipe.finish_update(make_adamw(1e-3, 1e-3, grad_clip=0.0, eps=1.0))
    twice = {n: p.detach().clone() for n, p in network.named_parameters()}
    with torch.no_grad():
        for n, p in network.named_parameters():
            p.copy_(before[n])
    pipe.update(examples)
    pipe.finish_update(make_adamw(1e-3, 1e-3, grad_clip=0.0, eps=1.0))
    for n, p in network.named_parameters():
        assert torch.allclose(p, twice[n], atol=1e-7), n


def test_batch_size_in_pieces_does_not_change_the_gradient(make_nlp):
    one = gradients(_no_dropout(make_nlp()))
    many = gradients(_no_dropout(make_nlp(batch_pieces=16)))
    assert all(torch.allclose(one[n], many[n], atol=1e-6) for n in one)


def test_loss_weights_take_schedules_indexed_by_the_saved_step(make_nlp):
    weights = {
        "mlm": {
            "@schedules": "warmup_linear.v1",
            "initial_rate": 1.0,
            "warmup_steps": 0,
            "total_steps": 4,
        },
        "ed": 1.0,
        "el": 1.0,
    }
    nlp = make_nlp(loss_weights=weights)
    history = train(nlp, 6)
    shares = [(h["mslm"] - h["mslm_ed"] - h["mslm_el"]) for h in history]
    assert shares[0] == pytest.approx(history[0]["mslm_mlm"])
    assert shares[2] == pytest.approx(0.5 * history[2]["mslm_mlm"])
    assert shares[5] == history[5]["mslm_mlm"] == 0  # faded: the masked pass is not even made
    again = make_nlp(loss_weights=weights).from_bytes(nlp.to_bytes())
    assert again.get_pipe("mslm").cfg["step"] == 6
    assert train(again, 1)[0]["mslm_mlm"] == 0


def test_the_same_seed_gives_the_same_run(make_nlp):
    def weights(**config) -> bytes:
        nlp = make_nlp(**config)
        train(nlp, 3)
        return nlp.get_pipe("mslm").shim.to_bytes()

    assert weights(seed=1) == weights(seed=1)
    assert weights(seed=1) != weights(seed=2)


def test_mask_weights_are_counted_logged_and_stored(make_nlp, caplog):
    with caplog.at_level(logging.INFO, "spacy_mslm"):
        nlp = make_nlp()
    # ELM 1 masks all 13 mention pieces, BLM 0.075 one word of each of the four texts.
    assert nlp.get_pipe("mslm").cfg["mask_weights"] == {"blm": 0.5, "elm": 0.5}
    assert "Mask weights: ELM 0.500, BLM 0.500 (13 and" in caplog.text
    assert "weights are equal" in caplog.text
    joint = {"@misc": "spacy_mslm.JointMasking.v1", "elm_rate": 0.0, "blm_rate": 0.5}
    nlp = make_nlp(masking=joint)
    assert nlp.get_pipe("mslm").cfg["mask_weights"]["elm"] == pytest.approx(0.7310586)
    again = make_nlp(initialize=False).from_bytes(nlp.to_bytes())
    stored = nlp.get_pipe("mslm").cfg["mask_weights"]
    assert again.get_pipe("mslm").cfg["mask_weights"] == stored


# ---- output ----


@pytest.fixture
def trained(train_once) -> Language:
    return train_once(90, drop=0.1, token_probabilities=True)


def test_confidence_is_tags_times_type(trained):
    doc = trained(TEXTS[0][0])
    pipe = trained.get_pipe("mslm")
    prediction = pipe.predict([doc])[0]
    assert len(doc.ents) == 2
    for ent, entity in zip(doc.ents, prediction.entities, strict=True):
        tags = [0] + [1] * (len(ent) - 1)
        product = np.prod([doc._.bio_probabilities[ent.start + i, t] for i, t in enumerate(tags)])
        assert ent._.confidence == entity.confidence <= product + 1e-6
        assert ent._.confidence > 0.5
    assert doc._.bio_probabilities.shape == (len(doc), 3)
    assert doc._.bio_probabilities.sum(axis=1) == pytest.approx(np.ones(len(doc)), abs=1e-5)


def test_spans_key_writes_span_groups_with_scores(make_nlp):
    nlp = make_nlp(initialize=False, spans_key="terms", scorer=None)
    examples = make_examples(nlp)
    for example in examples:
        example.reference.spans["terms"] = list(example.reference.ents)
        example.reference.set_ents([], default="missing")
    nlp.initialize(lambda: examples)
    optimizer = make_adamw(1e-3, 1e-2)
    for _ in range(90):
        nlp.update(examples, sgd=optimizer, drop=0.1)
    doc = nlp(TEXTS[0][0])
    group = doc.spans["terms"]
    assert not doc.ents
    assert [(s.start_char, s.end_char, s.label_) for s in group] == GOLD[0]
    assert group.attrs["scores"].tolist() == pytest.approx([s._.confidence for s in group])


def test_entities_already_set_stay(trained):
    doc = trained.make_doc(TEXTS[0][0])
    doc.ents = [Span(doc, 3, 4, label="PRESET")]  # inside "acute renal failure"
    doc = trained.get_pipe("mslm")(doc)
    assert [(e.text, e.label_) for e in doc.ents] == [
        ("acute", "PRESET"),
        ("cisplatin", "Chemical"),
    ]


def test_a_mention_goes_on_across_a_line_break(trained):
    text = TEXTS[0][0].replace("renal failure", "renal\nfailure")
    assert ("acute renal\nfailure", "Disease") in [(e.text, e.label_) for e in trained(text).ents]


def test_batches_come_back_in_order_and_alike(trained):
    texts = [text for text, _ in TEXTS] * 5 + ["", " ", "clinic " * 100]
    expected = [entities([trained(text)])[0] for text in texts]
    pipe = trained.get_pipe("mslm")
    for batch_pieces in (32, 4096):
        pipe.batch_pieces = batch_pieces
        assert entities(trained.pipe(texts, batch_size=7)) == expected


# ---- labels ----


def test_labels_from_the_data_or_given(make_nlp):
    nlp = make_nlp()
    assert nlp.get_pipe("mslm").labels == ("Chemical", "Disease")
    assert nlp.get_pipe("mslm").label_data == ["Chemical", "Disease"]
    nlp = make_nlp(initialize=False)
    nlp.get_pipe("mslm").initialize(
        lambda: make_examples(nlp), nlp=nlp, labels=["Disease", "Chemical", "Gene"]
    )
    assert nlp.get_pipe("mslm").labels == ("Disease", "Chemical", "Gene")


def test_add_label_keeps_what_was_learnt(trained):
    pipe = trained.get_pipe("mslm")
    before = entities(trained.pipe([text for text, _ in TEXTS]))
    head = pipe.shim.network.classification.output
    assert pipe.add_label("Gene") == 1 and pipe.add_label("Gene") == 0
    grown = pipe.shim.network.classification.output
    assert torch.equal(grown.weight[:2], head.weight) and grown.out_features == 3
    assert entities(trained.pipe([text for text, _ in TEXTS])) == before
    doc = trained.make_doc("aspirin and heparin")
    trained.update([Example.from_dict(doc, {"entities": [(0, 7, "Gene")]})], sgd=make_adamw())


def test_unknown_label_at_update_is_one_clear_message(make_nlp):
    nlp = make_nlp()
    doc = nlp.make_doc("aspirin and heparin")
    example = Example.from_dict(doc, {"entities": [(0, 7, "Gene")]})
    example.reference.user_data["id"] = "note-7"
    with pytest.raises(ValueError, match=r"note-7 has a mention of type 'Gene'.*add_label"):
        nlp.update([example])


# ---- gold ----


def test_missing_annotation_gives_no_tagging_loss(make_nlp):
    nlp = make_nlp()
    bare = [Example(nlp.make_doc(text), nlp.make_doc(text)) for text, _ in TEXTS]
    losses = nlp.update(bare, sgd=make_adamw())
    assert losses["mslm_ed"] == losses["mslm_el"] == 0.0 and losses["mslm_mlm"] > 0
    partly = nlp.make_doc(TEXTS[0][0])
    partly.set_ents([Span(partly, 7, 8, label="Chemical")], default="missing")
    pipe = nlp.get_pipe("mslm")
    example = Example(nlp.make_doc(TEXTS[0][0]), partly)
    rows = list(pipe._training_rows([example], _terms(pipe), np.random.default_rng(0)))
    assert sum(len(row.tags) for row in rows) == 1


def test_gold_that_splits_a_token_is_listed_without_text(make_nlp, caplog):
    nlp = make_nlp(initialize=False, max_unaligned=0.5)
    doc = nlp.make_doc("xylophonitis was seen and asthma too")
    reference = Doc(
        nlp.vocab,
        words=["xylo", "phonitis", "was", "seen", "and", "asthma", "too"],
        spaces=[False, True, True, True, True, True, False],
    )
    reference.ents = [
        Span(reference, 0, 1, label="Disease"),
        Span(reference, 5, 6, label="Disease"),
    ]
    reference.user_data["id"] = "note-3"
    examples = [Example(doc, reference), *make_examples(nlp)]
    nlp.initialize(lambda: examples)
    nlp.update(examples)
    nlp.update(examples)
    listed = [r.getMessage() for r in caplog.records if "Gold mention left out" in r.getMessage()]
    assert len(listed) == 1  # once, not at every update
    assert "document note-3, characters 0:4: it splits a token" in listed[0]
    assert "xylo" not in caplog.text
    nlp = make_nlp(initialize=False, max_unaligned=0.05)
    with pytest.raises(ValueError, match=r"1 of 8 gold mentions \(12\.5%\)"):
        nlp.initialize(lambda: examples)


def test_unaligned_tokens_are_missing_not_outside(make_nlp):
    from spacy_mslm.corpus.gold import align_gold
    from spacy_mslm.types import MISSING, O

    nlp = spacy.blank("en")
    doc = nlp.make_doc("xylophonitis was seen")
    reference = Doc(
        nlp.vocab, words=["xylo", "phonitis", "was", "seen"], spaces=[False, True, True, False]
    )
    reference.ents = [Span(reference, 0, 1, label="Disease")]
    reference.spans["sc"] = list(reference.ents)
    for key in (None, "sc"):
        gold = align_gold(Example(doc, reference), key)
        assert gold.tags.tolist() == [MISSING, O, O]
    overlapping = nlp.make_doc("acute renal failure")
    overlapping.spans["sc"] = [
        Span(overlapping, 0, 2, "A"),
        Span(overlapping, 1, 3, "B"),
        Span(overlapping, 0, 1),
    ]
    gold = align_gold(Example(nlp.make_doc("acute renal failure"), overlapping), "sc")
    assert [u.reason for u in gold.unaligned] == ["it overlaps another", "it has no label"]


# ---- bad input ----

ODD = ["", " ", "\n\n\t", "\u200b", "\x00", "\u00ad", "😀😀", "🏳️‍🌈", "[MASK] [SEP] [PAD]"]


@pytest.mark.parametrize("text", ODD)
def test_odd_texts_give_a_valid_doc(trained, text):
    doc = trained(text)
    assert doc.text == text
    if not text.strip() or text in ("\u200b", "\x00", "\u00ad"):
        assert not doc.ents
    assert doc._.bio_probabilities.shape == (len(doc), 3)
    assert np.isfinite(doc._.bio_probabilities).all()


def test_odd_texts_can_be_trained_on(make_nlp):
    nlp = make_nlp()
    examples = [Example(nlp.make_doc(t), nlp.make_doc(t)) for t in ODD]
    losses = nlp.update(examples, sgd=make_adamw())
    assert np.isfinite(losses["mslm"])
    empty = nlp.update([Example(nlp.make_doc(""), nlp.make_doc(""))], sgd=make_adamw())
    assert empty["mslm"] == 0.0


def test_a_long_document_has_every_token_predicted(trained):
    """100,000 tokens: entities of the first and the last sentence are found alike."""
    sentence = TEXTS[0][0].split()
    words = sentence * (100_000 // len(sentence))
    doc = Doc(trained.vocab, words=words)
    doc = trained.get_pipe("mslm")(doc)
    starts = {ent.start % len(sentence) for ent in doc.ents}
    per_sentence = len(doc.ents) / (len(words) / len(sentence))
    assert starts == {3, 7} and per_sentence == pytest.approx(2, abs=0.01)
    assert doc._.bio_probabilities.shape == (len(words), 3)


def test_a_token_of_many_pieces_leaves_its_neighbours_alone(trained):
    """One token of thousands of pieces goes over many windows; nothing is cut off."""
    huge = "-" * 5000  # WordPiece splits at punctuation: a piece for each character
    words = TEXTS[0][0].split()
    doc = Doc(trained.vocab, words=[*words, huge, *words])
    pieces = trained.get_pipe("mslm").shim.wordpieces([doc])[0]
    assert len(pieces.ids) > 5000
    doc = trained.get_pipe("mslm")(doc)
    found = [(e.start, e.end, e.label_) for e in doc.ents]
    shift = len(words) + 1
    assert {(3, 6, "Disease"), (7, 8, "Chemical")} <= set(found)
    assert {(3 + shift, 6 + shift, "Disease"), (7 + shift, 8 + shift, "Chemical")} <= set(found)


def test_uninitialised_pipe_says_what_to_do(make_nlp):
    nlp = make_nlp(initialize=False)
    with pytest.raises(ValueError, match=r"nlp\.initialize"):
        nlp("the patient")


def test_empty_training_set_and_no_labels(make_nlp, caplog):
    nlp = make_nlp(initialize=False)
    with pytest.raises(ValueError, match=r"--paths\.train"):
        nlp.get_pipe("mslm").initialize(lambda: iter([]), nlp=nlp)
    nlp.initialize()  # spaCy's own dummy example, as `spacy assemble` does
    assert "no entity labels" in caplog.text
    assert not nlp(TEXTS[0][0]).ents
    with pytest.raises(ValueError, match="no entity types, so there is nothing to learn"):
        nlp.update([Example.from_dict(nlp.make_doc(TEXTS[0][0]), {"entities": []})])


def test_a_training_set_without_a_mention_is_refused_before_training(make_nlp):
    """Else `spacy train` saves a pipeline that finds nothing."""
    nlp = make_nlp(initialize=False)
    examples = [Example.from_dict(nlp.make_doc(TEXTS[0][0]), {"entities": []})]
    with pytest.raises(ValueError, match="no entity types, so there is nothing to learn"):
        nlp.initialize(lambda: examples)


def test_labels_that_are_given_are_learnt_from_a_set_without_mentions(make_nlp):
    """As of a shard that happens to have none."""
    nlp = make_nlp(initialize=False)
    examples = [Example.from_dict(nlp.make_doc(TEXTS[3][0]), {"entities": []})]
    nlp.get_pipe("mslm").initialize(lambda: examples, nlp=nlp, labels=["Disease"])
    assert nlp.update(examples, sgd=make_adamw(1e-3, 1e-2))["mslm"] > 0


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"view": "both"}, "view"),
        ({"loss_weights": {"mlm": 1.0, "ed": 1.0, "el": 1.0, "xx": 1.0}}, "loss_weights"),
        ({"model": {"window": 16, "context": 8}}, r"model\.window"),
    ],
)
def test_wrong_settings_are_refused(make_nlp: Callable, config, message):
    with pytest.raises(Exception, match=message):
        make_nlp(**config)
