import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import spacy
from hypothesis import example, given, settings
from hypothesis import strategies as st
from nervaluate import Evaluator
from seqeval.metrics import f1_score, precision_score, recall_score
from spacy.cli.evaluate import evaluate
from spacy.pipeline.spancat import spancat_score
from spacy.scorer import get_ner_prf
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Example
from spacy.vocab import Vocab

import spacy_mslm.pipeline.component  # noqa: F401  (sets the extension `span._.confidence`)
from spacy_mslm.scoring.scorer import make_entity_scorer

VOCAB = Vocab()
LABELS = ["A", "B", "C"]
score_ents = make_entity_scorer()
score_spans = make_entity_scorer("sc")


def _doc(length: int, mentions: list[tuple[int, int, str]]) -> Doc:
    """A document of words w0, w1, … with these entities, and the same in the group "sc"."""
    doc = Doc(VOCAB, words=[f"w{i}" for i in range(length)])
    spans = [Span(doc, start, end, label=label) for start, end, label in mentions]
    doc.ents = spans
    doc.spans["sc"] = spans
    return doc


def _example(length: int, gold: list[Any], predicted: list[Any]) -> Example:
    return Example(_doc(length, predicted), _doc(length, gold))


HAND_WORKED = [
    # One exact, one with the wrong type, one with wrong boundaries, one missed.
    _example(
        10,
        gold=[(0, 2, "A"), (3, 4, "A"), (5, 7, "B"), (8, 9, "B")],
        predicted=[(0, 2, "A"), (3, 4, "B"), (5, 6, "B")],
    ),
    # One exact, one false alarm of a type without gold.
    _example(4, gold=[(0, 1, "B")], predicted=[(0, 1, "B"), (2, 3, "C")]),
    _example(3, gold=[], predicted=[]),
]


@pytest.mark.parametrize("score, attr", [(score_ents, "ents"), (score_spans, "spans_sc")])
def test_hand_worked(score: Any, attr: str) -> None:
    scores = score(HAND_WORKED)
    assert scores["mslm_counts"] == {
        "gold": 5,
        "predicted": 5,
        "exact": 2,
        "boundary": 3,
        "gold_seen": 0,
        "gold_unseen": 0,
        "gold_short": 1,
        "gold_long": 4,
        "docs": 3,
        "docs_without_annotation": 0,
        "predicted_not_annotated": 0,
    }
    assert scores["mslm_documents"] == [[4, 3, 1], [1, 2, 1], [0, 0, 0]]
    expected = {
        f"{attr}_p": 2 / 5,
        f"{attr}_r": 2 / 5,
        f"{attr}_f": 2 / 5,
        "mslm_em": 2 / 5,
        # A: 1 of 1 predicted, 1 of 2 gold. B: 1 of 3 predicted, 1 of 3 gold. C has no gold.
        "mslm_macro_p": (1 + 1 / 3) / 2,
        "mslm_macro_r": (1 / 2 + 1 / 3) / 2,
        "mslm_macro_f": (2 / 3 + 1 / 3) / 2,
        "mslm_boundary_p": 3 / 5,
        "mslm_boundary_r": 3 / 5,
        "mslm_boundary_f": 3 / 5,
        # Credit of 1 + 1 + 1/2 in the first document, of 1 in the second.
        "mslm_partial_p": 3.5 / 5,
        "mslm_partial_r": 3.5 / 5,
        "mslm_partial_f": 3.5 / 5,
        # The first document has A at 0:2 and B at 5:6, the second B at 0:1.
        "mslm_type_p": 3 / 5,
        "mslm_type_r": 3 / 5,
        "mslm_type_f": 3 / 5,
        "mslm_type_acc": 2 / 3,
        # The mean length is 17/3: only the first document is longer.
        "mslm_em_short": 1.0,
        "mslm_em_long": 1 / 4,
    }
    assert {name: scores[name] for name in expected} == pytest.approx(expected)
    assert scores[f"{attr}_per_type"]["A"] == pytest.approx({"p": 1.0, "r": 1 / 2, "f": 2 / 3})
    assert scores[f"{attr}_per_type"]["C"] == {"p": 0.0, "r": 0.0, "f": 0.0}
    absent = {name for name, value in scores.items() if value is None}
    assert absent == {
        "mslm_em_seen",
        "mslm_em_unseen",
        "mslm_confidence",
        "mslm_ece",
        "mslm_ece_debiased",
        "mslm_ece_uncalibrated",
    }
    others = {f"{attr}_per_type", "mslm_counts", "mslm_documents"}
    assert set(scores) == {*expected, *absent, *others}


def test_examples_are_read_once() -> None:
    assert score_ents(iter(HAND_WORKED)) == score_ents(HAND_WORKED)
    assert score_spans(example for example in HAND_WORKED) == score_spans(HAND_WORKED)


def test_plain_json() -> None:
    for score in (score_ents, score_spans):
        for examples in (HAND_WORKED, []):
            scores = score(examples)
            assert json.loads(json.dumps(scores)) == scores
    for value in score_ents(HAND_WORKED).values():
        assert type(value) in (float, dict, list, type(None))
    assert {type(value) for value in score_ents(HAND_WORKED)["mslm_counts"].values()} == {int}


@pytest.mark.parametrize("examples", [[], [_example(3, [], [])]])
def test_nothing_to_score_is_none(examples: list[Example]) -> None:
    for score in (score_ents, score_spans):
        scores = score(examples)
        counts = scores.pop("mslm_counts")
        assert not any(map(sum, scores.pop("mslm_documents")))
        assert set(scores.values()) == {None}
        assert counts["docs"] == len(examples) and counts["gold"] == 0


def test_no_match_and_no_gold() -> None:
    scores = score_ents([_example(4, gold=[(0, 1, "A")], predicted=[(0, 2, "A")])])
    assert scores["mslm_em"] == scores["mslm_boundary_f"] == scores["mslm_macro_f"] == 0.0
    assert scores["mslm_type_acc"] is None
    scores = score_ents([_example(4, gold=[], predicted=[(0, 2, "A")])])
    assert scores["ents_p"] == 0.0 and scores["mslm_macro_f"] is None


def test_reference_without_annotation_is_skipped() -> None:
    predicted = _doc(4, [(0, 1, "A")])
    bare = Example(predicted, Doc(VOCAB, words=["w0", "w1", "w2", "w3"]))
    for score in (score_ents, score_spans):
        alone = score([bare])
        assert alone["mslm_em"] is None and alone["mslm_type_acc"] is None
        assert alone["mslm_counts"]["docs_without_annotation"] == 1
        beside = score([bare, *HAND_WORKED])
        assert beside["mslm_counts"].pop("docs") == 4
        assert beside["mslm_counts"].pop("docs_without_annotation") == 1
        without = score(HAND_WORKED)
        assert {**without["mslm_counts"], **beside["mslm_counts"]} == without["mslm_counts"]
        assert beside["mslm_macro_f"] == without["mslm_macro_f"]


def test_prediction_on_unannotated_tokens_is_neither_right_nor_wrong() -> None:
    words = [f"w{i}" for i in range(6)]
    gold = Doc(VOCAB, words=words, ents=["B-A", "O", "O", "", "", ""])
    predicted = _doc(6, [(0, 1, "A"), (2, 4, "B"), (5, 6, "B")])
    examples = [Example(predicted, gold)]
    scores = score_ents(examples)
    assert scores["ents_p"] == scores["ents_r"] == 1.0
    assert scores["mslm_counts"]["predicted"] == 1
    assert scores["mslm_boundary_p"] == 1.0
    spacys = get_ner_prf(examples)
    assert {name: scores[name] for name in spacys} == spacys


def test_overlapping_spans_of_a_group() -> None:
    gold = [(0, 2, "A"), (0, 2, "B"), (1, 3, "A")]
    docs = []
    for mentions in (gold, [*gold[:1], (1, 3, "B")]):
        doc = _doc(4, [])
        doc.spans["sc"] = [Span(doc, start, end, label=label) for start, end, label in mentions]
        docs.append(doc)
    scores = score_spans([Example(docs[1], docs[0])])
    counts = scores["mslm_counts"]
    assert [counts[name] for name in ("gold", "predicted", "exact", "boundary")] == [3, 2, 1, 2]
    assert scores["mslm_boundary_f"] == 1.0
    # All three gold mentions were found, one of them with its type.
    assert scores["mslm_type_acc"] == pytest.approx(1 / 3)


def _tokenised(text: str, words: list[str], mentions: list[tuple[int, int, str]]) -> Doc:
    spaces = []
    position = 0
    for word in words:
        position = text.index(word, position) + len(word)
        spaces.append(text[position : position + 1] == " ")
    doc = Doc(VOCAB, words=words, spaces=spaces)
    spans = [doc.char_span(start, end, label=label) for start, end, label in mentions]
    doc.ents = spans
    doc.spans["sc"] = spans
    return doc


def test_tokens_of_prediction_and_reference_differ() -> None:
    text = "non-small cell of the lung-wall"
    fine = ["non", "-", "small", "cell", "of", "the", "lung", "-", "wall"]
    coarse = ["non-small", "cell", "of", "the", "lung-wall"]
    tumour, wall, lung = (0, 14, "A"), (22, 31, "B"), (22, 26, "B")
    finer = [Example(_tokenised(text, fine, [tumour, wall]), _tokenised(text, coarse, [tumour]))]
    coarser = [Example(_tokenised(text, coarse, [tumour]), _tokenised(text, fine, [tumour, lung]))]
    part = [Example(_tokenised(text, fine, [lung]), _tokenised(text, coarse, [wall]))]
    assert score_ents(finer)["mslm_counts"]["exact"] == 1
    assert score_ents(finer)["ents_p"] == 0.5
    assert score_ents(coarser)["mslm_em"] == 0.5
    for examples in (finer, coarser, part):
        _same_as_spacy(examples)


def _same_as_spacy(examples: list[Example]) -> None:
    for ours, spacys in (
        (score_ents(examples), get_ner_prf(examples)),
        (score_spans(examples), spancat_score(examples, spans_key="sc")),
    ):
        assert {name: ours[name] for name in spacys} == spacys
        assert ours["mslm_em"] == next(spacys[name] for name in spacys if name.endswith("_r"))


@st.composite
def _tags(draw: Any, length: int, tags: tuple[str, ...] = ("O", "B", "I")) -> list[str]:
    """IOB2 tags; an "I" that would open a mention becomes a "B"."""
    chosen: list[str] = []
    for _ in range(length):
        prefix, label = draw(st.sampled_from(tags)), draw(st.sampled_from(LABELS))
        if prefix == "I" and (not chosen or chosen[-1] in ("O", "") or chosen[-1][2:] != label):
            prefix = "B"
        chosen.append(prefix if prefix in ("O", "") else f"{prefix}-{label}")
    return chosen


@st.composite
def _pairs(draw: Any, missing: bool = False) -> list[tuple[list[str], list[str]]]:
    """(gold, predicted) tags of up to 6 documents. "" is a gold tag that is missing."""
    pairs = []
    for _ in range(draw(st.integers(0, 6))):
        length = draw(st.integers(1, 10))
        gold = draw(_tags(length, ("O", "B", "I", "") if missing else ("O", "B", "I")))
        pairs.append((gold, draw(_tags(length))))
    return pairs


def _examples(pairs: list[tuple[list[str], list[str]]]) -> list[Example]:
    examples = []
    for pair in pairs:
        gold, predicted = (
            Doc(VOCAB, words=[f"w{i}" for i in range(len(tags))], ents=tags) for tags in pair
        )
        for doc in (gold, predicted):
            doc.spans["sc"] = list(doc.ents)
        examples.append(Example(predicted, gold))
    return examples


@given(_pairs())
@settings(max_examples=150, deadline=None)
@pytest.mark.filterwarnings("ignore::Warning")
def test_micro_scores_are_those_of_seqeval(pairs: list[tuple[list[str], list[str]]]) -> None:
    gold, predicted = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    for score, attr in ((score_ents, "ents"), (score_spans, "spans_sc")):
        scores = score(_examples(pairs))
        if scores[f"{attr}_f"] is None:
            assert all(tag == "O" for tags in gold + predicted for tag in tags)
            continue
        assert scores[f"{attr}_p"] == pytest.approx(precision_score(gold, predicted))
        assert scores[f"{attr}_r"] == pytest.approx(recall_score(gold, predicted))
        assert scores[f"{attr}_f"] == pytest.approx(f1_score(gold, predicted))
        assert scores["mslm_em"] == scores[f"{attr}_r"]
        types = {tag[2:] for tags in gold for tag in tags if tag != "O"}
        if types == {tag[2:] for tags in gold + predicted for tag in tags if tag != "O"}:
            macro = f1_score(gold, predicted, average="macro")
            assert scores["mslm_macro_f"] == pytest.approx(macro)
        # Without types, the boundaries are all there is.
        bare = [[[tag[:1] + "-X" if tag != "O" else tag for tag in tags] for tags in side]
                for side in (gold, predicted)]  # fmt: skip
        assert scores["mslm_boundary_f"] == pytest.approx(f1_score(*bare))
        counts = scores["mslm_counts"]
        assert counts["exact"] <= counts["boundary"] <= min(counts["gold"], counts["predicted"])


@given(_pairs())
@example([(["B-B", "I-B", "B-B", "I-B", "I-B"], ["O", "B-A", "I-A", "I-A", "B-A"])])
@settings(max_examples=150, deadline=None)
def test_matches_are_those_of_nervaluate(pairs: list[tuple[list[str], list[str]]]) -> None:
    scores = score_ents(_examples(pairs))
    if scores["ents_f"] is None:
        return
    results = Evaluator(*map(list, zip(*pairs, strict=True)), tags=LABELS, loader="list").evaluate()
    names = {"strict": "ents", "exact": "mslm_boundary", "partial": "mslm_partial"}
    # Of two predictions in one gold mention, nervaluate pairs the first with it, right or wrong;
    # here it is the one of the right type.
    if not any(_is_shared(gold, predicted) for gold, predicted in pairs):
        names["ent_type"] = "mslm_type"
    for theirs, ours in names.items():
        result = results["overall"][theirs]
        assert scores[f"{ours}_p"] == pytest.approx(result.precision), theirs
        assert scores[f"{ours}_r"] == pytest.approx(result.recall), theirs
        assert scores[f"{ours}_f"] == pytest.approx(result.f1), theirs


def _is_shared(gold: list[str], predicted: list[str]) -> bool:
    """Whether a mention of either side overlaps two of the other."""
    (example,) = _examples([(gold, predicted)])
    sides = example.reference.ents, example.predicted.ents
    return any(
        sum(a.start < b.end and b.start < a.end for b in there) > 1
        for here, there in (sides, sides[::-1])
        for a in here
    )


def test_one_gold_mention_goes_with_one_prediction() -> None:
    """Two predictions in one gold mention: the second has its type."""
    scores = score_ents([_example(5, gold=[(0, 4, "A")], predicted=[(0, 2, "B"), (2, 4, "A")])])
    assert (scores["mslm_type_p"], scores["mslm_type_r"]) == (1 / 2, 1.0)
    assert (scores["mslm_partial_p"], scores["mslm_partial_r"]) == (1 / 4, 1 / 2)


def test_same_boundaries_are_paired_first() -> None:
    """Of a span group: the first prediction overlaps both gold ones, the second is one of them."""
    gold, predicted = [(0, 2, "A"), (1, 4, "A")], [(0, 3, "A"), (0, 2, "A")]
    docs = []
    for mentions in (predicted, gold):
        doc = _doc(5, [])
        doc.spans["sc"] = [Span(doc, start, end, label=label) for start, end, label in mentions]
        docs.append(doc)
    assert score_spans([Example(*docs)])["mslm_partial_r"] == (1 + 0.5) / 2


def test_a_gold_mention_is_hit_once_whatever_the_tokens() -> None:
    gold = Doc(VOCAB, words=["breast-cancer"], ents=["B-A"])
    predicted = Doc(
        VOCAB, words=["breast", "-", "cancer"], spaces=[False] * 3, ents=["B-A", "B-A", "O"]
    )
    for span in predicted.ents:
        span._.confidence = 0.9
    scores = score_ents([Example(predicted, gold)])
    assert (scores["ents_p"], scores["mslm_confidence"]) == (0.5, 0.9)
    assert scores["mslm_ece"] == pytest.approx(abs(1.8 - 1) / 2)


def test_a_mention_without_any_prediction_has_confidence_zero() -> None:
    assert score_ents([_example(3, gold=[(0, 1, "A")], predicted=[])])["mslm_confidence"] == 0.0
    # Predictions of a component that has no confidences.
    assert score_ents(HAND_WORKED)["mslm_confidence"] is None


def test_seen_and_unseen_mentions(tmp_path: Path) -> None:
    train = [
        Doc(VOCAB, words=["Heart", "failure", "x"], ents=["B-A", "I-A", "O"]),
        Doc(VOCAB, words=["asthma"], ents=["B-A"]),
    ]
    DocBin(docs=train, store_user_data=True).to_disk(tmp_path / "train.spacy")
    gold = Doc(
        VOCAB,
        words=["heart", "failure", "and", "asthma", "or", "gout"],
        ents=["B-B", "I-B", "O", "B-A", "O", "B-A"],
    )
    predicted = Doc(VOCAB, words=[t.text for t in gold], ents=["B-B", "I-B", "O", "O", "O", "O"])
    score = make_entity_scorer(train=str(tmp_path / "train.spacy"))
    scores = score([Example(predicted, gold)])
    # "heart failure", in whatever case and of whatever type, and "asthma" were seen; "gout" not.
    assert (scores["mslm_em_seen"], scores["mslm_em_unseen"]) == (1 / 2, 0.0)
    assert scores["mslm_counts"]["gold_seen"] == 2 and scores["mslm_counts"]["gold_unseen"] == 1
    # Trained on the first document only.
    first = make_entity_scorer(train=str(tmp_path / "train.spacy"), limit=1)
    assert first([Example(predicted, gold)])["mslm_counts"]["gold_seen"] == 1
    assert pickle.loads(pickle.dumps(score))([Example(predicted, gold)]) == scores


def test_an_absent_training_set_is_told_once(tmp_path: Path, caplog: Any) -> None:
    score = make_entity_scorer(train=str(tmp_path / "train.spacy"))
    for _ in range(2):
        assert score(HAND_WORKED)["mslm_em_unseen"] is None
    assert caplog.text.count("no separate scores for seen and unseen") == 1


def test_short_and_long_sentences_of_one_document() -> None:
    """Sentences of 2, 2 and 5 words: the mean is 3."""
    words = [f"w{i}" for i in range(9)]
    starts = [i in (0, 2, 4) for i in range(9)]
    gold = Doc(VOCAB, words=words, sent_starts=starts, ents=["B-A", "O"] * 4 + ["B-A"])
    predicted = Doc(VOCAB, words=words, ents=["B-A"] + ["O"] * 7 + ["B-A"])
    scores = score_ents([Example(predicted, gold)])
    assert (scores["mslm_em_short"], scores["mslm_em_long"]) == (1 / 2, 1 / 3)


def test_confidences_by_hand() -> None:
    """Predicted: 0.9 right, 0.9 wrong, 0.4 right, and one of another component without any."""
    example = _example(
        8,
        gold=[(0, 1, "A"), (4, 5, "A"), (6, 7, "A")],
        predicted=[(0, 1, "A"), (2, 3, "A"), (4, 5, "A"), (7, 8, "A")],
    )
    for span, confidence in zip(example.predicted.ents, (0.9, 0.9, 0.4), strict=False):
        span._.confidence = confidence
    scores = score_ents([example])
    assert scores["mslm_confidence"] == pytest.approx((0.9 + 0.4 + 0) / 3)
    # |1.8 - 1| in the bin of 0.9, |0.4 - 1| in that of 0.4
    assert scores["mslm_ece"] == pytest.approx((0.8 + 0.6) / 3)
    assert scores["mslm_ece_uncalibrated"] == scores["mslm_ece"]
    # Before calibration they were 0.5, 0.5 and 0.95: |1 - 1| and |0.95 - 1|.
    for span, raw in zip(example.predicted.ents, (0.5, 0.5, 0.95), strict=False):
        span._.raw_confidence = raw
    assert score_ents([example])["mslm_ece_uncalibrated"] == pytest.approx(0.05 / 3)


@given(_pairs(missing=True))
@settings(max_examples=150, deadline=None)
def test_equal_to_spacys_own_scores(pairs: list[tuple[list[str], list[str]]]) -> None:
    _same_as_spacy(_examples(pairs))


@st.composite
def _retokenised(draw: Any) -> Example:
    """Prediction and reference cut one text of 12 letters at different places."""
    text = "abcdefghijkl"
    docs = []
    for _ in range(2):
        cuts = sorted(draw(st.sets(st.integers(1, len(text) - 1))))
        words = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        tags = draw(_tags(len(words)))
        doc = Doc(VOCAB, words=words, spaces=[False] * len(words), ents=tags)
        doc.spans["sc"] = list(doc.ents)
        docs.append(doc)
    return Example(docs[0], docs[1])


@given(st.lists(_retokenised(), max_size=4))
@settings(max_examples=150, deadline=None)
def test_equal_to_spacys_own_scores_with_other_tokens(examples: list[Example]) -> None:
    _same_as_spacy(examples)


def test_nlp_evaluate_with_the_registered_scorer(tmp_path: Path) -> None:
    """The scorer in the config of spaCy's own `ner`, as `nlp.evaluate` and `spacy evaluate` use
    it."""
    nlp = spacy.blank("en")
    ner = nlp.add_pipe("ner", config={"scorer": {"@scorers": "spacy_mslm.entity_scorer.v1"}})
    ner.add_label("A")
    nlp.initialize()
    examples = [
        Example.from_dict(nlp.make_doc("fever and cough"), {"entities": [(0, 5, "A")]}),
        Example.from_dict(nlp.make_doc("no cough"), {"entities": []}),
    ]
    scores = nlp.evaluate(examples)
    assert scores["mslm_counts"]["docs"] == 2 and scores["mslm_counts"]["gold"] == 1
    weights = {"ents_f": 0.5, "mslm_em": 0.5}
    assert isinstance(sum(scores[name] * weight for name, weight in weights.items()), float)
    json.dumps(scores)
    json.dumps(nlp.evaluate(examples, per_component=True))

    nlp.to_disk(tmp_path / "nlp")
    DocBin(docs=[example.reference for example in examples]).to_disk(tmp_path / "dev.spacy")
    evaluate(str(tmp_path / "nlp"), tmp_path / "dev.spacy", output=tmp_path / "scores.json")
    written = json.loads((tmp_path / "scores.json").read_text(encoding="utf8"))
    assert written["ents_f"] == scores["ents_f"]
