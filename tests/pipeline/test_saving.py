"""What is saved comes back bit by bit, what was damaged is refused, what was there before stays
until the new is complete, and no text of the training set is in any file."""

import io
import json
import multiprocessing
import os
import random
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import spacy
import srsly
import torch
from spacy.language import Language
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Example
from spacy.training.initialize import init_nlp
from spacy.training.loop import train as train_loop
from spacy.util import load_config
from thinc.api import Adam

from spacy_mslm.model import shim
from spacy_mslm.model.optimizer import make_adamw
from spacy_mslm.model.schedules import StepSchedule
from spacy_mslm.model.weights import ENCODER, HEADS, WEIGHTS, WORDPIECES, read_tensors
from spacy_mslm.pipeline.component import MSLM
from spacy_mslm.pipeline.saving import safe_save
from spacy_mslm.util import manifest
from spacy_mslm.util.files import replaced_folder
from spacy_mslm.util.manifest import MANIFEST, add_manifest

from ..conftest import TEXTS, build_encoder, make_examples
from ..helpers import answers, train

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
SENTENCES = [text for text, _ in TEXTS]
FILES = (ENCODER, HEADS, WEIGHTS, WORDPIECES)


@pytest.fixture
def trained(make_nlp: Callable[..., Language]) -> Language:
    nlp = make_nlp(token_probabilities=True)
    train(nlp, steps=30)
    assert any(doc.ents for doc in nlp.pipe(SENTENCES))
    return nlp


def content(folder: Path) -> dict[str, bytes]:
    """All files of a folder, by their paths in it."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def weights(nlp: Language) -> dict[str, torch.Tensor]:
    network = nlp.get_pipe("mslm").shim.network
    return {name: p.detach().clone() for name, p in network.named_parameters()}


def spoil(nlp: Language, name: str = "lm.bert.embeddings.word_embeddings.weight") -> None:
    """Set one weight to NaN."""
    network = nlp.get_pipe("mslm").shim.network
    with torch.no_grad():
        network.get_parameter(name).view(-1)[:64] = float("nan")


# ---- round trips ----


def _by_bytes(nlp: Language, fresh: Language, folder: Path) -> Language:
    fresh.get_pipe("mslm").from_bytes(nlp.get_pipe("mslm").to_bytes())
    return fresh


def _by_disk(nlp: Language, fresh: Language, folder: Path) -> Language:
    nlp.get_pipe("mslm").to_disk(folder)
    fresh.get_pipe("mslm").from_disk(folder)
    return fresh


def _by_pipeline(nlp: Language, fresh: Language, folder: Path) -> Language:
    nlp.to_disk(folder)
    return spacy.load(folder)


@pytest.mark.parametrize("route", [_by_bytes, _by_disk, _by_pipeline])
def test_round_trip_is_exact_and_needs_no_encoder(route, make_nlp, tmp_path):
    encoder = build_encoder(tmp_path / "encoder")
    model = {"encoder": str(encoder)}
    nlp = make_nlp(model=model, token_probabilities=True)
    train(nlp, steps=30)
    expected = answers(nlp.pipe(SENTENCES))
    assert any(entities for entities, _ in expected)
    shutil.rmtree(encoder)
    fresh = make_nlp(initialize=False, model=model, token_probabilities=True)
    again = route(nlp, fresh, tmp_path / "saved")
    assert answers(again.pipe(SENTENCES)) == expected
    assert again.get_pipe("mslm").cfg == nlp.get_pipe("mslm").cfg
    assert train(again, steps=1)[0]["mslm"] > 0


# ---- checksums ----


def assert_refused(pipe: MSLM, folder: Path, message: str) -> None:
    """Nothing of a refused folder gets into the pipe."""
    cfg, network = dict(pipe.cfg), pipe.shim.network
    with pytest.raises(ValueError, match=message):
        pipe.from_disk(folder)
    assert pipe.cfg == cfg and pipe.shim.network is network


@pytest.mark.parametrize("block", [manifest.BLOCK, 1000])
def test_every_flipped_bit_is_found(block, trained, tmp_path, monkeypatch):
    monkeypatch.setattr(manifest, "BLOCK", block)
    pipe = trained.get_pipe("mslm")
    pipe.to_disk(tmp_path)
    assert set(content(tmp_path)) == {"cfg", MANIFEST, *FILES}
    draw = random.Random(0)
    for name, data in content(tmp_path).items():
        # A manifest that names another file is refused for that one.
        named = "the file " if name == MANIFEST else f"the file {name} was damaged or changed"
        for bit in draw.sample(range(8 * len(data)), k=60):
            flipped = bytearray(data)
            flipped[bit // 8] ^= 1 << bit % 8
            (tmp_path / name).write_bytes(flipped)
            assert_refused(pipe, tmp_path, named)
        (tmp_path / name).write_bytes(data)
    pipe.from_disk(tmp_path)


def test_truncated_and_missing_files_are_named(trained, tmp_path):
    pipe = trained.get_pipe("mslm")
    pipe.to_disk(tmp_path)
    for name, data in content(tmp_path).items():
        (tmp_path / name).write_bytes(data[: len(data) // 2])
        assert_refused(pipe, tmp_path, f"the file {name} was damaged")
        (tmp_path / name).unlink()
        assert_refused(pipe, tmp_path, f"the file {name} is missing")
        (tmp_path / name).write_bytes(data)
    files = add_manifest({"cfg": b"{}"})
    for name in files:
        packed = srsly.msgpack_dumps({k: v for k, v in files.items() if k != name})
        with pytest.raises(ValueError, match=f"the file {name} is missing"):
            pipe.from_bytes(packed)


@pytest.mark.parametrize("name", ["../outside", "{absolute}", "inner/file", "..", "."])
def test_forged_manifest_reaches_no_other_file(name, trained, tmp_path):
    """Neither read nor written, though the sum is right."""
    pipe = trained.get_pipe("mslm")
    folder = tmp_path / "pipe"
    pipe.to_disk(folder)
    (folder / "inner").mkdir()
    for path in (tmp_path / "outside", folder / "inner" / "file"):
        path.write_bytes(b"x")
    name = name.format(absolute=tmp_path / "outside")
    files = {k: v for k, v in content(folder).items() if k in ("cfg", *FILES)}
    forged = add_manifest({**files, name: b"x"})
    (folder / MANIFEST).write_bytes(forged[MANIFEST])
    before = content(tmp_path)
    assert_refused(pipe, folder, "the file ")
    again = srsly.msgpack_dumps({**forged, name: b"written"})
    with pytest.raises(ValueError, match="the file "):
        pipe.from_bytes(again)
    assert content(tmp_path) == before


def test_files_that_do_not_fit_each_other(make_nlp):
    pipe, other = (make_nlp(model={"detection_size": k}).get_pipe("mslm") for k in (8, 9))
    files, foreign = (p.shim.to_files() for p in (pipe, other))
    cases: list[tuple[dict[str, bytes], str]] = [
        ({"weights.safetensors": foreign["weights.safetensors"]}, r"2 are .*detection\.vector"),
        ({"weights.safetensors": b"none"}, "Could not read the stored model"),
        ({"heads.json": b"[]"}, "Could not read the stored model"),
        ({"encoder.json": b"{"}, "Could not read the stored model"),
        ({"encoder.json": b"{}"}, "no model_type"),
        ({"wordpieces.json": b"{}"}, "Could not read the stored wordpieces"),
    ]
    for changed, message in cases:
        mixed = srsly.msgpack_dumps(add_manifest({**files, **changed}))
        with pytest.raises(ValueError, match=message):
            pipe.from_bytes(mixed)


def test_tensors_are_read_as_safetensors_does():
    tensors = {
        "a": torch.randn(3, 5),
        "none": torch.zeros(0, 4),
        "scalar": torch.tensor(2.0),
        "ids": torch.arange(7),
    }
    data = safetensors.torch.save(tensors, metadata={"format": "pt"})
    found = read_tensors(data)
    expected = safetensors.torch.load(data)
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, rtol=0, atol=0)


@pytest.mark.parametrize(
    "change", [{"dtype": "F64"}, {"shape": [99]}, {"data_offsets": [0, 10**6]}]
)
def test_tensors_that_are_not_what_they_say(change, make_nlp):
    pipe = make_nlp().get_pipe("mslm")
    files = pipe.shim.to_files()
    data = files[WEIGHTS]
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    header["detection.vector"].update(change)
    forged = json.dumps(header).encode()
    files[WEIGHTS] = len(forged).to_bytes(8, "little") + forged + data[8 + size :]
    with pytest.raises(ValueError, match="Could not read the stored model"):
        pipe.from_bytes(srsly.msgpack_dumps(add_manifest(files)))


# ---- safe_save ----

MARKERS = ["zarquonowski", "Zarquonowski", "mrn4711zz"]


def test_no_training_text_is_saved(make_nlp, tmp_path):
    """And spaCy's own components, which look up their labels by hash, work as before."""
    nlp = make_nlp(initialize=False, spans_key="found")
    for name in ("tagger", "morphologizer", "trainable_lemmatizer", "ner"):
        nlp.add_pipe(name)
    ruler = nlp.add_pipe("entity_ruler", config={"overwrite_ents": True})
    patterns = [
        {"label": "CLINIC", "pattern": [{"LOWER": "same"}, {"LOWER": "clinic"}], "id": "c1"},
        {"label": "TIME", "pattern": "two weeks"},
    ]
    examples = []
    for text, spans in TEXTS:
        doc = nlp.make_doc(f"{text} {' '.join(MARKERS)}")
        annotation = {
            "entities": spans,
            "spans": {"found": spans},
            "tags": [f"TAG{i % 3}" for i in range(len(doc))],
            "morphs": [f"Number={'Sing' if i % 2 else 'Plur'}" for i in range(len(doc))],
            "lemmas": [token.lower_.removesuffix("s") for token in doc],
        }
        examples.append(Example.from_dict(doc, annotation))
    nlp.initialize(lambda: examples)
    ruler.add_patterns(patterns)
    for _ in range(10):
        nlp.update(examples)
    texts = [*SENTENCES, "the clinics stopped aspirin in two weeks at the same clinic ."]
    expected = [nlp(text).to_json() for text in texts]
    assert any(found["ents"] for found in expected) and expected[-1]["tokens"][0]["tag"]

    safe_save(nlp, tmp_path / "model")
    files = content(tmp_path / "model")
    assert "vocab/strings.json" in files
    for name, data in files.items():
        for marker in MARKERS:
            assert marker.encode("utf8") not in data, name
    assert all(marker in nlp.vocab.strings for marker in MARKERS)
    again = spacy.load(tmp_path / "model")
    assert [again(text).to_json() for text in texts] == expected
    assert again.get_pipe("mslm").labels == ("Chemical", "Disease")


def _save_for_ever(pipelines: list[Language], path: Path, saved: Any) -> None:
    while True:
        for nlp in pipelines:
            safe_save(nlp, path)
            saved.value += 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills a forked process")
def test_killed_saves_leave_a_pipeline(make_nlp, tmp_path):
    """kill -9 at random moments while two pipelines take turns at one path."""
    pipelines = []
    for label in ("First", "Second"):
        nlp = make_nlp(initialize=False)
        examples = [Example.from_dict(nlp.make_doc("a b"), {"entities": [(0, 1, label)]})]
        nlp.initialize(lambda examples=examples: examples)
        pipelines.append(nlp)
    path = tmp_path / "model"
    fork = multiprocessing.get_context("fork")
    draw = random.Random(0)
    for _ in range(8):
        saved = fork.Value("i", 0)
        saver = fork.Process(target=_save_for_ever, args=(pipelines, path, saved))
        saver.start()
        while saved.value < 2:
            assert saver.is_alive()
            time.sleep(0.01)
        time.sleep(draw.uniform(0, 0.2))
        os.kill(saver.pid, signal.SIGKILL)
        saver.join()
        nlp = spacy.load(path)
        assert nlp.get_pipe("mslm").labels in (("First",), ("Second",))
        nlp("a b")
    # What the killed processes left is removed by the next one.
    safe_save(pipelines[0], path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]


_watched: dict[str, Any] = {"folder": None, "found": []}


def _look_for_markers(event: str, arguments: tuple) -> None:
    """At each file that is opened, search all files that are there at that moment."""
    folder, _watched["folder"] = _watched["folder"], None  # not while it searches
    if folder is not None and event == "open":
        for name, data in content(folder).items():
            if any(marker.encode("utf8") in data for marker in MARKERS):
                _watched["found"].append(name)
    _watched["folder"] = folder


@pytest.mark.skipif(os.name != "posix", reason="has other permissions")
def test_unfinished_save_has_no_training_text_and_is_private(make_nlp, tmp_path):
    """At no moment, so a process may be killed at any."""
    nlp = make_nlp()
    nlp.make_doc(" ".join(MARKERS))
    modes = []

    class Watcher:
        def __call__(self, doc: Doc) -> Doc:
            return doc

        def to_disk(self, path: Path, exclude: Iterable[str] = ()) -> None:
            modes.append(path.parent.stat().st_mode & 0o777)

    nlp.add_pipe("test_saving_unsavable")
    nlp._components[-1] = ("test_saving_unsavable", Watcher())
    sys.addaudithook(_look_for_markers)
    _watched["folder"] = tmp_path
    try:
        safe_save(nlp, tmp_path / "model")
    finally:
        _watched["folder"] = None
    assert modes == [0o700] and _watched["found"] == []
    assert (tmp_path / "model" / "vocab" / "strings.json").is_file()
    assert (tmp_path / "model").stat().st_mode & 0o777 == 0o777 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere two renames")
def test_replaced_folder_is_never_gone(tmp_path):
    """Not for a moment: a pipeline may be loaded at any time, by anyone."""
    path = tmp_path / "model"
    with replaced_folder(path) as temporary:
        (temporary / "file").write_text("0")
    missing, done = [], threading.Event()

    def watch() -> None:
        while not done.is_set():
            missing.append(not path.is_dir())

    watcher = threading.Thread(target=watch)
    watcher.start()
    for i in range(100):
        with replaced_folder(path) as temporary:
            (temporary / "file").write_text(str(i))
    done.set()
    watcher.join()
    assert len(missing) > 100 and not any(missing)
    assert content(tmp_path) == {"model/file": b"99"}


class Unsavable:
    def __call__(self, doc: Doc) -> Doc:
        return doc

    def to_disk(self, path: Path, exclude: Iterable[str] = ()) -> None:
        raise OSError("disk full")


@Language.factory("test_saving_unsavable")
def make_unsavable(nlp: Language, name: str) -> Unsavable:
    return Unsavable()


def test_failed_save_leaves_the_old_pipeline(make_nlp, tmp_path):
    nlp = make_nlp()
    safe_save(nlp, tmp_path / "model")
    before = content(tmp_path)
    nlp.add_pipe("test_saving_unsavable")
    with pytest.raises(OSError, match="disk full"):
        safe_save(nlp, tmp_path / "model")
    assert content(tmp_path) == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]
    spacy.load(tmp_path / "model")


def test_a_link_stays_a_link(make_nlp, tmp_path):
    nlp = make_nlp()
    (tmp_path / "runs" / "1").mkdir(parents=True)
    (tmp_path / "latest").symlink_to(tmp_path / "runs" / "1")
    safe_save(nlp, tmp_path / "latest")
    assert (tmp_path / "latest").is_symlink()
    spacy.load(tmp_path / "runs" / "1")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["latest", "runs"]
    assert [p.name for p in (tmp_path / "runs").iterdir()] == ["1"]


def test_weights_that_are_not_numbers_are_not_saved(make_nlp, tmp_path, caplog):
    nlp = make_nlp()
    safe_save(nlp, tmp_path / "model")
    before = content(tmp_path)
    spoil(nlp)
    safe_save(nlp, tmp_path / "model")
    assert content(tmp_path) == before
    (record,) = [r for r in caplog.records if r.levelname == "ERROR"]
    assert "The weights of mslm are NaN or infinite" in record.getMessage()
    with pytest.raises(ValueError, match=r"weights of mslm .*nothing was saved"):
        safe_save(nlp, tmp_path / "new")
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]


def test_training_loop_saves_safely(encoder, tmp_path):
    nlp = spacy.blank("en")
    corpus = tmp_path / "corpus.spacy"
    docs = []
    for example in make_examples(nlp):
        words = [token.text for token in example.reference]
        doc = Doc(nlp.vocab, words=[*words, MARKERS[0]])
        doc.ents = [Span(doc, e.start, e.end, e.label_) for e in example.reference.ents]
        docs.append(doc)
    DocBin(docs=docs).to_disk(corpus)
    overrides = {
        "paths.train": str(corpus),
        "paths.dev": str(corpus),
        "vars.encoder": str(encoder),
        "components.mslm.model.window": 40,
        "components.mslm.model.context": 8,
        "training.max_steps": 4,
        "training.eval_frequency": 2,
    }
    live = init_nlp(load_config(CONFIGS / "mslm.cfg", overrides=overrides))
    train_loop(live, tmp_path / "out", stdout=io.StringIO(), stderr=io.StringIO())
    assert {p.name for p in (tmp_path / "out").iterdir()} == {"model-best", "model-last"}
    assert MARKERS[0] in live.vocab.strings
    for name in ("model-best", "model-last"):
        files = content(tmp_path / "out" / name)
        assert not any(MARKERS[0].encode("utf8") in data for data in files.values())
        assert spacy.load(tmp_path / "out" / name).get_pipe("mslm").labels
    last = spacy.load(tmp_path / "out" / "model-last")
    for text in SENTENCES:
        assert last(text).to_json() == live(text).to_json()


# ---- training that goes wrong ----


@pytest.mark.parametrize(
    "name, term",
    [
        ("lm.bert.embeddings.word_embeddings.weight", "mlm"),
        ("detection.output.weight", "ed"),
        ("classification.output.weight", "el"),
    ],
)
def test_loss_that_is_not_a_number_stops(name, term, make_nlp):
    nlp = make_nlp()
    train(nlp, steps=2)
    spoil(nlp, name)
    before = weights(nlp)
    with pytest.raises(ValueError, match=f"NaN or infinite loss mslm_{term} at step 2"):
        train(nlp, steps=1)
    for key, tensor in weights(nlp).items():
        torch.testing.assert_close(tensor, before[key], rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("optimizer", [make_adamw(), Adam(0.001)], ids=["AdamW", "thinc"])
def test_gradient_that_is_not_finite_takes_no_step(optimizer, early, make_nlp, monkeypatch):
    monkeypatch.setattr(shim, "is_checked_early", lambda device: early)
    nlp = make_nlp(loss_weights={"mlm": 1.0, "ed": 1e300, "el": 1.0})
    before = weights(nlp)
    with pytest.raises(ValueError, match="NaN or infinite gradient"):
        nlp.update(make_examples(nlp), sgd=optimizer)
    assert all(torch.equal(tensor, before[key]) for key, tensor in weights(nlp).items())
    # It is not left behind for the next step either.
    nlp.get_pipe("mslm").loss_weights["ed"] = StepSchedule("ed", 1.0)
    nlp.update(make_examples(nlp), sgd=optimizer)
    assert nlp.get_pipe("mslm").shim.is_finite()
