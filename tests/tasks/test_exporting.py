"""Exported pipelines work in transformers and ONNX Runtime, without spaCy."""

import json
from pathlib import Path

import numpy as np
import pytest
import spacy
import torch
from spacy.tokens import DocBin
from transformers import AutoModelForMaskedLM, AutoTokenizer
from transformers import pipeline as hugging_face_pipeline

from spacy_mslm.model.checkpoints import load_checkpoint
from spacy_mslm.model.token_classifier import (
    PipelineHeads,
    fit_linear,
    tag_names,
    tag_probabilities,
)
from spacy_mslm.pipeline.find import find_mslm
from spacy_mslm.tasks import Target, export
from spacy_mslm.tasks.exporting.export import running_tokenizer
from spacy_mslm.util.manifest import check_folder

from ..checkpoints import build_checkpoint
from ..commands import run_spacy
from ..conftest import TEXTS, make_examples

SENTENCES = [text for text, _ in TEXTS]


@pytest.fixture(scope="module")
def pipeline(train_once, tmp_path_factory) -> Path:
    """A trained pipeline, whose config names its texts."""
    folder = tmp_path_factory.mktemp("pipeline")
    nlp = train_once(steps=80)
    docs = [example.reference for example in make_examples(nlp)]
    DocBin(docs=docs).to_disk(folder / "texts.spacy")
    nlp.config["paths"].update({key: str(folder / "texts.spacy") for key in ("train", "dev")})
    nlp.to_disk(folder / "nlp")
    return folder / "nlp"


def entities(path: Path) -> list[list[tuple[int, int, str]]]:
    nlp = spacy.load(path)
    return [[(e.start_char, e.end_char, e.label_) for e in nlp(t).ents] for t in SENTENCES]


def test_masked_lm(pipeline, tmp_path) -> None:
    export(str(pipeline), tmp_path / "mlm")
    check_folder(tmp_path / "mlm")
    _, pipe = find_mslm(spacy.load(pipeline), "")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "mlm")
    inputs = tokenizer(SENTENCES[0], return_tensors="pt")
    (pieces,) = pipe.shim.wordpieces([spacy.blank("en")(SENTENCES[0])])
    assert inputs["input_ids"][0, 1:-1].tolist() == pieces.ids.tolist()
    assert tokenizer.mask_token_id == pipe.shim.wordpieces.mask
    model = AutoModelForMaskedLM.from_pretrained(tmp_path / "mlm").eval()
    with torch.inference_mode():
        expected = pipe.shim.network.lm(**inputs).logits
        torch.testing.assert_close(model(**inputs).logits, expected)
    lm, wordpieces = load_checkpoint(str(tmp_path / "mlm"))  # to train with it again
    assert wordpieces.to_json() and lm.config.vocab_size == pipe.shim.network.lm.config.vocab_size


def test_spacy_transformers_reads_the_encoder(pipeline, tmp_path) -> None:
    pytest.importorskip("spacy_transformers", reason="needs the extra spacy-transformers")
    export(str(pipeline), tmp_path / "mlm")
    nlp = spacy.blank("en")
    model = {
        "@architectures": "spacy-transformers.TransformerModel.v3",
        "name": str(tmp_path / "mlm"),
        "tokenizer_config": {"use_fast": True},
        "get_spans": {"@span_getters": "spacy-transformers.doc_spans.v1"},
    }
    nlp.add_pipe("transformer", config={"model": model})
    nlp.initialize()
    doc = nlp(SENTENCES[0])
    _, pipe = find_mslm(spacy.load(pipeline), "")
    (pieces,) = pipe.shim.wordpieces([doc])
    with pipe.shim.inference() as network:
        ids = np.array([[*pipe.shim.wordpieces.prefix, *pieces.ids, *pipe.shim.wordpieces.suffix]])
        expected = network.encode(ids, np.array([ids.shape[1]]))
    found = torch.from_numpy(doc._.trf_data.model_output.last_hidden_state)
    torch.testing.assert_close(found.flatten(0, 1), expected, rtol=1e-3, atol=1e-4)


def test_classifier_finds_the_same_as_the_pipeline(pipeline, tmp_path) -> None:
    output = tmp_path / "classifier"
    path, agreement = export(str(pipeline), output, Target.hf_token_classification)
    expected = entities(pipeline)
    assert path == output and sum(map(len, expected)) == 6
    assert agreement.token_share == agreement.entity_share == 1 and agreement.entities == 6
    assert json.loads((output / "agreement.json").read_text()) == agreement._asdict()
    run = hugging_face_pipeline(
        "token-classification", model=str(output), aggregation_strategy="first", device="cpu"
    )
    found = [[(e["start"], e["end"], e["entity_group"]) for e in run(text)] for text in SENTENCES]
    assert found == expected


def test_the_onnx_graph_has_the_heads_of_the_pipeline(pipeline, tmp_path) -> None:
    """For each token, the probabilities are those of the pipe; it needs no text to be fitted to."""
    onnxruntime = pytest.importorskip("onnxruntime", reason="needs the extra onnx")
    nlp = spacy.load(pipeline)
    nlp.config["paths"]["train"] = None
    nlp.to_disk(tmp_path / "nlp")
    result = run_spacy("mslm", "export", tmp_path / "nlp", tmp_path / "onnx", "--to", "onnx")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "100.00%" in result.stdout
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "onnx")
    inputs = tokenizer(SENTENCES, padding=True, return_tensors="np")
    session = onnxruntime.InferenceSession(tmp_path / "onnx" / "model.onnx")
    (logits,) = session.run(["logits"], {k: v.astype(np.int64) for k, v in inputs.items()})
    probabilities = torch.from_numpy(logits).softmax(-1).numpy()
    _, pipe = find_mslm(nlp, "")
    docs = [nlp.make_doc(text) for text in SENTENCES]
    documents = pipe.shim.wordpieces(docs)
    for row, pieces, prediction in zip(probabilities, documents, pipe.predict(docs), strict=True):
        found = row[1 + pieces.starts[pieces.tagged]]  # after [CLS]
        sums = np.stack([found[:, [1, 3]].sum(1), found[:, [2, 4]].sum(1), found[:, 0]], axis=1)
        np.testing.assert_allclose(sums, prediction.bio, rtol=1e-3, atol=1e-4)
    names = ["O", "B-Chemical", "I-Chemical", "B-Disease", "I-Disease"]
    config = json.loads((tmp_path / "onnx" / "config.json").read_text())
    assert list(config["id2label"].values()) == names == tag_names(["Chemical", "Disease"])


@pytest.mark.parametrize("architecture", ["spacy_mslm.MSLM.v1", "spacy_mslm.MSLM.v2"])
def test_heads_as_one_layer(make_nlp, architecture) -> None:
    """The same probabilities as those that a linear layer is fitted to."""
    settings = {"classification_size": 100} if architecture.endswith("v1") else {}
    nlp = make_nlp(model={"@architectures": architecture, **settings})
    network = find_mslm(nlp, "")[1].shim.network
    vectors = torch.randn(2, 5, network.hidden_size)
    with torch.inference_mode():
        found = PipelineHeads(network)(vectors).softmax(-1)
        flat = vectors.flatten(0, 1)
        bio = network.detect(flat).reshape(10, -1, 3).softmax(-1)
        types = torch.ones(1, 2) if network.typed else network.classify(flat).softmax(-1)
        expected = tag_probabilities(bio, types, torch.ones(10, dtype=torch.bool))
    torch.testing.assert_close(found.flatten(0, 1), expected)


def test_what_cannot_be_exported_is_said(pipeline, tmp_path) -> None:
    with pytest.raises(ValueError, match=r"no text for the classifier.*--train"):
        nlp = spacy.load(pipeline)
        nlp.config["paths"]["train"] = None
        nlp.to_disk(tmp_path / "no-text")
        export(str(tmp_path / "no-text"), tmp_path / "out", Target.hf_token_classification)
    assert not (tmp_path / "out").exists()
    (tmp_path / "there").mkdir()
    with pytest.raises(ValueError, match="--force"):
        export(str(pipeline), tmp_path / "there")


def test_families_whose_classifier_is_not_linear_are_refused(tmp_path, make_nlp) -> None:
    nlp = make_nlp(model={"encoder": str(build_checkpoint(tmp_path / "e", "modernbert"))})
    docs = [example.reference for example in make_examples(nlp)]
    DocBin(docs=docs).to_disk(tmp_path / "texts.spacy")
    nlp.to_disk(tmp_path / "nlp")
    with pytest.raises(ValueError, match=r"no token classifier .* modernbert .*--to hf-mlm"):
        texts = tmp_path / "texts.spacy"
        arguments = (str(tmp_path / "nlp"), tmp_path / "out", Target.hf_token_classification)
        export(*arguments, train=texts, dev=texts)


@pytest.mark.parametrize("family", ["bert", "roberta", "xlm-roberta", "deberta-v2", "mpnet"])
def test_exported_tokenizer_has_the_pieces_of_the_pipe(family, tmp_path) -> None:
    _, wordpieces = load_checkpoint(str(build_checkpoint(tmp_path, family)))
    tokenizer = running_tokenizer(wordpieces)
    tokenizer.save_pretrained(tmp_path / "again")
    nlp = spacy.blank("en")
    for text in [*SENTENCES, "aspirin", "acute renal failure, asthma."]:
        (pieces,) = wordpieces([nlp.make_doc(text)])
        ids = [*wordpieces.prefix, *pieces.ids, *wordpieces.suffix]
        for own in (tokenizer, AutoTokenizer.from_pretrained(tmp_path / "again")):
            assert own(text)["input_ids"] == ids


def test_probabilities_of_tags() -> None:
    """Of a token of two pieces, with one column, and with one for each type."""
    bio = torch.tensor([[[0.5, 0.2, 0.3]]]).expand(2, 1, 3)
    first = torch.tensor([True, False])
    types = torch.tensor([[0.75, 0.25]]).expand(2, 2)
    found = tag_probabilities(bio, types, first)
    expected = [[0.3, 0.375, 0.15, 0.125, 0.05], [0.3, 0, 0.525, 0, 0.175]]
    torch.testing.assert_close(found, torch.tensor(expected))
    typed = torch.tensor([[[0.9, 0.0, 0.1], [0.0, 0.0, 1.0]]])
    found = tag_probabilities(typed, torch.ones(1, 2), first[:1])
    torch.testing.assert_close(found, torch.tensor([[0.1, 0.9, 0.0, 0.0, 0.0]]))


def test_linear_layer_is_fitted() -> None:
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(400, 6, generator=generator) * torch.arange(1, 7) + 3
    wanted = torch.randn(6, 3, generator=generator)
    tags = torch.nn.functional.one_hot((vectors @ wanted).argmax(1), 3).float()
    layer = fit_linear(vectors, tags)
    assert (layer(vectors).argmax(1) == tags.argmax(1)).float().mean() > 0.98
