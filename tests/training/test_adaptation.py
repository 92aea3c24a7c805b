"""The stage before training: what it learns, what it leaves behind, and when it is not run."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import spacy
from spacy.language import Language
from spacy.training import Example
from spacy.util import registry
from transformers import AutoModelForMaskedLM

from spacy_mslm.masking.strategies import JointMasking
from spacy_mslm.pipeline.component import MSLM
from spacy_mslm.scoring.perplexity import perplexity

from ..conftest import PAPER, make_examples
from ..helpers import write_terms

TEXT = "the patient had asthma after aspirin qxsecret .\nno history of acute renal failure .\n"
OPTIMIZER = {"@optimizers": "spacy_mslm.AdamW.v1", "learn_rate": 0.003, "head_learn_rate": 0.01}
TERMS = [("asthma", "disease"), ("acute renal failure", "disease"), ("aspirin", "drug")]


@pytest.fixture
def make(encoder: Path, tmp_path: Path) -> Callable[..., Language]:
    """A pipeline whose initialisation adapts the encoder; keyword arguments change the stage."""
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf8")
    write_terms(tmp_path / "terms.tsv", TERMS)

    def make_nlp(**changes: object) -> Language:
        spacy.util.fix_random_seed(0)
        corpus = {
            "@readers": "spacy_mslm.WeakCorpus.v1",
            "text": str(tmp_path / "text.txt"),
            "terms": str(tmp_path / "terms.tsv"),
        }
        stage = {
            "@misc": "spacy_mslm.Adaptation.v1",
            "corpus": {**corpus, **changes.pop("corpus", {})},  # type: ignore[dict-item]
            "output": str(tmp_path / "adapted"),
            "steps": 60,
            "batch_size": 2,
            "dropout": 0.0,
            "masking": {"@misc": "spacy_mslm.JointMasking.v1", "elm_rate": 1.0, "blm_rate": 0.1},
            "mask_weights": {"@misc": "spacy_mslm.UniformWeights.v1"},
            "loss_weights": {"mlm": 1.0, "ed": 1.0, "el": 1.0},
            "optimizer": OPTIMIZER,
            "teacher_steps": 60,
            "teacher_optimizer": OPTIMIZER,
            **changes,
        }
        nlp = spacy.blank("en")
        model = {"encoder": str(encoder), "window": 40, "context": 8}
        nlp.add_pipe("mslm", config={**PAPER, "model": model})
        nlp.config["initialize"]["components"]["mslm"] = {"adaptation": stage}
        return nlp

    return make_nlp


def initialize(nlp: Language) -> MSLM:
    nlp.initialize(lambda: make_examples(nlp))
    return nlp.get_pipe("mslm")  # type: ignore[return-value]


def term_perplexity(pipe: MSLM, nlp: Language) -> float:
    """Of the masked terms of the text."""
    doc = nlp.make_doc(TEXT)
    spans = [(TEXT.index(name), TEXT.index(name) + len(name), label) for name, label in TERMS]
    example = Example.from_dict(doc, {"entities": spans})
    found = perplexity(pipe, [example], JointMasking(1.0, 0.0))["mslm_ppl_elm"]
    assert found is not None
    return found


def test_the_encoder_learns_the_terms_and_the_heads_start_anew(make, make_nlp, tmp_path):
    nlp = make()
    pipe = initialize(nlp)
    pipe.spans_key = None  # what follows looks at entities
    plain = make_nlp()
    assert term_perplexity(pipe, nlp) < 0.2 * term_perplexity(plain.get_pipe("mslm"), plain)
    assert pipe.labels == ("Chemical", "Disease")  # of the labelled set, not of the terminology
    assert pipe.shim.network.types == 2
    assert pipe.cfg["step"] == 0
    record = json.loads((tmp_path / "adapted" / "adaptation.json").read_text())
    assert record["settings"]["steps"] == 60 and record["cpu_seconds"] >= 0


def test_the_adapted_encoder_is_a_checkpoint_like_any_other(make, make_nlp, tmp_path):
    adapted = initialize(make())
    other = make_nlp(model={"encoder": str(tmp_path / "adapted")})
    lm = other.get_pipe("mslm").shim.network.lm
    for name, tensor in adapted.shim.network.lm.state_dict().items():
        assert np.array_equal(tensor, lm.state_dict()[name]), name
    assert AutoModelForMaskedLM.from_pretrained(tmp_path / "adapted").config.hidden_size == 32
    wordpieces = other.get_pipe("mslm").shim.wordpieces
    assert wordpieces.to_json() == adapted.shim.wordpieces.to_json()


def test_it_repeats_and_is_not_run_twice(make, tmp_path):
    first = initialize(make())
    weights = (tmp_path / "adapted" / "model.safetensors").read_bytes()
    stamp = (tmp_path / "adapted" / "model.safetensors").stat().st_mtime_ns
    again = initialize(make())
    assert (tmp_path / "adapted" / "model.safetensors").stat().st_mtime_ns == stamp
    assert first.shim.to_bytes() == again.shim.to_bytes()
    other = tmp_path / "other"
    initialize(make(output=str(other)))
    assert (other / "model.safetensors").read_bytes() == weights


def test_another_stage_does_not_pass_for_this_one(make, tmp_path):
    initialize(make())
    with pytest.raises(
        ValueError, match=r"adapted was made with other settings .*: settings\.steps differ"
    ):
        initialize(make(steps=61))
    (tmp_path / "adapted" / "adaptation.json").write_text("{")
    with pytest.raises(ValueError, match=r"--paths\.adapted"):
        initialize(make())


def test_files_count_by_what_is_in_them(make, tmp_path):
    """The same text elsewhere is the same; other text at the same place is not. Nor does it matter
    what a teacher would do where there is none."""
    initialize(make())
    (tmp_path / "text.txt").rename(tmp_path / "moved.txt")
    moved = {"text": str(tmp_path / "moved.txt")}
    initialize(make(corpus=moved, teacher_steps=7))
    with (tmp_path / "moved.txt").open("a") as file:
        file.write("more aspirin .\n")
    with pytest.raises(ValueError, match=r"other input files: settings\.corpus\.text"):
        initialize(make(corpus=moved))


def test_text_that_is_not_there_is_said_before_the_teacher_is_trained(make):
    with pytest.raises(ValueError, match=r"nowhere\.txt: there is no such file"):
        initialize(make(corpus={"text": "nowhere.txt", "terms": None}))


def test_a_pipe_by_itself_cannot_adapt(make):
    nlp = make()
    stage = nlp.config["initialize"]["components"]["mslm"]["adaptation"]
    adaptation = registry.resolve({"adaptation": stage})["adaptation"]
    with pytest.raises(ValueError, match=r"nlp\.initialize"):
        nlp.get_pipe("mslm").initialize(lambda: make_examples(nlp), adaptation=adaptation)


def test_a_stage_that_fails_leaves_nothing_behind(make, tmp_path):
    with pytest.raises(ValueError, match=r"no sentence in which an entity was found"):
        initialize(make(corpus={"text": str(write_terms(tmp_path / "no.txt", []))}))
    assert not (tmp_path / "adapted").exists()


def test_no_text_no_adaptation(make, make_nlp, tmp_path):
    pipe = initialize(make(corpus={"text": None}))
    assert not (tmp_path / "adapted").exists()
    plain = make_nlp().get_pipe("mslm")
    assert term_perplexity(pipe, spacy.blank("en")) == term_perplexity(plain, spacy.blank("en"))


@pytest.mark.parametrize("spans_key", [None, "terms"])
def test_without_terms_a_teacher_labels_the_text(make, make_nlp, tmp_path, spans_key):
    """It learns the labelled set, finds its mentions in the text, and the encoder learns those."""
    nlp = make(corpus={"terms": None}, steps=100)
    nlp.get_pipe("mslm").spans_key = spans_key
    examples = make_examples(nlp)
    if spans_key:
        for example in examples:
            example.reference.spans[spans_key] = list(example.reference.ents)
            example.reference.set_ents([])
    nlp.initialize(lambda: examples)
    pipe = nlp.get_pipe("mslm")
    assert pipe.labels == ("Chemical", "Disease")
    record = json.loads((tmp_path / "adapted" / "adaptation.json").read_text())
    assert record["sentences"] == 2
    assert record["labels"] == ["Chemical", "Disease"]
    # Its heads have learnt the labelled task, and are kept: no training yet, and it knows the text.
    (doc,) = nlp.pipe(["the patient had asthma after aspirin"])
    found = doc.spans[spans_key] if spans_key else doc.ents
    assert [(ent.text, ent.label_) for ent in found] == [
        ("asthma", "Disease"),
        ("aspirin", "Chemical"),
    ]
    pipe.spans_key = None  # what follows looks at entities
    plain = make_nlp()
    assert term_perplexity(pipe, nlp) < 0.2 * term_perplexity(plain.get_pipe("mslm"), plain)


def test_a_teacher_that_is_rarely_sure_stops_early_and_is_kept(make, tmp_path, caplog):
    """It says what it read and what to set, and with that setting it is not trained again."""
    lines = "".join(f"note {i} : asthma after aspirin .\n" for i in range(5000))
    (tmp_path / "long.txt").write_text(lines, encoding="utf8")
    corpus = {"terms": None, "text": str(tmp_path / "long.txt"), "min_confidence": 1.0}
    steps = {"steps": 4000, "teacher_steps": 12}
    with pytest.raises(ValueError, match=r"too little for adaptation.* 8,000 sentences") as caught:
        initialize(make(corpus=corpus, **steps))
    numbers = re.search(r"read (\d+) sen.* in (\d+) of .* in (\d+) none below 1", str(caught.value))
    assert numbers is not None
    read, found, kept = map(int, numbers.groups())
    assert read < 1000 and found >= 200 and kept == 0
    assert not (tmp_path / "adapted").exists()
    state = tmp_path / "adapted.teacher-checkpoint" / "state.safetensors"
    stamp = state.stat().st_mtime_ns
    with pytest.raises(ValueError, match=r"too little for adaptation") as caught:
        initialize(make(corpus={**corpus, "min_confidence": 0.999999}, **steps))
    assert state.stat().st_mtime_ns == stamp  # a teacher that is trained writes it
    advised = re.search(r"min_confidence to ([\d.]+)\.", str(caught.value))
    assert advised is not None and 0 < float(advised[1]) < 1
    caplog.set_level("INFO", "spacy_mslm")
    corpus["min_confidence"] = float(advised[1])
    initialize(make(corpus=corpus, **{**steps, "steps": 4}))
    assert "The teacher read" in caplog.text and not state.exists()


def test_heads_are_kept_though_the_text_lacks_a_type(make, tmp_path):
    (tmp_path / "text.txt").write_text("the patient had asthma .\n", encoding="utf8")
    nlp = make(corpus={"terms": None}, steps=100)
    pipe = initialize(nlp)
    assert pipe.labels == ("Chemical", "Disease")
    record = json.loads((tmp_path / "adapted" / "adaptation.json").read_text())
    assert record["labels"] == ["Chemical", "Disease"]
    assert [ent.text for ent in nlp("the patient had asthma").ents] == ["asthma"]


def test_a_teacher_of_another_labelled_set_makes_another_encoder(make):
    nlp = make(corpus={"terms": None})
    initialize(nlp)
    again = make(corpus={"terms": None})
    initialize(again)
    other = make(corpus={"terms": None})
    with pytest.raises(ValueError, match=r"other input files: labelled_set"):
        other.initialize(lambda: make_examples(other)[:2])


def test_a_folder_is_needed(make):
    with pytest.raises(ValueError, match=r"--paths\.adapted"):
        initialize(make(output=None))


def test_words_of_the_text_stay_out_of_the_pipeline(make):
    nlp = make()
    initialize(nlp)
    assert "qxsecret" not in nlp.vocab.strings
    assert "disease" not in nlp.get_pipe("mslm").labels
