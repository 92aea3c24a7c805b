"""Self-training: what the student learns from the teachers, and what the stage leaves behind."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import spacy
import torch
from spacy.language import Language
from spacy.tokens import Doc, DocBin
from spacy.util import registry
from transformers import BertForMaskedLM, BertTokenizerFast

from spacy_mslm.corpus.text_corpus import TextCorpus
from spacy_mslm.inference.decoding import transition_scores
from spacy_mslm.masking.weights import UniformWeights
from spacy_mslm.pipeline.component import MSLM
from spacy_mslm.training import self_training
from spacy_mslm.training.losses import Terms, mean_loss
from spacy_mslm.training.self_training import (
    Passage,
    SelfTraining,
    choose_passages,
    combine,
    soft_gold,
)
from spacy_mslm.training.step import learn
from spacy_mslm.types import (
    MISSING,
    Entity,
    Evidence,
    MaskableWindow,
    Mention,
    Pieces,
    Prediction,
    Row,
    no_ints,
)

from ..conftest import PAPER, make_examples

TEXT = (
    "the patient had asthma after aspirin qxsecret .\n"
    "no history of acute renal failure .\n"
    "follow up in two weeks .\n"
)
OPTIMIZER = {"@optimizers": "spacy_mslm.AdamW.v1", "learn_rate": 0.003, "head_learn_rate": 0.01}


@pytest.fixture
def make(encoder: Path, tmp_path: Path) -> Callable[..., Language]:
    """A pipeline whose initialisation runs the stage; keyword arguments change its settings."""
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf8")

    def make_nlp(model: dict | None = None, **changes: object) -> Language:
        spacy.util.fix_random_seed(0)
        stage = {
            "@misc": "spacy_mslm.SelfTraining.v1",
            "corpus": {"@readers": "spacy_mslm.TextCorpus.v1", "text": str(tmp_path / "text.txt")},
            "output": str(tmp_path / "adapted"),
            "steps": 60,
            "batch_size": 4,
            "labelled": 2,
            "passes": 40,
            "sure": 0.6,
            "dropout": 0.0,
            "masking": {"@misc": "spacy_mslm.EvenMasking.v1", "unit": "mentions", "rate": 0.2},
            "optimizer": OPTIMIZER,
            "teacher_steps": 60,
            "teacher_optimizer": OPTIMIZER,
            **changes,
        }
        nlp = spacy.blank("en")
        shape = {"encoder": str(encoder), "window": 40, "context": 8, **(model or {})}
        nlp.add_pipe("mslm", config={**PAPER, "model": shape})
        nlp.config["initialize"]["components"]["mslm"] = {"adaptation": stage}
        return nlp

    return make_nlp


def initialize(nlp: Language) -> MSLM:
    nlp.initialize(lambda: make_examples(nlp))
    return nlp.get_pipe("mslm")  # type: ignore[return-value]


def found(nlp: Language, text: str) -> list[tuple[str, str]]:
    return [(ent.text, ent.label_) for ent in nlp(text).ents]


# ---- the parts ----


def test_the_loss_of_soft_tags_by_hand():
    """Two tokens, uniform logits, and logits of log 2, 0, 0: P = 1/2, 1/4, 1/4."""
    logits = torch.tensor([[0.0, 0.0, 0.0], [math.log(2), 0.0, 0.0]])
    targets = torch.tensor([[0.7, 0.2, 0.1], [0.5, 0.25, 0.25]])
    expected = math.log(3) + (0.5 * math.log(2) + 0.5 * math.log(4))
    assert float(mean_loss(logits, targets, 2.0)) == pytest.approx(expected / 2)


def test_a_network_learns_soft_tags(make_nlp):
    """It reproduces the probabilities that it is given, not only the most probable tag."""
    pipe = make_nlp().get_pipe("mslm")
    targets = np.array([[0.6, 0.3, 0.1], [0.1, 0.1, 0.8], [0.2, 0.7, 0.1]], dtype=np.float32)
    (pieces,) = pipe.shim.wordpieces([Doc(pipe.vocab, words=["aspirin", "had", "asthma"])])
    at = pieces.starts[:-1]
    row = Row(pieces.ids, np.zeros(len(pieces.ids), dtype=np.int8), at, targets)
    optimizer = registry.resolve({"o": OPTIMIZER})["o"]
    for _ in range(150):
        learn(
            *(pipe.model, pipe.shim.wordpieces, [row], 4096),
            *(UniformWeights()(0, 0), Terms(0.0, 1.0, 1.0)),
        )
        pipe.shim.finish_update(optimizer)
    (prediction,) = pipe.predict_pieces([pieces])
    assert np.abs(prediction.bio - targets).max() < 0.05


def found_at(start: int, end: int, type_: int, confidence: float) -> Entity:
    return Entity(start, end, type_, confidence, Evidence(confidence, 1.0, 1.0, 1.0, end - start))


def document(n: int) -> Pieces:
    return Pieces(np.arange(n), np.arange(n), ["w"] * n, np.array([0]))


def test_teachers_are_averaged_and_vote_on_types():
    """Alone, each teacher is sure of one of the two mentions; the mean finds both."""
    b, i, o = (0.98, 0.01, 0.01), (0.02, 0.96, 0.02), (0.01, 0.01, 0.98)
    weak = (0.45, 0.05, 0.5)
    one = Prediction([found_at(0, 2, 1, 0.9)], np.array([b, i, o, weak, o]))
    entities = [found_at(0, 1, 0, 0.3), found_at(3, 4, 0, 0.8)]
    two = Prediction(entities, np.array([b, i, o, b, o]))
    transitions = transition_scores(np.zeros((3, 3)), 0.5)
    bio, mentions = combine(document(5), [one, two], transitions, ["Chemical", "Disease"])
    assert mentions == [Mention(0, 2, "Disease"), Mention(3, 4, "Chemical")]
    assert bio[3] == pytest.approx([0.715, 0.03, 0.255])
    gold = soft_gold(bio, mentions, sure=0.9)
    assert gold.tags.tolist() == [0, 1, 2, MISSING, 2]
    assert gold.mentions == [Mention(0, 2, "Disease")]


def passage(mentions: int) -> Passage:
    window = MaskableWindow(no_ints(), no_ints(mentions, 2), [])
    return Passage(Row(no_ints(), no_ints()), window)


def test_passages_with_and_without_mentions(make):
    """6 updates with 3 windows of text, each read twice: 9 windows, a third of them empty."""
    config = make(steps=6, batch_size=4, labelled=1, passes=2, empty=0.33).config
    settings = config["initialize"]["components"]["mslm"]["adaptation"]
    stage = registry.resolve({"stage": settings})["stage"]
    assert isinstance(stage, SelfTraining)
    stream = [passage(mentions) for mentions in [0, 0, 0, 0, 1, 2, 1, 1, 1, 1, 1, 0]]
    chosen = choose_passages(stage, iter(stream))
    assert [len(p.maskable.mentions) for p in chosen] == [0, 0, 0, 1, 2, 1, 1, 1, 1]


# ---- the stage ----


def test_the_student_knows_what_the_teachers_know(make, tmp_path):
    nlp = make()
    pipe = initialize(nlp)
    assert pipe.labels == ("Chemical", "Disease")
    # No training yet: the student's heads are kept.
    assert found(nlp, "the patient had asthma after aspirin .") == [
        ("asthma", "Disease"),
        ("aspirin", "Chemical"),
    ]
    record = json.loads((tmp_path / "adapted" / "adaptation.json").read_text())
    assert record["sentences"] == 3 and record["labels"] == ["Chemical", "Disease"]
    assert "qxsecret" not in nlp.vocab.strings


def test_documents_are_read_as_documents(make, tmp_path):
    (tmp_path / "text.txt").write_text(TEXT.replace("\n", " ") + "\n", encoding="utf8")
    model = {"split_sentences": False, "window": 20, "context": 4}
    nlp = make(model=model, max_pieces=0, empty=0.0)
    initialize(nlp)
    record = json.loads((tmp_path / "adapted" / "adaptation.json").read_text())
    assert record["sentences"] == 2  # windows of 20 pieces
    assert found(nlp, "the patient had asthma .") == [("asthma", "Disease")]


def test_annotated_documents_are_text_too(tmp_path):
    blank = spacy.blank("en")
    docs = [blank.make_doc(TEXT.title().replace("\n", " "))]
    DocBin(docs=docs).to_disk(tmp_path / "text.spacy")
    corpus = TextCorpus(str(tmp_path / "text.spacy"))
    assert [len(doc) for doc in corpus(blank, split_sentences=True)] == [8, 7, 6]
    (whole,) = corpus(blank, split_sentences=False)
    assert len(whole) == 21 and whole.user_data["id"] == "text.spacy:0"
    assert corpus and not TextCorpus(None)


def test_it_repeats_and_is_not_run_twice(make, tmp_path):
    short = {"steps": 2, "teacher_steps": 30, "sure": 0.5}
    first = initialize(make(**short))
    stamp = (tmp_path / "adapted" / "model.safetensors").stat().st_mtime_ns
    again = initialize(make(**short))
    assert (tmp_path / "adapted" / "model.safetensors").stat().st_mtime_ns == stamp
    assert first.shim.to_bytes() == again.shim.to_bytes()
    with pytest.raises(ValueError, match=r"settings\.teachers differ"):
        initialize(make(**short, teachers=3))
    other = initialize(make(**short, output=str(tmp_path / "other")))
    assert other.shim.to_bytes() == first.shim.to_bytes()
    alone = initialize(make(**short, teachers=1, output=str(tmp_path / "alone")))
    assert alone.shim.to_bytes() != first.shim.to_bytes()


@pytest.mark.parametrize("part", ["teachers", "student"])
def test_an_interrupted_stage_continues(make, tmp_path, monkeypatch, part):
    """Stopped in update 25 of the teachers, or 11 of the student: the result is the same."""
    settings = {"teacher_steps": 30, "steps": 12, "sure": 0.5, "dropout": 0.1}
    settings["checkpoint_every"] = 10
    whole = initialize(make(**settings, output=str(tmp_path / "whole")))
    owner, name, at = (MSLM, "update", 50) if part == "teachers" else (self_training, "learn", 10)
    real, count = getattr(owner, name), 0

    def counted(*args: object, **kwargs: object) -> object:
        nonlocal count
        count += 1
        if count > at:
            raise RuntimeError("stopped")
        return real(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, counted)
        with pytest.raises(RuntimeError, match="stopped"):
            initialize(make(**settings))
    assert (tmp_path / "adapted.teachers-checkpoint").exists()
    assert (tmp_path / "adapted.self-training-checkpoint").exists() == (part == "student")
    at, count = 1000, 0
    monkeypatch.setattr(owner, name, counted)
    again = initialize(make(**settings))
    # The teachers go on from update 20, the student from update 10.
    assert count == (20 if part == "teachers" else 2)
    assert again.shim.to_bytes() == whole.shim.to_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"text.txt", "whole", "adapted"}


def test_a_text_without_mentions_leaves_nothing_behind(make, tmp_path):
    (tmp_path / "text.txt").write_text("follow up in two weeks .\n", encoding="utf8")
    with pytest.raises(ValueError, match=r"found no mention .* --paths\.text"):
        initialize(make(teachers=1, teacher_steps=30))
    assert not (tmp_path / "adapted").exists()


def test_trained_pipelines_are_teachers(make, tmp_path, encoder):
    """They are used as they are: the text has no labels, and nothing else knows of them."""
    nlp = spacy.blank("en")
    nlp.add_pipe(
        "mslm", config={**PAPER, "model": {"encoder": str(encoder), "window": 40, "context": 8}}
    )
    examples = make_examples(nlp)
    optimizer = registry.resolve({"o": OPTIMIZER})["o"]
    nlp.initialize(lambda: examples)
    nlp.to_disk(tmp_path / "untrained")
    for _ in range(60):
        nlp.update(examples, sgd=optimizer)
    nlp.to_disk(tmp_path / "trained")
    teachers = [str(tmp_path / "trained")]
    student = make(teachers=teachers, teacher_steps=1)
    initialize(student)
    assert found(student, "the patient had asthma .") == [("asthma", "Disease")]
    # Their content is a setting of the stage.
    (tmp_path / "trained").rename(tmp_path / "moved")
    initialize(make(teachers=[str(tmp_path / "moved")], teacher_steps=1))
    with pytest.raises(ValueError, match=r"settings\.teachers"):
        initialize(make(teachers=[str(tmp_path / "untrained")], teacher_steps=1))


def with_another_piece(encoder: Path, folder: Path) -> Path:
    vocabulary = folder / "vocab.txt"
    folder.mkdir()
    vocabulary.write_text((encoder / "vocab.txt").read_text() + "zoster\n")
    tokenizer = BertTokenizerFast.from_pretrained(folder, do_lower_case=True)
    tokenizer.save_pretrained(folder)
    model = BertForMaskedLM.from_pretrained(encoder)
    model.resize_token_embeddings(len(tokenizer))
    model.save_pretrained(folder)
    return folder


def test_teachers_with_other_labels_or_pieces_are_refused(make, tmp_path, encoder):
    blank = spacy.blank("en")
    blank.to_disk(tmp_path / "blank")
    with pytest.raises(ValueError, match=r"blank cannot teach.*Labels found: none"):
        initialize(make(teachers=[str(tmp_path / "blank")]))
    nlp = make()
    initialize(nlp)
    nlp.to_disk(tmp_path / "teacher")
    other = with_another_piece(encoder, tmp_path / "other")
    with pytest.raises(ValueError, match="other wordpieces"):
        initialize(
            make(
                model={"encoder": str(other)},
                teachers=[str(tmp_path / "teacher")],
                output=str(tmp_path / "out"),
            )
        )


def test_a_model_with_separate_types_is_refused(make):
    with pytest.raises(ValueError, match=r"MSLM\.v1.*Adaptation\.v1"):
        initialize(make(model={"@architectures": "spacy_mslm.MSLM.v2"}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"output": None}, r"--paths\.adapted"),
        ({"corpus": {"@readers": "spacy_mslm.TextCorpus.v1", "text": None}}, r"--paths\.text"),
        ({"labelled": 4}, "below batch_size"),
        ({"teachers": 0}, "at least 1"),
        ({"passes": 0}, "at least 1"),
        ({"empty": 1.0}, "below 1"),
    ],
)
def test_wrong_settings_are_said_before_work_begins(make, changes, message):
    with pytest.raises(ValueError, match=message):
        initialize(make(**changes))
