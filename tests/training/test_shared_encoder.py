"""`configs/shared_encoder.cfg` in the training loops of spaCy and of `spacy mslm train`."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import spacy
from spacy.tokens import DocBin

from spacy_mslm.model.workers import Workers
from spacy_mslm.tasks import train
from spacy_mslm.training import loop

from ..commands import run_spacy
from ..conftest import TEXTS, build_encoder
from .test_resume import STOP, weights

CONFIG = Path(__file__).parents[2] / "configs" / "shared_encoder.cfg"


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """A corpus with entities, types of documents and spans, an encoder, and overrides."""
    root = tmp_path_factory.mktemp("shared")
    (root / "stop.py").write_text(STOP)
    nlp = spacy.blank("en")
    docs = []
    for text, entities in TEXTS * 3:
        doc = nlp.make_doc(text)
        spans = [doc.char_span(start, end, label=label) for start, end, label in entities]
        doc.set_ents(spans)
        doc.spans["sc"] = [span for span in spans if span.label_ == "Chemical"]
        doc.cats = {"FINDING": float(bool(spans)), "PLAN": float(not spans)}
        docs.append(doc)
    DocBin(docs=docs, store_user_data=True).to_disk(root / "train.spacy")
    DocBin(docs=docs[:4], store_user_data=True).to_disk(root / "dev.spacy")
    encoder = build_encoder(root / "encoder", max_position_embeddings=300)
    overrides = {
        "paths.train": str(root / "train.spacy"),
        "paths.dev": str(root / "dev.spacy"),
        "vars.encoder": str(encoder),
        "training.max_steps": 9,
        "training.eval_frequency": 4,
        "training.batcher.size": 4,
        "training.accumulate_gradient": 2,
    }
    return SimpleNamespace(root=root, overrides=overrides)


@pytest.fixture(scope="module")
def whole(work: SimpleNamespace) -> Path:
    """The output of a training without an interruption."""
    train(CONFIG, work.root / "whole", work.overrides)
    return work.root / "whole"


def test_all_components_learn(work: SimpleNamespace, tmp_path: Path) -> None:
    rates = {"learn_rate": 2e-3, "head_learn_rate": 1e-2}
    changes: dict[str, Any] = {f"training.optimizer.{k}.rate": v for k, v in rates.items()}
    changes |= {"training.max_steps": 60, "training.eval_frequency": 60}
    options = [str(w) for k, v in {**work.overrides, **changes}.items() for w in (f"--{k}", v)]
    run_spacy("train", CONFIG, "--output", tmp_path, *options).check_returncode()
    nlp = spacy.load(tmp_path / "model-last")
    scores = nlp.meta["performance"]
    assert scores["ents_f"] > 0.9 and scores["cats_score"] > 0.9 and scores["spans_sc_f"] > 0.9
    # The encoder is in the folder of the mslm pipe only.
    sizes = {
        name: sum(f.stat().st_size for f in (tmp_path / "model-last" / name).rglob("*"))
        for name in nlp.pipe_names
    }
    assert sizes["textcat"] < sizes["mslm"] / 5


def test_the_weights_are_those_after_an_interruption(
    work: SimpleNamespace, whole: Path, tmp_path: Path
) -> None:
    flag = tmp_path / "flag"
    flag.touch()
    stop = {"@callbacks": "tests.stop.v1", "step": 6, "output": str(flag), "kill": False}
    overrides = {**work.overrides, "training.before_update": stop}
    arguments: dict[str, Any] = {"checkpoint_every": 2, "code_path": work.root / "stop.py"}
    with pytest.raises(RuntimeError, match="stopped"):
        train(CONFIG, tmp_path / "output", overrides, **arguments)
    train(CONFIG, tmp_path / "output", overrides, resume=True, **arguments)
    assert weights(tmp_path / "output") == weights(whole)


def test_a_frozen_pipe_keeps_its_weights(
    work: SimpleNamespace, whole: Path, tmp_path: Path
) -> None:
    """A trained `mslm` with new components, as the guide describes."""
    frozen = {
        **work.overrides,
        "components.mslm": {"source": str(whole / "model-last")},
        "training.frozen_components": ["mslm"],
        "training.annotating_components": ["mslm"],
        "initialize.components": {},
    }
    result = train(CONFIG, tmp_path / "output", frozen)
    old, new = (spacy.load(path) for path in (whole / "model-last", result.path))
    for one, other in zip(
        old.get_pipe("mslm").shim.network.parameters(),
        new.get_pipe("mslm").shim.network.parameters(),
        strict=True,
    ):
        assert one.equal(other)
    assert new.meta["performance"]["cats_score"] is not None


def test_several_workers_are_refused(
    work: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "workers", lambda: Workers(0, 2))
    with pytest.raises(ValueError, match="listen to mslm, which several workers cannot train"):
        train(CONFIG, tmp_path / "output", work.overrides)
