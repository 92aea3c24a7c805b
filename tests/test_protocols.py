"""Scoring under a protocol: masked text, perplexity, calibration, and the commands for them."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import spacy
import torch
from spacy.language import Language
from spacy.tokens import DocBin

from spacy_mslm.batches import BLM, ELM, UNMASKED
from spacy_mslm.component import MSLM, find_mslm
from spacy_mslm.gold import align_gold
from spacy_mslm.masked_text import draw_masks, mask_pieces, masked_lm_losses, perplexities
from spacy_mslm.masking import JointMasking, NoMasking, TokenMasking
from spacy_mslm.model import document_windows, shim_of
from spacy_mslm.optimizer import make_adamw
from spacy_mslm.saving import safe_save

from .conftest import TEXTS, build_encoder, make_examples

BOTH = JointMasking(1.0, 0.3)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Language:
    """A pipe that finds the entities of the test texts."""
    spacy.util.fix_random_seed(0)
    encoder = build_encoder(tmp_path_factory.mktemp("encoder"))
    nlp = spacy.blank("en")
    nlp.add_pipe("mslm", config={"model": {"encoder": str(encoder), "window": 40, "context": 8}})
    nlp.initialize(lambda: make_examples(nlp))
    optimizer = make_adamw(1e-3, 1e-2)
    for _ in range(90):
        nlp.update(make_examples(nlp), sgd=optimizer, drop=0.1)
    return nlp


def mslm(nlp: Language) -> MSLM:
    return nlp.get_pipe("mslm")


# ---- masks of gold text ----


def test_perplexity_by_hand():
    # Losses of log 2 and log 8 at ELM, log 4 at BLM: exp of the means is 4 each, and 4 over all.
    losses = np.log([2.0, 8.0, 4.0])
    found = perplexities(losses, np.array([ELM, ELM, BLM]))
    assert found == pytest.approx({"mslm_ppl": 4, "mslm_ppl_elm": 4, "mslm_ppl_blm": 4})
    assert perplexities(losses[:1], np.array([ELM]))["mslm_ppl_blm"] is None
    assert set(perplexities(np.zeros(0), np.zeros(0)).values()) == {None}


def test_losses_are_those_of_the_masked_lm_at_the_masked_pieces(trained):
    pipe = mslm(trained)
    example = make_examples(trained)[0]
    pieces = shim_of(pipe.model).wordpieces([example.predicted])[0]
    gold = align_gold(example, None)
    kinds = draw_masks(pipe.model, pieces, gold, BOTH, np.random.default_rng(0))
    assert set(kinds.tolist()) == {UNMASKED, BLM, ELM}
    losses, of_kind = masked_lm_losses(pipe.model, [(pieces, kinds)], 4096)
    shim = shim_of(pipe.model)
    ids = [
        *shim.wordpieces.prefix,
        *mask_pieces(pipe.model, pieces, kinds).ids,
        *shim.wordpieces.suffix,
    ]
    with torch.inference_mode():
        logits = shim.network.lm(torch.tensor([ids])).logits[0].log_softmax(-1)
    at = np.flatnonzero(kinds)
    first = len(shim.wordpieces.prefix)
    expected = [-float(logits[first + p, pieces.ids[p]]) for p in at]
    assert losses.tolist() == pytest.approx(expected, abs=1e-5)
    assert of_kind.tolist() == kinds[at].tolist()


def test_each_masked_piece_counts_once_where_windows_overlap(trained):
    """A sentence of four windows: its masks are those of the windows that own them."""
    nlp = trained
    pipe = mslm(nlp)
    doc = nlp.make_doc("the patient had acute renal failure " * 20)
    example = spacy.training.Example.from_dict(doc, {"entities": [(16, 35, "Disease")]})
    pieces = shim_of(pipe.model).wordpieces([doc])[0]
    assert len(document_windows(pipe.model, pieces)) > 3
    gold = align_gold(example, None)
    kinds = draw_masks(pipe.model, pieces, gold, TokenMasking(1.0), np.random.default_rng(0))
    assert (kinds == BLM).all()
    losses, _ = masked_lm_losses(pipe.model, [(pieces, kinds)], 4096)
    assert len(losses) == len(pieces.ids)
    assert (mask_pieces(pipe.model, pieces, kinds).ids == shim_of(pipe.model).wordpieces.mask).all()


def test_the_same_seed_gives_the_same_masks(trained):
    pipe = mslm(trained)
    examples = make_examples(trained)
    first = pipe.perplexity(examples, BOTH, seed=1)
    assert pipe.perplexity(examples, BOTH, seed=1) == first
    assert pipe.perplexity(examples, BOTH, seed=2) != first
    assert set(pipe.perplexity(examples, NoMasking()).values()) == {None}
    assert pipe.perplexity(examples, JointMasking(1.0, 0.0))["mslm_ppl_blm"] is None


def test_annotating_masked_text_reads_no_mention(trained):
    """With nothing masked it is what the pipeline says; with all mentions masked, exchanging the
    words of a mention changes nothing."""
    pipe = mslm(trained)
    plain = make_examples(trained)
    pipe.annotate_masked(plain, NoMasking())
    docs = list(trained.pipe(text for text, _ in TEXTS))
    spans = [[(e.start, e.end, e.label_, e._.confidence) for e in d.ents] for d in docs]
    assert any(spans)
    assert [
        [(e.start, e.end, e.label_, e._.confidence) for e in eg.predicted.ents] for eg in plain
    ] == [[pytest.approx(span) for span in doc] for doc in spans]
    other = [(text.replace("aspirin", "asthma"), entities) for text, entities in TEXTS[2:3]]
    assert len(other[0][0]) == len(TEXTS[2][0]) - 1
    masked = []
    for text, entities in (TEXTS[2], (other[0][0], [(0, 6, "Chemical"), (11, 18, "Chemical")])):
        example = spacy.training.Example.from_dict(trained.make_doc(text), {"entities": entities})
        pieces = shim_of(pipe.model).wordpieces([example.predicted])[0]
        gold = align_gold(example, None)
        kinds = draw_masks(
            pipe.model, pieces, gold, JointMasking(1.0, 0.0), np.random.default_rng(0)
        )
        masked.append(mask_pieces(pipe.model, pieces, kinds))
    # "aspirin" has two pieces, "asthma" one.
    assert masked[0].ids.tolist()[1:] == masked[1].ids.tolist()


def test_score_adds_perplexity_unless_told_not_to(trained):
    pipe = mslm(trained)
    scores = trained.evaluate(make_examples(trained))
    expected = pipe.perplexity(make_examples(trained), JointMasking())
    assert {name: scores[name] for name in expected} == expected
    assert 1 < scores["mslm_ppl_elm"] < math.inf
    json.dumps(scores)
    pipe.score_perplexity = False
    try:
        assert not expected.keys() & trained.evaluate(make_examples(trained)).keys()
    finally:
        pipe.score_perplexity = True


# ---- calibration ----


def test_calibration_changes_confidences_only_and_is_saved(trained, tmp_path):
    nlp = _reloaded(trained, tmp_path)  # a copy: other tests use the one given
    pipe = mslm(nlp)
    before = [nlp(text).ents for text, _ in TEXTS]
    fit = pipe.calibrate(make_examples(nlp))
    assert pipe.cfg["temperature"] == fit.temperature != 1.0
    assert fit.mentions == sum(len(ents) for ents in before)
    after = [nlp(text).ents for text, _ in TEXTS]
    for old, new in zip(before, after, strict=True):
        assert [(e.start, e.end, e.label_) for e in old] == [
            (e.start, e.end, e.label_) for e in new
        ]
        assert [e._.confidence for e in old] != [e._.confidence for e in new] or not old
    assert pipe.calibrate(make_examples(nlp)).temperature == fit.temperature
    ents = _reloaded(nlp, tmp_path)(TEXTS[0][0]).ents
    assert [e._.confidence for e in ents] == [e._.confidence for e in after[0]]
    scores = nlp.evaluate(make_examples(nlp))
    assert scores["mslm_ece"] == pytest.approx(fit.error_after)
    assert scores["mslm_ece_uncalibrated"] == pytest.approx(fit.error_before, abs=1e-6)
    # A fresh start forgets it.
    nlp.initialize(lambda: make_examples(nlp))
    assert pipe.cfg["temperature"] == 1.0


def _reloaded(nlp: Language, path: Path) -> Language:
    nlp.to_disk(path / "model")
    return spacy.load(path / "model")


def test_a_model_of_before_has_temperature_one(trained, tmp_path):
    trained.to_disk(tmp_path / "model")
    pipe = mslm(_reloaded(trained, tmp_path))
    del pipe.cfg["temperature"]
    fresh = spacy.load(tmp_path / "model")
    mslm(fresh).from_bytes(pipe.to_bytes())
    assert mslm(fresh).cfg["temperature"] == 1.0


# ---- the commands ----


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    settings = {"OMP_NUM_THREADS": "1", "ANSI_COLORS_DISABLED": "1", "COLUMNS": "500"}
    return subprocess.run(
        [sys.executable, "-m", "spacy", "mslm", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **settings, "PYTHONIOENCODING": "utf8"},
    )


def told(result: subprocess.CompletedProcess[str]) -> str:
    return " ".join((result.stdout + result.stderr).split())


@pytest.fixture
def model(trained, tmp_path) -> Path:
    safe_save(trained, tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def data(trained, tmp_path) -> Path:
    path = tmp_path / "dev.spacy"
    DocBin(docs=[example.reference for example in make_examples(trained)]).to_disk(path)
    return path


def test_evaluate_command_on_clean_text(trained, model, data, tmp_path):
    result = run("evaluate", model, data, "--train", data, "--output", tmp_path / "x" / "out.json")
    assert result.returncode == 0, told(result)
    report = json.loads((tmp_path / "x" / "out.json").read_text(encoding="utf8"))
    assert report["protocol"] == "clean" and report["gold_positions_visible"] is False
    assert (report["elm_rate"], report["blm_rate"], report["seed"]) == (1.0, 0.075, 0)
    assert report["counts"]["gold"] == 6 and report["counts"]["gold_seen"] == 6
    expected = trained.evaluate(make_examples(trained))
    for name, value in report["scores"].items():
        if name.endswith("_per_type"):
            assert value == expected[name]
        elif name not in ("mslm_em_seen", "mslm_em_unseen"):
            assert value == pytest.approx(expected[name]), name
    assert report["scores"]["mslm_em_seen"] == report["scores"]["ents_r"] == 1.0
    assert "Protocol: clean text" in told(result) and "strict (boundaries and type) 100.00" in told(
        result
    )
    assert "Gold mentions were masked" not in told(result)


def test_evaluate_command_on_masked_text(trained, model, data, tmp_path):
    out = tmp_path / "out.json"
    result = run(
        *("evaluate", model, data, "--protocol", "masked", "--elm", 0.5, "--blm", 0.1),
        *("--seed", 3, "-o", out),
    )
    assert result.returncode == 0, told(result)
    assert "Protocol: masked text" in told(result)
    assert "the model sees where they are" in told(result)
    report = json.loads(out.read_text(encoding="utf8"))
    assert report["protocol"] == "masked" and report["gold_positions_visible"] is True
    assert (report["elm_rate"], report["blm_rate"], report["seed"]) == (0.5, 0.1, 3)
    examples = make_examples(trained)
    masking = JointMasking(0.5, 0.1)
    mslm(trained).annotate_masked(examples, masking, seed=3)
    expected = mslm(trained).score(examples, masking=masking, seed=3)
    assert report["scores"]["ents_f"] == pytest.approx(expected["ents_f"])
    assert report["scores"]["mslm_ppl_elm"] == pytest.approx(expected["mslm_ppl_elm"], rel=1e-4)


def test_calibrate_command_saves_in_place_or_elsewhere(model, data, tmp_path):
    weights = (model / "mslm" / "weights.safetensors").read_bytes()
    result = run("calibrate", model, data, "--output", tmp_path / "other")
    assert result.returncode == 0, told(result)
    assert mslm(spacy.load(model)).cfg["temperature"] == 1.0
    result = run("calibrate", model, data)
    assert result.returncode == 0, told(result)
    temperatures = {mslm(spacy.load(p)).cfg["temperature"] for p in (model, tmp_path / "other")}
    assert len(temperatures) == 1 and temperatures != {1.0}
    assert (model / "mslm" / "weights.safetensors").read_bytes() == weights
    assert "ECE on DEV before" in told(result)


def test_commands_say_what_is_wrong(model, data, tmp_path):
    spacy.blank("en").to_disk(tmp_path / "bare")
    DocBin(docs=[spacy.blank("en").make_doc("secret words")]).to_disk(tmp_path / "bare.spacy")
    for arguments, message in [
        (("evaluate", tmp_path / "bare", data), "has no mslm pipe; its pipes: none"),
        (("evaluate", model, tmp_path / "bare.spacy"), "holds no gold mention"),
        (("evaluate", model, data, "--train", tmp_path / "no"), "there is no such file"),
        (("calibrate", "en_not_a_folder", data), "is no folder"),
        (("calibrate", model, tmp_path / "bare.spacy"), "nothing to fit a temperature to"),
    ]:
        result = run(*arguments)
        assert result.returncode == 1, told(result)
        assert message in told(result)
        assert "Traceback" not in told(result) and "secret" not in told(result)
    assert mslm(spacy.load(model)).cfg["temperature"] == 1.0


def test_the_first_mslm_pipe_is_found_by_whatever_name(trained):
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("mslm", name="terms", config={"model": {"encoder": "absent"}})
    assert find_mslm(nlp, "x")[0] == "terms"
