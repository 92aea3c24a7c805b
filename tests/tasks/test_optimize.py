"""Pipelines with an encoder for ONNX Runtime: exported, measured, saved, loaded, used."""

import copy
import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import spacy
import torch

from spacy_mslm.model.checkpoints import load_checkpoint
from spacy_mslm.model.fast.int8_embedding import replace_piece_embeddings
from spacy_mslm.model.fast.int8_linear import Int8Linear, replace_linear_layers
from spacy_mslm.model.fast.onnx_encoder import OnnxEncoder
from spacy_mslm.model.fast.onnx_export import export_encoder
from spacy_mslm.model.optimizer import make_adamw
from spacy_mslm.pipeline.saving import safe_save
from spacy_mslm.tasks import Mode, optimize

from ..checkpoints import FAMILIES, NO_ADAPTER, build_checkpoint
from ..commands import run_python, run_spacy
from ..conftest import TEXTS, make_examples
from ..helpers import WORKERS, leave_temporary

SENTENCES = [text for text, _ in TEXTS]


@pytest.fixture
def model(train_once, tmp_path) -> Path:
    """A trained pipeline whose config names a dev set."""
    nlp = train_once(60, masking={"@misc": "spacy_mslm.NoMasking.v1"})
    spacy.tokens.DocBin(docs=[eg.reference for eg in make_examples(nlp)]).to_disk(
        tmp_path / "dev.spacy"
    )
    nlp.config["paths"]["dev"] = str(tmp_path / "dev.spacy")
    safe_save(nlp, tmp_path / "model")
    return tmp_path / "model"


def told(nlp):
    return [[(e.start, e.end, e.label_) for e in doc.ents] for doc in nlp.pipe(SENTENCES)]


def confidences(nlp):
    return [e._.confidence for doc in nlp.pipe(SENTENCES) for e in doc.ents]


@pytest.mark.parametrize("mode", list(Mode))
def test_optimised_pipeline(model, tmp_path, mode):
    before, after = optimize(str(model), tmp_path / "fast", mode, None, 0.5, force=False)
    assert before.f == after.f == 100.0 and after.words_per_second > 0
    nlp, fast = spacy.load(model), spacy.load(tmp_path / "fast")
    assert told(fast) == told(nlp) and any(told(fast))
    tolerance = 1e-4 if mode is Mode.onnx else 0.05
    assert confidences(fast) == pytest.approx(confidences(nlp), abs=tolerance)
    needs_runtime = any("onnxruntime" in line for line in fast.meta.get("requirements", []))
    assert needs_runtime == (mode is not Mode.half)
    # Saved again, and loaded from there.
    fast.to_disk(tmp_path / "again")
    assert told(spacy.load(tmp_path / "again")) == told(nlp)
    copied = spacy.blank("en", config=fast.config)
    copied.from_bytes(fast.to_bytes())
    assert confidences(copied) == confidences(fast)


def test_half_precision_halves_the_files_and_can_be_trained(model, tmp_path):
    leave_temporary(model)
    optimize(str(model), tmp_path / "half", Mode.half, None, 0.5, force=False)
    assert not list((tmp_path / "half").rglob(".*"))
    sizes = [
        (tmp_path / n / "mslm" / "weights.safetensors").stat().st_size for n in ("model", "half")
    ]
    assert sizes[1] < 0.6 * sizes[0]
    nlp = spacy.load(tmp_path / "half")
    encoder = nlp.get_pipe("mslm").shim.network.lm
    assert {p.dtype for p in encoder.parameters()} == {torch.float32}
    assert all(torch.equal(p, p.half().float()) for p in encoder.parameters())
    nlp.update(make_examples(nlp), sgd=make_adamw(1e-3, 1e-2))


def test_copies_and_threads(model, tmp_path):
    optimize(str(model), tmp_path / "fast", Mode.onnx, None, 0.5, force=False)
    nlp = spacy.load(tmp_path / "fast")
    expected = told(nlp)
    for twin in (
        copy.deepcopy(nlp.get_pipe("mslm")),
        pickle.loads(pickle.dumps(nlp.get_pipe("mslm"))),
    ):
        docs = list(twin.pipe(nlp.make_doc(text) for text in SENTENCES))
        assert [[(e.start, e.end, e.label_) for e in doc.ents] for doc in docs] == expected
    with ThreadPoolExecutor(4) as pool:
        assert all(found == expected for found in pool.map(lambda _: told(nlp), range(12)))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers(model, tmp_path, method):
    optimize(str(model), tmp_path / "fast", Mode.onnx, None, 0.5, force=False)
    script = tmp_path / "workers.py"
    script.write_text(WORKERS)
    texts = json.dumps(SENTENCES * 3)
    done = run_python(script, method, tmp_path / "fast", texts, fresh=True)
    assert done.returncode == 0, done.stderr
    alone, spread = json.loads(done.stdout)
    assert [[e[:3] for e in doc] for doc in spread] == [[e[:3] for e in doc] for doc in alone]
    assert any(spread)


def test_what_an_optimised_pipeline_cannot_do(model, tmp_path):
    optimize(str(model), tmp_path / "fast", Mode.onnx, None, 0.5, force=False)
    nlp = spacy.load(tmp_path / "fast")
    with pytest.raises(ValueError, match="cannot be trained"):
        nlp.update(make_examples(nlp), sgd=make_adamw(1e-3, 1e-2))
    scores = nlp.evaluate(make_examples(nlp))
    assert scores["mslm_ppl"] is None and scores["ents_f"] == 1.0
    with pytest.raises(ValueError, match="optimised already"):
        optimize(str(tmp_path / "fast"), tmp_path / "faster", Mode.onnx, None, 0.5, force=False)
    assert not (tmp_path / "faster").exists()


def test_what_loses_too_much_is_not_written(model, tmp_path):
    out = tmp_path / "fast"
    # The loss may not even be 0: the gain would have to be a point.
    with pytest.raises(ValueError, match=r"F1 on .* falls from 100.00 to 100.00"):
        optimize(str(model), out, Mode.onnx_int8, None, max_loss=-1, force=False)
    assert not out.exists()
    optimize(str(model), out, Mode.onnx_int8, None, max_loss=-1, force=True)
    assert told(spacy.load(out))
    with pytest.raises(ValueError, match="already exists"):
        optimize(str(model), out, Mode.onnx_int8, None, max_loss=1, force=False)


def test_command(model, tmp_path):
    command = ("mslm", "optimize", model)
    done = run_spacy(*command, tmp_path / "fast", "--mode", "onnx-int8", fresh=True)
    assert done.returncode == 0, done.stderr
    assert "100.00" in done.stdout and "words/s" in done.stdout
    (tmp_path / "dev.spacy").unlink()
    done = run_spacy(*command, tmp_path / "other")
    assert done.returncode == 1 and "no dev set" in done.stdout
    assert not (tmp_path / "other").exists()


def test_a_graph_that_was_changed_is_refused(model, tmp_path):
    optimize(str(model), tmp_path / "fast", Mode.onnx, None, 0.5, force=False)
    graph = tmp_path / "fast" / "mslm" / "encoder.onnx"
    data = bytearray(graph.read_bytes())
    data[len(data) // 2] ^= 1
    graph.write_bytes(bytes(data))
    with pytest.raises(ValueError, match=r"encoder\.onnx"):
        spacy.load(tmp_path / "fast")


def test_int8_does_not_depend_on_what_else_is_read(model, tmp_path):
    optimize(str(model), tmp_path / "fast", Mode.onnx_int8, None, 0.5, force=False)
    nlp = spacy.load(tmp_path / "fast")
    together = confidences(nlp)
    alone = [e._.confidence for text in SENTENCES for e in nlp(text).ents]
    assert alone == pytest.approx(together, abs=1e-5) and alone


def test_without_onnx_runtime(model, tmp_path):
    optimize(str(model), tmp_path / "fast", Mode.onnx, None, 0.5, force=False)
    code = "import sys; sys.modules['onnxruntime'] = None; import spacy; spacy.load(sys.argv[1])"
    done = run_python("-c", code, tmp_path / "fast")
    assert done.returncode == 1 and "spacy-mslm[onnx]" in done.stderr


@pytest.mark.parametrize("int8", [False, True])
@pytest.mark.parametrize("family", FAMILIES + NO_ADAPTER)
def test_families(family, int8, tmp_path):
    """The graph says what the encoder says, at any number and length of rows."""
    lm, _ = load_checkpoint(str(build_checkpoint(tmp_path, family)))
    graph = OnnxEncoder(export_encoder(lm.eval(), int8), lm.config)
    if int8:
        assert not any(isinstance(module, Int8Linear) for module in lm.modules())
        assert b"MatMulIntegerToFloat" in graph.graph
        replace_linear_layers(lm.base_model)
        replace_piece_embeddings(lm.base_model)
    for rows, width in ((1, 5), (3, 17)):
        ids = torch.randint(5, 30, (rows, width))
        mask = torch.ones_like(ids)
        mask[0, 3:] = 0
        with torch.inference_mode():
            expected = lm.base_model(input_ids=ids, attention_mask=mask)[0]
        found = graph(ids, mask)[0]
        seen = mask.bool()
        torch.testing.assert_close(found[seen], expected[seen], atol=1e-4, rtol=1e-3)
