"""Checkpoints of each family load, agree with transformers, train and round-trip; a broken or
hostile one is refused with a message that says what to do."""

import json
import pickle
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import spacy
import torch
from spacy.tokens import Doc
from transformers import (
    AutoConfig,
    AutoModelForMaskedLM,
    AutoTokenizer,
    BertForMaskedLM,
    ElectraForPreTraining,
    PreTrainedTokenizerFast,
)

from spacy_mslm.model.checkpoints import DTYPE, load_checkpoint, load_encoder
from spacy_mslm.model.mlm_heads import HEADS
from spacy_mslm.model.network import MSLMNetwork
from spacy_mslm.model.optimizer import make_adamw
from spacy_mslm.model.weights import fill_tensors, named_tensors
from spacy_mslm.pieces.collate import pad_rows
from spacy_mslm.pieces.wordpieces import Wordpieces
from spacy_mslm.pipeline.component import MSLM
from spacy_mslm.types import BLM, UNMASKED, PaddedBatch, Row
from spacy_mslm.util.manifest import FOLDER_MANIFEST, signed_folder

from ..checkpoints import (
    BRACKETS,
    FAMILIES,
    NO_ADAPTER,
    build_checkpoint,
    subword_tokenizer,
    wordpiece_tokenizer,
)
from ..conftest import PIECES, TEXTS, build_encoder, make_examples

NLP = spacy.blank("en")
SENTENCES = [text for text, _ in TEXTS]


def edit_json(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def edit_weights(folder: Path, edit: Callable[[dict[str, torch.Tensor]], Any]) -> None:
    path = folder / "model.safetensors"
    tensors = safetensors.torch.load_file(path)
    edit(tensors)
    safetensors.torch.save_file(tensors, path, metadata={"format": "pt"})


def masked_batch(wordpieces: Wordpieces) -> PaddedBatch:
    """Two rows of different lengths and a block of the second alone, each with masked and tagged
    positions."""
    rows = []
    for pieces in wordpieces([NLP.make_doc(text) for text in SENTENCES[:2]]):
        kinds = np.full(len(pieces.ids), UNMASKED, dtype=np.int8)
        kinds[2:6:2] = BLM
        at = np.arange(len(pieces.ids))
        rows.append(Row(pieces.ids, kinds, at, np.zeros_like(at), []))
    batch = pad_rows([rows, rows[1:]], wordpieces)
    first, second = batch.blocks[0].lengths
    assert first != second and len(batch.mask_at) == 6
    return batch


@pytest.fixture
def warnings_of(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[str]]]:
    """What was warned of so far."""
    yield lambda: [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]


# ---- families ----


@pytest.mark.parametrize("family", FAMILIES + NO_ADAPTER)
def test_family(family, tmp_path, make_nlp):
    folder = build_checkpoint(tmp_path, family)
    nlp = make_nlp(model={"encoder": str(folder)})
    pipe: MSLM = nlp.get_pipe("mslm")
    shim = pipe.shim
    assert getattr(shim.network.lm.config, "reference_compile", False) is False
    assert (family in HEADS) == (family in FAMILIES)

    batch = masked_batch(shim.wordpieces)
    projected = []
    decoder = shim.network.lm.get_output_embeddings()
    hook = decoder.register_forward_hook(lambda m, inputs, o: projected.append(inputs[0]))
    with shim.inference() as network:
        outputs = network(batch)
        vectors = torch.cat([network.encode(*block) for block in batch.blocks])
        hook.remove()
        logits = [network.lm(**network._inputs(*block)).logits for block in batch.blocks]
        full = torch.cat([block.flatten(0, 1) for block in logits])
        torch.testing.assert_close(outputs.mlm, full[batch.mask_at])
        # The tagging heads read in training what they read in prediction.
        torch.testing.assert_close(outputs.ed, network.detect(vectors[batch.tag_at]))
    rows = sum(p[..., 0].numel() for p in projected)
    assert rows == (len(batch.mask_at) if family in FAMILIES else len(vectors))

    losses = nlp.update(make_examples(nlp), sgd=make_adamw())
    assert all(np.isfinite(value) for value in losses.values())
    assert losses["mslm_mlm"] > 0
    again = make_nlp(initialize=False, model={"encoder": "absent"}).get_pipe("mslm")
    again.from_bytes(pipe.to_bytes())
    assert again.to_bytes() == pipe.to_bytes()
    docs = [nlp.make_doc(text) for text in SENTENCES]
    for one, other in zip(pipe.predict(docs), again.predict(docs), strict=True):
        assert one.entities == other.entities
        assert np.array_equal(one.bio, other.bio)


@pytest.mark.parametrize("family", ["roberta", "modernbert", "xlm-roberta", "deberta-v2"])
def test_pieces_are_those_of_running_text(family, tmp_path):
    """Byte-level and sentence-piece vocabularies know words by the space before them."""
    tokenizer = subword_tokenizer(family)
    tokenizer.save_pretrained(tmp_path)
    own = Wordpieces.from_tokenizer(tokenizer.backend_tokenizer, mask=0, pad=0, max_length=80)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    for text in [*SENTENCES, "acute renal failure, asthma.", "aspirin"]:
        for wordpieces in (own, Wordpieces.from_json(own.to_json())):
            ids = wordpieces([NLP.make_doc(text)])[0].ids
            assert [*wordpieces.prefix, *ids, *wordpieces.suffix] == loaded(text)["input_ids"]


@pytest.mark.parametrize(
    "family, positions, length",
    # RoBERTa and MPNet count positions from the one after the padding index.
    [("bert", 80, 80), ("roberta", 514, 512), ("mpnet", 514, 512), ("modernbert", 90, 90)],
)
def test_length_from_position_embeddings(family, positions, length, tmp_path, make_nlp):
    """The tokenizers do not say it: their model_max_length is 10^30."""
    folder = build_checkpoint(tmp_path, family, max_position_embeddings=positions)
    assert AutoTokenizer.from_pretrained(folder).model_max_length > 10**20
    wordpieces = load_checkpoint(str(folder))[1]
    assert (wordpieces.max_length, wordpieces.room) == (length, length - 2)

    with pytest.raises(ValueError, match=rf"window of {length - 1} .* to {length - 2} or less"):
        make_nlp(model={"encoder": str(folder), "window": length - 1})
    nlp = make_nlp(model={"encoder": str(folder), "window": length - 2})
    doc = nlp(Doc(nlp.vocab, words=["failure"] * 2 * length))
    assert doc.has_annotation("ENT_IOB")


def test_length_from_tokenizer(tmp_path):
    folder = build_checkpoint(tmp_path, "bert")
    edit_json(folder / "tokenizer_config.json", model_max_length=20)
    assert load_checkpoint(str(folder))[1].max_length == 20


# ---- case ----


@pytest.mark.parametrize(
    "cased, config, lowers",
    [
        (True, None, False),
        (True, {"do_lower_case": True}, True),
        (True, {"do_lower_case": False}, False),
        (False, None, True),
    ],
)
def test_case_of_vocabulary(cased, config, lowers, tmp_path, warnings_of):
    """A folder as of BioBERT: vocabulary, config and weights, no word on the case."""
    words = [*PIECES, *(["Aspirin", "Patient", "The"] if cased else ["xa", "xb", "xc"])]
    folder = build_encoder(tmp_path, vocab_size=len(words))
    for path in folder.glob("*token*.json"):
        path.unlink()
    (folder / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf8")
    if config is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    wordpieces = load_checkpoint(str(folder))[1]
    pieces = [words[i] for i in wordpieces([NLP.make_doc("Aspirin")])[0].ids]
    assert pieces == (["as", "##pirin"] if lowers else ["Aspirin"])
    warned = warnings_of()
    assert len(warned) == (cased and config is None)
    assert all("is cased" in message and str(folder) in message for message in warned)


# ---- heads ----


def without_head(folder: Path, family: str) -> Path:
    """A bare encoder, or an ELECTRA discriminator."""
    build_checkpoint(folder, family)
    if family == "electra":
        torch.manual_seed(0)
        config = AutoConfig.from_pretrained(folder)
        ElectraForPreTraining(config).save_pretrained(folder)
    else:
        AutoModelForMaskedLM.from_pretrained(folder).base_model.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("family", ["bert", "electra", "roberta", "distilbert", "modernbert"])
def test_missing_head_is_made_and_tied(family, tmp_path, make_nlp, warnings_of):
    folder = without_head(tmp_path, family)
    load_checkpoint(str(folder))
    (warned,) = warnings_of()
    assert "no masked-LM head" in warned and str(folder) in warned
    nlp = make_nlp(model={"encoder": str(folder)})
    network: MSLMNetwork = nlp.get_pipe("mslm").shim.network
    embeddings = network.lm.get_input_embeddings().weight
    assert network.lm.get_output_embeddings().weight.data_ptr() == embeddings.data_ptr()
    head = {n: p for n, p in network.lm.named_parameters() if not _is_base(network, n)}
    assert head and all(torch.isfinite(p).all() for p in head.values())
    before = {n: p.detach().clone() for n, p in head.items()}
    nlp.update(make_examples(nlp), sgd=make_adamw())
    nlp.update(make_examples(nlp), sgd=make_adamw())
    assert not any(torch.equal(before[n], p) for n, p in head.items())


def _is_base(network: MSLMNetwork, name: str) -> bool:
    return name.startswith(f"{network.lm.base_model_prefix}.")


def test_complete_checkpoint_is_silent(encoder, warnings_of):
    load_checkpoint(str(encoder))
    assert warnings_of() == []


def test_stored_buffers_are_loaded_too(encoder):
    """Some families keep more than parameters, such as a bias of the final logits."""
    networks = [MSLMNetwork(load_encoder(str(encoder)), 4, 4, 2) for _ in range(2)]
    for value, network in enumerate(networks):
        network.lm.register_buffer("final_logits_bias", torch.full((3,), float(value)))
    fill_tensors(networks[0], named_tensors(networks[1]))
    assert networks[0].lm.final_logits_bias.tolist() == [1.0, 1.0, 1.0]


def test_half_precision_weights_are_loaded_in_full(tmp_path):
    folder = build_encoder(tmp_path)
    BertForMaskedLM.from_pretrained(folder).half().save_pretrained(folder)
    assert json.loads((folder / "config.json").read_text())[DTYPE] == "float16"
    assert {p.dtype for p in load_encoder(str(folder)).parameters()} == {torch.float32}


# ---- broken checkpoints ----

LAYER = "bert.encoder.layer.0.output.dense.weight"


@pytest.mark.parametrize(
    "edit",
    [
        lambda tensors: tensors.pop(LAYER),
        lambda tensors: tensors.update({LAYER: torch.zeros(3, 5)}),
    ],
    ids=["missing", "shape"],
)
def test_encoder_weights_are_never_random(edit, tmp_path):
    folder = build_encoder(tmp_path)
    edit_weights(folder, edit)
    with pytest.raises(ValueError, match=rf"lacks 1 weights.*{LAYER}.*complete checkpoint"):
        load_encoder(str(folder))


def test_missing_folder_or_tokenizer(tmp_path):
    with pytest.raises(ValueError, match=r"absent'.*\n?.*Give a Hugging Face hub name or a local"):
        load_checkpoint(str(tmp_path / "absent"))
    folder = build_encoder(tmp_path / "bare")
    for path in [*folder.glob("*token*.json"), folder / "vocab.txt"]:
        path.unlink()
    with pytest.raises(ValueError, match=r"Could not load a tokenizer.*Put tokenizer\.json"):
        load_checkpoint(str(folder))


def test_tokenizer_of_another_encoder(tmp_path):
    folder = build_encoder(tmp_path, vocab_size=len(PIECES) - 3)
    sizes = rf"has {len(PIECES)} pieces.* for {len(PIECES) - 3}\."
    with pytest.raises(ValueError, match=sizes):
        load_checkpoint(str(folder))


def test_tokenizer_without_mask(tmp_path):
    folder = build_encoder(tmp_path)
    special = {name: token for name, token in BRACKETS.items() if name != "mask_token"}
    tokenizer = wordpiece_tokenizer(folder).backend_tokenizer
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder)
    (folder / "vocab.txt").unlink()
    with pytest.raises(ValueError, match="no mask token"):
        load_checkpoint(str(folder))


# ---- hostile checkpoints ----


class Marker:
    """Unpickling it creates a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return open, (str(self.path), "w")


@pytest.mark.parametrize("zipped", [True, False, None], ids=["zip", "legacy", "pickle"])
def test_pickled_code_is_not_run(zipped, tmp_path):
    folder = build_encoder(tmp_path / "encoder")
    (folder / "model.safetensors").unlink()
    weights = {"bert.embeddings.word_embeddings.weight": Marker(tmp_path / "marker")}
    path = folder / "pytorch_model.bin"
    if zipped is None:
        path.write_bytes(pickle.dumps(weights))
    else:
        torch.save(weights, path, _use_new_zipfile_serialization=zipped)
    with pytest.raises(ValueError, match=r"not loaded\. Convert them .*safetensors"):
        load_encoder(str(folder))
    assert not (tmp_path / "marker").exists()


def test_weights_that_git_did_not_fetch(tmp_path):
    folder = build_encoder(tmp_path)
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(ValueError, match="git lfs pull"):
        load_encoder(str(folder))


def test_plain_pickled_weights_load(tmp_path):
    folder = build_encoder(tmp_path)
    expected = load_encoder(str(folder)).state_dict()
    (folder / "model.safetensors").unlink()
    torch.save(expected, folder / "pytorch_model.bin")
    loaded = load_encoder(str(folder)).state_dict()
    assert loaded.keys() == expected.keys()
    assert all(torch.equal(loaded[name], expected[name]) for name in expected)


@pytest.mark.parametrize("model_type", ["bert", "unheard-of"])
def test_code_of_a_checkpoint_is_not_run(model_type, tmp_path):
    folder = build_encoder(tmp_path / "encoder")
    marker = tmp_path / "marker"
    code = f"open({str(marker)!r}, 'w')\nclass Config: pass\nModel = Tokenizer = Config\n"
    (folder / "custom.py").write_text(code)
    auto = {"AutoConfig": "custom.Config", "AutoModelForMaskedLM": "custom.Model"}
    edit_json(folder / "config.json", auto_map=auto, model_type=model_type)
    auto = {"AutoTokenizer": [None, "custom.Tokenizer"]}
    edit_json(folder / "tokenizer_config.json", auto_map=auto)
    if model_type == "bert":  # transformers has a class of its own for it
        load_checkpoint(str(folder))
    else:
        with pytest.raises(ValueError, match="Could not load the encoder"):
            load_checkpoint(str(folder))
    assert not marker.exists()


# ---- damaged folders, and files elsewhere ----


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file())


def test_each_damaged_file_of_our_own_folders_is_named(tmp_path):
    """As `pretrain` and adaptation write them, with a manifest."""
    with signed_folder(tmp_path / "encoder") as folder:
        build_encoder(folder)
    load_checkpoint(str(tmp_path / "encoder"))
    draw = random.Random(0)
    for path in files_of(tmp_path / "encoder"):
        if path.name == FOLDER_MANIFEST:
            continue
        data = path.read_bytes()
        flipped = bytearray(data)
        flipped[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        for damaged in (bytes(flipped), data[: len(data) // 2], b""):
            path.write_bytes(damaged)
            with pytest.raises(ValueError, match=f"{path.name} was damaged or changed"):
                load_checkpoint(str(tmp_path / "encoder"))
        path.write_bytes(data)
    load_checkpoint(str(tmp_path / "encoder"))


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_damaged_files_of_other_folders_are_an_error_with_a_path(name, tmp_path):
    """Where there is no manifest: whatever the libraries raise."""
    folder = build_encoder(tmp_path)
    data = (folder / name).read_bytes()
    for damaged in (data[: len(data) // 2], data[:5], b"\xff" * 40, b"[1]", b"{}"):
        (folder / name).write_bytes(damaged)
        if name == "tokenizer.json" and damaged == b"{}":
            continue
        with pytest.raises(ValueError, match=re.escape(str(folder))):
            load_checkpoint(str(folder))


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "vocab.txt"])
def test_a_pointer_of_git_lfs_is_called_one(name, tmp_path):
    folder = build_encoder(tmp_path)
    (folder / name).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    with pytest.raises(ValueError, match=rf"{name} is a Git LFS pointer .*git lfs pull"):
        load_checkpoint(str(folder))


@pytest.mark.parametrize("key", ["vocab_file", "tokenizer_file"])
def test_a_setting_names_no_file_outside_the_folder(key, tmp_path):
    folder = build_encoder(tmp_path / "encoder")
    secret = tmp_path / "secret.txt"
    secret.write_text("secret\n[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n")
    (folder / "tokenizer.json").unlink()
    before = (folder / "tokenizer_config.json").read_bytes()
    edit_json(folder / "tokenizer_config.json", **{key: str(secret)})
    with pytest.raises(ValueError, match=f"setting {key} .* outside the checkpoint"):
        load_checkpoint(str(folder))
    # The path of another machine, which some checkpoints have, is not there.
    (folder / "tokenizer_config.json").write_bytes(before)
    edit_json(folder / "tokenizer_config.json", special_tokens_map_file="/gone/map.json")
    load_checkpoint(str(folder))


def test_an_index_of_weights_names_no_file_outside_the_folder(tmp_path):
    folder = build_encoder(tmp_path / "encoder")
    (folder / "model.safetensors").rename(tmp_path / "elsewhere.safetensors")
    index = {"metadata": {}, "weight_map": {"a": "../elsewhere.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ValueError, match="names a file outside its folder"):
        load_checkpoint(str(folder))
