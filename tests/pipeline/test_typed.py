"""The typed model `spacy_mslm.MSLM.v2`: partial annotation, overlapping mentions, many types."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import spacy
import torch
from spacy.language import Language
from spacy.tokens import DocBin
from spacy.training import Example

from spacy_mslm.masking.weights import MaskWeights
from spacy_mslm.model.network import HeadOutputs
from spacy_mslm.model.optimizer import make_adamw
from spacy_mslm.tasks.heatmap.reading import read_model
from spacy_mslm.tasks.optimization import optimize
from spacy_mslm.training.losses import Terms, count_totals, joint_loss
from spacy_mslm.types import MISSING, Block, Entity, Evidence, PaddedBatch, Prediction, no_ints
from spacy_mslm.util.extensions import annotated_labels, set_annotated_labels

from ..conftest import TEXTS, make_examples

PLAIN = {
    "masking": {"@misc": "spacy_mslm.NoMasking.v1"},
    "loss_weights": {"mlm": 0.0, "ed": 1.0, "el": 1.0},
}


@pytest.fixture(scope="module")
def make_typed(encoder) -> Callable[..., Language]:
    def make(labels: Sequence[str] | None = None, initialize: bool = True, **config) -> Language:
        spacy.util.fix_random_seed(0)
        nlp = spacy.blank("en")
        model = {
            "@architectures": "spacy_mslm.MSLM.v2",
            "encoder": str(encoder),
            "window": 40,
            "context": 8,
        }
        pipe = nlp.add_pipe("mslm", config={**PLAIN, "model": model, **config})
        if initialize:
            pipe.initialize(lambda: make_examples(nlp), nlp=nlp, labels=labels)
        return nlp

    return make


def partial_examples(nlp: Language) -> list[Example]:
    """Each text twice: once only diseases are annotated, once only chemicals."""
    examples = []
    for label in ("Disease", "Chemical"):
        for text, entities in TEXTS:
            own = [entity for entity in entities if entity[2] == label]
            example = Example.from_dict(nlp.make_doc(text), {"entities": own})
            set_annotated_labels(example.reference, [label])
            examples.append(example)
    return examples


def learn(nlp: Language, examples: list[Example], steps: int) -> list[dict[str, float]]:
    optimizer = make_adamw(1e-3, 1e-2)
    return [nlp.update(examples, sgd=optimizer) for _ in range(steps)]


@pytest.fixture(scope="module")
def trained(make_typed) -> Language:
    """A pipeline that learnt from two corpora, each of which annotates one type."""
    nlp = make_typed(token_probabilities=True)
    learn(nlp, partial_examples(nlp), 60)
    return nlp


def entities(docs) -> list[list[tuple[int, int, str]]]:
    return [[(e.start_char, e.end_char, e.label_) for e in doc.ents] for doc in docs]


def said(docs) -> list[list[tuple]]:
    return [[(e.start, e.end, e.label_, round(e._.confidence, 5)) for e in d.ents] for d in docs]


# ---- losses ----


def test_loss_over_annotated_pairs_by_hand():
    """Two tokens, two types, of which the second is unknown at the second token.

    P(gold) is 1/2, 1/4 and 1/2: the mean over three pairs is (ln 2 + ln 4 + ln 2) / 3.
    """
    tags = np.array([[2, 0], [2, MISSING]])
    empty = no_ints()
    batch = PaddedBatch(
        [Block(np.array([[0]]), np.array([1]))],
        *(empty, empty, empty, no_ints(2), tags, empty, empty, empty),
    )
    p = [[[0.25, 0.25, 0.5], [0.25, 0.25, 0.5]], [[0.25, 0.25, 0.5], [0.9, 0.05, 0.05]]]
    weights = MaskWeights(0.5, 0.5)
    totals = count_totals([batch], weights)
    assert totals.ed == 3
    outputs = HeadOutputs(None, torch.tensor(p).log(), None)
    terms, gradients = joint_loss(outputs, batch, weights, Terms(1.0, 1.0, 1.0), totals)
    assert terms == pytest.approx((0.0, 4 * np.log(2) / 3, 0.0))
    # p - target, divided by the number of pairs; zero for the unknown pair
    expected = [[[0.25, 0.25, -0.5], [-0.75, 0.25, 0.5]], [[0.25, 0.25, -0.5], [0, 0, 0]]]
    assert gradients.ed.numpy() == pytest.approx(np.array(expected) / 3, abs=1e-7)


def test_a_batch_without_a_known_pair_has_no_loss(make_typed):
    nlp = make_typed()
    example = make_examples(nlp)[3]
    set_annotated_labels(example.reference, [])
    losses = nlp.get_pipe("mslm").update([example])
    assert losses["mslm"] == losses["mslm_ed"] == 0


def test_unknown_types_have_no_gradient(make_typed):
    nlp = make_typed()
    pipe = nlp.get_pipe("mslm")
    assert pipe.labels == ("Chemical", "Disease")
    pipe.update(partial_examples(nlp)[: len(TEXTS)])  # diseases only
    gradient = pipe.shim.network.detection.output.weight.grad.view(2, 3, -1)
    assert not gradient[0].any() and gradient[1].any()


def test_a_mention_of_a_type_that_is_not_annotated_is_an_error(make_typed):
    nlp = make_typed()
    example = make_examples(nlp)[0]
    set_annotated_labels(example.reference, ["Disease"])
    with pytest.raises(ValueError, match="has a mention of type 'Chemical', but is marked"):
        nlp.update([example])


# ---- training on partial annotation ----


def test_two_corpora_of_one_type_each_teach_both_types(trained):
    texts = [text for text, _ in TEXTS]
    docs = list(trained.pipe(texts))
    assert entities(docs) == [gold for _, gold in TEXTS]
    assert docs[0]._.bio_probabilities.shape == (len(docs[0]), 2, 3)
    assert docs[0]._.bio_probabilities.sum(-1) == pytest.approx(np.ones((len(docs[0]), 2)))
    assert said(docs) == said([trained(text) for text in texts])
    assert said(docs) == said(trained.pipe(texts, batch_size=1))
    assert said(docs) == said(list(trained.pipe(texts[::-1]))[::-1])


def test_masks_and_perplexity_work_with_types(make_typed):
    masking = {"@misc": "spacy_mslm.JointMasking.v1", "elm_rate": 1.0, "blm_rate": 0.2}
    nlp = make_typed(
        view="clean",
        masking=masking,
        loss_weights={"mlm": 1.0, "ed": 1.0, "el": 1.0},
        score_masked=True,
    )
    history = learn(nlp, partial_examples(nlp), 40)
    assert history[-1]["mslm_ed"] < 0.3 * history[0]["mslm_ed"]
    assert history[-1]["mslm_mlm"] < history[0]["mslm_mlm"] and history[-1]["mslm_el"] == 0
    scores = nlp.evaluate(partial_examples(nlp))
    assert scores["mslm_ppl"] > 0 and scores["mslm_masked_f"] is not None


def test_scores_count_only_annotated_types(trained):
    scores = trained.evaluate(partial_examples(trained))
    assert scores["ents_f"] == 1.0
    # Each of the six mentions is also predicted in the copy that does not annotate its type.
    assert scores["mslm_counts"]["gold"] == scores["mslm_counts"]["predicted"] == 6
    assert scores["mslm_counts"]["predicted_not_annotated"] == 6
    assert set(scores["ents_per_type"]) == {"Disease", "Chemical"}


def test_partial_annotation_needs_a_typed_model(make_nlp):
    nlp = make_nlp()
    with pytest.raises(ValueError, match=r"Use the architecture spacy_mslm\.MSLM\.v2"):
        nlp.update(partial_examples(nlp))
    # Annotation of all types is complete.
    examples = make_examples(nlp)
    for example in examples:
        set_annotated_labels(example.reference, ["Chemical", "Disease", "Gene"])
    nlp.update(examples)


# ---- overlaps ----


def test_overlapping_mentions_go_to_spans_and_the_most_confident_to_ents(make_typed):
    places = [(0, 3, 0, 0.6), (1, 3, 1, 0.9), (4, 6, 0, 0.8)]
    places += [(5, 6, 1, 0.8), (7, 8, 1, 0.5), (7, 8, 0, 0.4)]  # as confident, but shorter
    predicted = [Entity(*place, Evidence(1.0, 1.0, 1.0, 1.0, 1)) for place in places]
    prediction = Prediction(predicted, np.zeros((9, 2, 3)))
    for key in (None, "sc"):
        nlp = make_typed(["A", "B"], spans_key=key)
        doc = nlp.make_doc("a b c d e f g h i")
        nlp.get_pipe("mslm").set_annotations([doc], [prediction])
        spans = doc.ents if key is None else doc.spans[key]
        if key is None:
            found = [(s.start, s.end, s.label_, s._.confidence) for s in spans]
            assert found == [(1, 3, "B", 0.9), (4, 6, "A", 0.8), (7, 8, "B", 0.5)]
        else:
            assert [(s.start, s.end, "AB".index(s.label_)) for s in spans] == [
                entity[:3] for entity in predicted
            ]
            assert spans.attrs["scores"] == pytest.approx([e.confidence for e in predicted])


def test_overlapping_gold_of_different_types_is_learnt(make_typed):
    nlp = make_typed(["Disease", "Organ"], spans_key="sc")
    text = "the patient had acute renal failure after cisplatin ."
    example = Example.from_dict(
        nlp.make_doc(text), {"spans": {"sc": [(16, 35, "Disease"), (22, 27, "Organ")]}}
    )
    gold = nlp.get_pipe("mslm").align(example)
    assert gold.tags.T.tolist() == [[2, 2, 2, 0, 1, 1, 2, 2, 2], [2, 2, 2, 2, 0, 2, 2, 2, 2]]
    assert not gold.unaligned
    learn(nlp, [example], 40)
    doc = nlp(text)
    assert {(s.text, s.label_) for s in doc.spans["sc"]} == {
        ("acute renal failure", "Disease"),
        ("renal", "Organ"),
    }


def test_the_heat_map_reads_the_tags_of_types(trained):
    doc = trained.make_doc(TEXTS[0][0])
    doc.user_data["id"] = "x"
    (reading,) = read_model(trained, "model", [doc])
    bio = trained(TEXTS[0][0])._.bio_probabilities
    assert [(m.start, m.end, m.label) for m in reading.mentions] == [
        (3, 6, "Disease"),
        (7, 8, "Chemical"),
    ]
    chemical, disease = bio[:, 0], bio[:, 1]
    assert reading.confidences[3] == pytest.approx(disease[3, 0])
    assert reading.confidences[5] == pytest.approx(disease[5, 1])
    assert reading.confidences[7] == pytest.approx(chemical[7, 0])
    assert reading.confidences[0] == pytest.approx(chemical[0, 2] * disease[0, 2])


def test_the_optimised_pipeline_finds_the_same(trained, tmp_path):
    trained.to_disk(tmp_path / "model")
    docs = [example.reference for example in partial_examples(trained)]
    DocBin(docs=docs, store_user_data=True).to_disk(tmp_path / "dev.spacy")
    done = optimize(
        str(tmp_path / "model"), tmp_path / "fast", dev=tmp_path / "dev.spacy", max_loss=20
    )
    assert done.before.f == 100  # only of the annotated types
    texts = [text for text, _ in TEXTS]
    assert entities(spacy.load(tmp_path / "fast").pipe(texts))[0] == TEXTS[0][1]


# ---- types ----


def test_sixteen_types(make_typed):
    labels = [f"T{i:02}" for i in range(16)]
    nlp = make_typed(labels)
    pipe = nlp.get_pipe("mslm")
    words = "aspirin heparin asthma diabetes"
    offsets = [(0, 7), (8, 15), (16, 22), (23, 31)]
    spans = [(*offset, labels[4 * i + 3]) for i, offset in enumerate(offsets)]
    example = Example.from_dict(nlp.make_doc(words), {"entities": spans})
    learn(nlp, [example], 30)
    assert entities([nlp(words)]) == [spans]
    assert pipe.shim.network.types == len(pipe.cfg["transitions"]) == 16


def test_adding_a_type_keeps_the_old_predictions(trained, make_typed):
    nlp = make_typed(initialize=False, token_probabilities=True).from_bytes(trained.to_bytes())
    texts = [text for text, _ in TEXTS]
    before = list(nlp.pipe(texts))
    pipe = nlp.get_pipe("mslm")
    assert pipe.add_label("Gene") == 1 and pipe.add_label("Gene") == 0
    *known, added = np.array(pipe.cfg["transitions"])
    assert added.any() and np.array_equal(added, sum(known))  # never counted for the new type
    after = list(nlp.pipe(texts))
    assert said(after) == said(before)
    for old, new in zip(before, after, strict=True):
        assert new._.bio_probabilities[:, :2] == pytest.approx(old._.bio_probabilities, abs=1e-5)
        assert (new._.bio_probabilities[:, 2, 2] > 0.9).all()  # found nowhere yet
    genes = [[], [], [], [(37, 43, "Gene")]]
    examples = partial_examples(nlp)
    for text, spans in zip(texts, genes, strict=True):
        example = Example.from_dict(nlp.make_doc(text), {"entities": spans})
        set_annotated_labels(example.reference, ["Gene"])
        examples.append(example)
    learn(nlp, examples, 40)
    both = [gold + own for (_, gold), own in zip(TEXTS, genes, strict=True)]
    assert entities(nlp.pipe(texts)) == both


# ---- files ----


def test_round_trips(trained, make_typed, tmp_path):
    texts = [text for text, _ in TEXTS]
    expected = said(trained.pipe(texts))
    trained.to_disk(tmp_path / "model")
    loaded = spacy.load(tmp_path / "model")
    assert said(loaded.pipe(texts)) == expected
    assert loaded.config["components"]["mslm"]["model"]["@architectures"] == "spacy_mslm.MSLM.v2"
    again = make_typed(initialize=False).from_bytes(trained.to_bytes())
    assert said(again.pipe(texts)) == expected


def test_the_marker_survives_docbin(tmp_path):
    nlp = spacy.blank("en")
    docs = [example.reference for example in partial_examples(nlp)]
    DocBin(docs=docs, store_user_data=True).to_disk(tmp_path / "x.spacy")
    loaded = list(DocBin().from_disk(tmp_path / "x.spacy").get_docs(nlp.vocab))
    assert [annotated_labels(doc) for doc in loaded] == [{"Disease"}] * 4 + [{"Chemical"}] * 4
    assert annotated_labels(nlp("no marker")) is None
