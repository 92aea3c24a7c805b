"""Scoring under a protocol: masked text, perplexity, calibration, and the commands for them."""

import json
import math
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import spacy
import srsly
import torch
from spacy.language import Language
from spacy.tokens import Doc, DocBin
from spacy.training import Example

from spacy_mslm.corpus.gold import align_gold
from spacy_mslm.masking.strategies import JointMasking, NoMasking, TokenMasking
from spacy_mslm.pipeline.component import MSLM
from spacy_mslm.pipeline.find import find_mslm
from spacy_mslm.pipeline.saving import safe_save
from spacy_mslm.scoring.calibrate import calibrate_pipe
from spacy_mslm.scoring.masked_protocol import annotate_masked, draw_masks, mask_pieces
from spacy_mslm.scoring.perplexity import document_losses, perplexities, perplexity
from spacy_mslm.tasks import calibrate, evaluate
from spacy_mslm.types import BLM, ELM, UNMASKED
from spacy_mslm.util.manifest import add_manifest

from ..commands import run_spacy
from ..conftest import TEXTS, make_examples
from ..helpers import leave_temporary

BOTH = JointMasking(1.0, 0.3)


@pytest.fixture(scope="module")
def trained(train_once: Callable[..., Language]) -> Language:
    """A pipe that finds the entities of the test texts."""
    return train_once(90, drop=0.1)


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
    pieces = pipe.shim.wordpieces([example.predicted])[0]
    gold = align_gold(example, None)
    kinds = draw_masks(pipe.windows, pieces, gold, BOTH, np.random.default_rng(0))
    assert set(kinds.tolist()) == {UNMASKED, BLM, ELM}
    losses, of_kind = document_losses(pipe.shim, pipe.windows, [(pieces, kinds)], 4096)
    shim = pipe.shim
    ids = [
        *shim.wordpieces.prefix,
        *mask_pieces(pieces, kinds, pipe.shim.wordpieces.mask).ids,
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
    example = Example.from_dict(doc, {"entities": [(16, 35, "Disease")]})
    pieces = pipe.shim.wordpieces([doc])[0]
    assert len(pipe.windows.cover(pieces)) > 3
    gold = align_gold(example, None)
    kinds = draw_masks(pipe.windows, pieces, gold, TokenMasking(1.0), np.random.default_rng(0))
    assert (kinds == BLM).all()
    losses, _ = document_losses(pipe.shim, pipe.windows, [(pieces, kinds)], 4096)
    assert len(losses) == len(pieces.ids)
    assert (
        mask_pieces(pieces, kinds, pipe.shim.wordpieces.mask).ids == pipe.shim.wordpieces.mask
    ).all()


def test_masks_and_losses_of_overlapping_windows_stand_at_their_places(trained):
    """The masks drawn for each window are known: every third piece of the window."""

    def thirds(sequence, generator):
        kinds = np.zeros(len(sequence.token_of), dtype=np.int8)
        kinds[::3] = BLM
        return kinds

    pipe = mslm(trained)
    shim = pipe.shim
    doc = trained.make_doc("the patient had acute renal failure " * 20)
    pieces = shim.wordpieces([doc])[0]
    gold = align_gold(Example.from_dict(doc, {"entities": []}), None)
    kinds = draw_masks(pipe.windows, pieces, gold, thirds, np.random.default_rng(0))
    windows = pipe.windows.cover(pieces)
    assert len(windows) > 3 and any(window.own_start > window.start for window in windows)
    expected_losses = []
    for window in windows:
        for piece in range(window.own_start, window.own_end):
            assert kinds[piece] == (BLM if (piece - window.start) % 3 == 0 else UNMASKED)
        ids = pieces.ids[window.start : window.end].copy()
        at = [p for p in range(window.own_start, window.own_end) if kinds[p]]
        ids[np.array(at) - window.start] = shim.wordpieces.mask
        row = [*shim.wordpieces.prefix, *ids, *shim.wordpieces.suffix]
        with torch.inference_mode():
            logits = shim.network.lm(torch.tensor([row])).logits[0].log_softmax(-1)
        first = len(shim.wordpieces.prefix) - window.start
        expected_losses += [-float(logits[first + p, pieces.ids[p]]) for p in at]
    losses, _ = document_losses(pipe.shim, pipe.windows, [(pieces, kinds)], 4096)
    assert sorted(losses.tolist()) == pytest.approx(sorted(expected_losses), abs=1e-4)


def test_documents_without_gold_are_left_out(trained):
    pipe = mslm(trained)
    bare = trained.make_doc(TEXTS[0][0])
    examples = make_examples(trained)
    expected = perplexity(pipe, examples, BOTH)
    assert perplexity(pipe, [Example(bare, bare.copy()), *examples], BOTH) == expected


def test_the_same_seed_gives_the_same_masks(trained):
    pipe = mslm(trained)
    examples = make_examples(trained)
    first = perplexity(pipe, examples, BOTH, seed=1)
    assert perplexity(pipe, examples, BOTH, seed=1) == first
    assert perplexity(pipe, examples, BOTH, seed=2) != first
    assert set(perplexity(pipe, examples, NoMasking()).values()) == {None}
    assert perplexity(pipe, examples, JointMasking(1.0, 0.0))["mslm_ppl_blm"] is None


def test_annotating_masked_text_reads_no_mention(trained):
    """With nothing masked it is what the pipeline says; with all mentions masked, exchanging the
    words of a mention changes nothing."""
    pipe = mslm(trained)
    plain = make_examples(trained)
    annotate_masked(pipe, plain, NoMasking())
    docs = list(trained.pipe(text for text, _ in TEXTS))
    spans = [[(e.start, e.end, e.label_, e._.confidence) for e in d.ents] for d in docs]
    assert any(spans)
    assert [
        [(e.start, e.end, e.label_, e._.confidence) for e in eg.predicted.ents] for eg in plain
    ] == [[pytest.approx(span) for span in doc] for doc in spans]
    # "aspirin" and "heparin" have two pieces each: exchanged under the mask, nothing is seen of it.
    text, entities = TEXTS[2]
    other = text.replace("aspirin", "x").replace("heparin", "aspirin").replace("x", "heparin")
    bio = []
    for masking in (JointMasking(1.0, 0.0), NoMasking()):
        examples = [
            Example.from_dict(trained.make_doc(words), {"entities": entities})
            for words in (text, other)
        ]
        pipe.token_probabilities = True
        annotate_masked(pipe, examples, masking)
        pipe.token_probabilities = False
        bio.append([example.predicted._.bio_probabilities for example in examples])
    (masked, masked_other), (clean, clean_other) = bio
    assert (masked == masked_other).all()
    assert (clean != clean_other).any() and (masked != clean).any()


def test_score_adds_perplexity_unless_told_not_to(trained):
    pipe = mslm(trained)
    scores = trained.evaluate(make_examples(trained))
    expected = perplexity(pipe, make_examples(trained), JointMasking())
    assert {name: scores[name] for name in expected} == expected
    assert 1 < scores["mslm_ppl_elm"] < math.inf
    json.dumps(scores)
    pipe.score_perplexity = False
    try:
        assert not expected.keys() & trained.evaluate(make_examples(trained)).keys()
    finally:
        pipe.score_perplexity = True


def test_the_masked_protocol_can_be_scored_beside_the_clean_one(trained):
    """Under names of its own, with the clean scores and the documents as they are without it."""
    pipe = mslm(trained)
    clean = trained.evaluate(make_examples(trained))
    masked = make_examples(trained)
    annotate_masked(pipe, masked, JointMasking())
    expected = pipe.score(masked)
    pipe.score_masked = True
    try:
        examples = make_examples(trained)
        scores = trained.evaluate(examples)
    finally:
        pipe.score_masked = False
    for rate in "prf":
        assert scores.pop(f"mslm_masked_{rate}") == expected[f"ents_{rate}"]
    assert expected["ents_f"] < clean["ents_f"]  # it was trained on clean text
    assert {**scores, "speed": 0} == {**clean, "speed": 0}


# ---- calibration ----


def test_calibration_changes_confidences_only_and_is_saved(trained, tmp_path):
    nlp = _reloaded(trained, tmp_path)  # a copy: other tests use the one given
    pipe = mslm(nlp)
    before = [nlp(text).ents for text, _ in TEXTS]
    fit = calibrate_pipe(pipe, make_examples(nlp))
    assert pipe.cfg["calibration"] == fit.calibration.to_dict()
    assert fit.mentions == sum(len(ents) for ents in before)
    after = [nlp(text).ents for text, _ in TEXTS]
    for old, new in zip(before, after, strict=True):
        assert [(e.start, e.end, e.label_) for e in old] == [
            (e.start, e.end, e.label_) for e in new
        ]
        assert [e._.confidence for e in old] != [e._.confidence for e in new] or not old
        assert [e._.confidence for e in old] == [e._.raw_confidence for e in new]
    assert calibrate_pipe(pipe, make_examples(nlp)) == fit
    ents = _reloaded(nlp, tmp_path)(TEXTS[0][0]).ents
    assert [e._.confidence for e in ents] == [e._.confidence for e in after[0]]
    scores = nlp.evaluate(make_examples(nlp))
    assert scores["mslm_ece"] == pytest.approx(fit.error_fitted)
    assert scores["mslm_ece_uncalibrated"] == pytest.approx(fit.error_before, abs=1e-6)
    # A fresh start forgets it.
    nlp.initialize(lambda: make_examples(nlp))
    assert pipe.cfg["calibration"] is None


def _reloaded(nlp: Language, path: Path) -> Language:
    nlp.to_disk(path / "model")
    return spacy.load(path / "model")


def test_confidences_that_are_right_already_are_left_alone(trained, tmp_path):
    """A calibrated pipe whose mentions are right at random: nothing that is fitted to some of the
    documents helps with the others."""
    nlp = _reloaded(trained, tmp_path)
    examples = []
    for i in range(24):
        text, entities = TEXTS[i % 2]
        gold = entities if i // 2 % 2 else [(s, e, "Chemical") for s, e, _ in entities]
        examples.append(Example.from_dict(nlp.make_doc(text), {"entities": gold}))
    # Half of the mentions are right, whatever their evidence: the error is that of the product.
    certain = {"confidence": 0.0, "type": 0.0}
    mslm(nlp).cfg["calibration"] = {"weights": certain, "offset": 0.1, "types": {}}
    fit = calibrate_pipe(mslm(nlp), examples)
    assert fit.error_out_of_fold < fit.error_before
    stored = mslm(nlp).cfg["calibration"]
    with pytest.raises(ValueError, match=r"does not make confidences better: .* over \d+ mentions"):
        calibrate_pipe(mslm(nlp), _contradicting(nlp))
    assert mslm(nlp).cfg["calibration"] == stored


def _contradicting(nlp: Language) -> list[Example]:
    """Two documents, of which one has all mentions right and the other none."""
    (text, entities), (other, _) = TEXTS[0], TEXTS[1]
    return [
        Example.from_dict(nlp.make_doc(text), {"entities": entities}),
        Example.from_dict(nlp.make_doc(other), {"entities": []}),
    ]


@pytest.mark.parametrize("temperature", [None, 1.0, 2.0])
def test_a_pipeline_of_an_earlier_version_has_the_same_confidences(trained, tmp_path, temperature):
    """Its cfg has a temperature, or not even that, and neither calibration nor threshold."""
    raw = [e._.confidence for text, _ in TEXTS for e in trained(text).ents]
    pipe = mslm(_reloaded(trained, tmp_path))
    files = srsly.msgpack_loads(pipe.to_bytes())
    cfg = json.loads(files["cfg"])
    for key in ("calibration", "threshold", "threshold_in_config"):
        del cfg[key]
    if temperature is not None:
        cfg["temperature"] = temperature
    fresh = spacy.load(tmp_path / "model")
    files = {k: v for k, v in files.items() if k != "manifest.json"}
    files["cfg"] = json.dumps(cfg).encode()
    mslm(fresh).from_bytes(srsly.msgpack_dumps(add_manifest(files)))
    found = [e._.confidence for text, _ in TEXTS for e in fresh(text).ents]
    logits = np.log(np.array(raw)) - np.log1p(-np.array(raw))
    assert found == pytest.approx(1 / (1 + np.exp(-logits / (temperature or 1.0))), abs=1e-6)


# ---- the commands ----


run = partial(run_spacy, "mslm", COLUMNS="500")


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
    result = run(
        *("evaluate", model, data, "--train", data),
        *("--output", tmp_path / "x" / "out.json"),
        fresh=True,
    )
    assert result.returncode == 0, told(result)
    report = json.loads((tmp_path / "x" / "out.json").read_text(encoding="utf8"))
    assert report["protocol"] == "clean" and report["gold_positions_visible"] is False
    assert (report["elm_rate"], report["blm_rate"], report["seed"]) == (1.0, 0.075, 0)
    assert report["counts"]["gold"] == 6 and report["counts"]["gold_seen"] == 6
    expected = trained.evaluate(make_examples(trained))
    for name, value in report["scores"].items():
        if name.endswith("_per_type") or name == "mslm_documents":
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
    annotate_masked(mslm(trained), examples, masking, seed=3)
    expected = mslm(trained).score(examples, masking=masking, seed=3)
    assert report["scores"]["ents_f"] == pytest.approx(expected["ents_f"])
    assert report["scores"]["mslm_ppl_elm"] == pytest.approx(expected["mslm_ppl_elm"], rel=1e-4)


def test_evaluate_command_finds_the_threshold_of_a_precision(model, data, tmp_path):
    """A threshold of the pipe changes the scores, but neither the curve nor what is found."""
    nlp = spacy.load(model)
    values = sorted(e._.confidence for text, _ in TEXTS for e in nlp(text).ents)
    mslm(nlp).cfg["threshold"] = values[3]
    nlp.to_disk(model)
    out, plot = tmp_path / "out.json", tmp_path / "curve.png"
    result = run("evaluate", model, data, "--precision", 0.8, "-o", out, "--plot", plot)
    assert result.returncode == 0, told(result)
    report = json.loads(out.read_text(encoding="utf8"))
    assert report["threshold"] == values[3] and report["calibrated"] is False
    assert report["scores"]["ents_r"] == pytest.approx(3 / 6)
    assert [p["threshold"] for p in report["curve"]] == pytest.approx(values)
    assert [p["precision"] for p in report["curve"]] == [1.0] * 6
    assert report["at_precision"][""] == report["curve"][0]
    assert report["at_precision"].keys() == {"", "Chemical", "Disease"}
    assert "precision >= 0.8 threshold P R" in told(result)
    assert f"all {values[0]:.4f} 100.00 100.00" in told(result)
    assert plot.read_bytes().startswith(b"\x89PNG")
    result = run("evaluate", model, data, "-o", out, "--plot", tmp_path / "curve.pdf")
    assert result.returncode == 1 and "must be a .png file" in told(result)


def test_calibrate_command_saves_in_place_or_elsewhere(model, data, tmp_path):
    weights = (model / "mslm" / "weights.safetensors").read_bytes()
    result = run("calibrate", model, data, "--output", tmp_path / "other", fresh=True)
    assert result.returncode == 0, told(result)
    assert mslm(spacy.load(model)).cfg["calibration"] is None
    result = run("calibrate", model, data)
    assert result.returncode == 0, told(result)
    fits = [mslm(spacy.load(p)).cfg["calibration"] for p in (model, tmp_path / "other")]
    assert fits[0] is not None and fits[0] == fits[1]
    assert (model / "mslm" / "weights.safetensors").read_bytes() == weights
    assert "ECE after, documents not fitted to" in told(result)


def test_calibrate_command_leaves_other_files_alone(model, data, tmp_path):
    (model / "README.md").write_text("mine", encoding="utf8")
    before = {p: p.read_bytes() for p in model.rglob("*") if p.is_file()}
    (tmp_path / "taken").mkdir()
    result = run("calibrate", model, data, "-o", tmp_path / "taken")
    assert result.returncode == 1 and "--force to replace it" in told(result)
    assert list((tmp_path / "taken").iterdir()) == []
    assert run("calibrate", model, data, "-o", tmp_path / "taken", "--force").returncode == 0
    assert mslm(spacy.load(tmp_path / "taken")).cfg["calibration"] is not None
    assert run("calibrate", model, data).returncode == 0
    after = {p: p.read_bytes() for p in model.rglob("*") if p.is_file()}
    changed = {p.relative_to(model).as_posix() for p in before if before[p] != after.get(p)}
    manifests = {"mslm/manifest.json", "mslm_manifest.json"}
    assert changed == {"mslm/cfg", *manifests} and before.keys() == after.keys()


def test_calibration_reads_what_earlier_pipes_write(trained, data, tmp_path):
    """A pipe before it that ends sentences where the pipe's own rule does not."""
    nlp = _reloaded(trained, tmp_path)
    nlp.add_pipe("sentencizer", first=True, config={"punct_chars": ["renal", "and", "of"]})
    nlp.to_disk(tmp_path / "both")
    leave_temporary(tmp_path / "both")
    fit, _ = calibrate(str(tmp_path / "both"), data, tmp_path / "calibrated")
    assert not list((tmp_path / "calibrated").rglob(".*"))
    plain, _ = calibrate(str(tmp_path / "model"), data, tmp_path / "plain")
    assert fit != plain


def test_a_pipe_with_a_span_group_is_evaluated_on_it(trained, data, tmp_path):
    nlp = _reloaded(trained, tmp_path)
    config = nlp.config.copy()
    config["components"]["mslm"]["spans_key"] = "terms"
    config.to_disk(tmp_path / "model" / "config.cfg")
    docs = list(DocBin().from_disk(data).get_docs(nlp.vocab))
    for doc in docs:
        doc.spans["terms"] = list(doc.ents)
        doc.ents = []
    DocBin(docs=docs).to_disk(tmp_path / "terms.spacy")
    report = evaluate(str(tmp_path / "model"), tmp_path / "terms.spacy")
    assert report["scores"]["spans_terms_f"] == 1.0
    assert report["counts"]["gold"] == 6


def test_commands_say_what_is_wrong(model, data, tmp_path):
    spacy.blank("en").to_disk(tmp_path / "bare")
    DocBin(docs=[spacy.blank("en").make_doc("secret words")]).to_disk(tmp_path / "bare.spacy")
    contradicting = tmp_path / "contradicting.spacy"
    docs = [example.reference for example in _contradicting(spacy.load(model))]
    DocBin(docs=docs).to_disk(contradicting)
    for arguments, message in [
        (("evaluate", tmp_path / "bare", data), "has no mslm pipe. Its pipes are: none"),
        (("evaluate", model, tmp_path / "bare.spacy"), "holds no gold mention"),
        (("evaluate", model, data, "--train", tmp_path / "no"), "there is no such file"),
        (("evaluate", model, data, "-o", tmp_path), "is a folder, but the scores go to a file"),
        (("calibrate", "en_not_a_folder", data), "is not a folder"),
        (("calibrate", model, tmp_path / "bare.spacy"), "there are 0 in 0"),
        (("calibrate", model, contradicting), "does not make confidences better"),
    ]:
        result = run(*arguments)
        assert result.returncode == 1, told(result)
        assert message in told(result)
        assert "Traceback" not in told(result) and "secret" not in told(result)
    assert mslm(spacy.load(model)).cfg["calibration"] is None


def test_the_mslm_pipe_is_found_by_whatever_name():
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("mslm", name="terms", config={"model": {"encoder": "absent"}})
    assert find_mslm(nlp, "x")[0] == "terms"
    nlp.add_pipe("mslm", name="more", config={"model": {"encoder": "absent"}})
    with pytest.raises(ValueError, match=r"x has several mslm pipes \(terms, more\)"):
        find_mslm(nlp, "x")


@pytest.mark.parametrize("labelled", [False, True])
def test_broken_entities_are_told_without_text(labelled, model, tmp_path):
    """Inside of an entity that begins nowhere: spaCy's message quotes the document."""
    nlp = spacy.load(model)
    doc = Doc(nlp.vocab, words=["secretname", "heart", "failure"])
    label = nlp.vocab.strings["Disease"] if labelled else 0
    doc.from_array(
        ["ENT_IOB", "ENT_TYPE"], np.array([[2, 0], [1, label], [1, label]], dtype=np.uint64)
    )
    data = tmp_path / "broken.spacy"
    DocBin(attrs=["ORTH", "ENT_IOB", "ENT_TYPE"], docs=[doc]).to_disk(data)
    for arguments in (
        ("evaluate", model, data),
        ("calibrate", model, data),
        ("pmi", data, tmp_path / "pmi.txt", "--overlap"),
    ):
        result = run(*arguments)
        assert result.returncode == 1 and "secretname" not in told(result)
        assert "broken.spacy:0, token 1: the token is inside an entity" in told(result)
