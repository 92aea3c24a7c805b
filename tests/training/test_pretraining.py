"""Plain text -> an encoder: blocks, masks, learning, and going on after a stop."""

import gzip
import json
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file
from spacy.tokens import DocBin, Span
from transformers import AutoModelForMaskedLM, AutoTokenizer

from spacy_mslm.masking.strategies import JointMasking
from spacy_mslm.model.checkpoints import load_checkpoint
from spacy_mslm.pieces.packing import PackedText
from spacy_mslm.text.plain_texts import read_texts
from spacy_mslm.types import Pieces

from ..commands import run_python
from ..helpers import write_terms

ROOT = Path(__file__).parents[2]
SENTENCES = [
    "the patient had acute renal failure after cisplatin .",
    "no history of diabetes mellitus or asthma .",
    "aspirin and heparin were stopped on day three .",
    "follow up in two weeks with the same clinic .",
]


# ---- blocks ----


@st.composite
def documents(draw: st.DrawFn) -> Pieces:
    """Words of 0 to 5 pieces, in sentences, each piece with a number of its own."""
    sizes = draw(st.lists(st.integers(0, 5), min_size=1, max_size=30))
    starts = draw(st.sets(st.integers(0, len(sizes) - 1)))
    token_of = np.repeat(np.arange(len(sizes)), sizes)
    first = draw(st.integers(0, 1000))
    return Pieces(
        np.arange(first, first + len(token_of)),
        token_of,
        [f"w{i}" for i in range(len(sizes))],
        np.array(sorted({0, *starts})),
    )


@given(st.lists(documents(), max_size=8), st.integers(1, 12))
def test_blocks_hold_every_piece_once_in_order(docs: list[Pieces], length: int) -> None:
    packed = PackedText(((doc, []) for doc in docs), length)
    blocks = [packed[i] for i in range(len(packed))]
    assert [i for block in blocks for i in block.ids] == [i for doc in docs for i in doc.ids]
    words = [doc.words[t] for doc in docs for t in doc.token_of]
    assert [b.window.words[t] for b in blocks for t in b.window.token_of] == words
    assert all(0 < len(block.ids) <= length for block in blocks)
    assert packed.n_pieces == len(words)


@given(documents(), st.integers(5, 12), st.data())
def test_blocks_keep_sentences_and_words_whole_where_they_fit(
    doc: Pieces, length: int, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(doc.words) - 1))
    end = data.draw(st.integers(start + 1, len(doc.words)))
    packed = PackedText([(doc, [(start, end)])], length)
    blocks = [packed[i] for i in range(len(packed))]
    block_of = np.repeat(np.arange(len(blocks)), [len(block.ids) for block in blocks])
    bounds = [*doc.starts[doc.sentences], len(doc.ids)]
    for first, last in pairwise(bounds):
        if last - first <= length:
            assert len(set(block_of[first:last])) <= 1
    for token in range(len(doc.words)):  # none has more pieces than a block
        assert len(set(block_of[doc.starts[token] : doc.starts[token + 1]])) <= 1
    # The words of the mention are marked, in whichever blocks they are, and no others.
    marked = [
        block.window.words[token]
        for block in blocks
        for low, high in block.window.mentions
        for token in range(low, high)
    ]
    seen = {w for w in marked if len(np.flatnonzero(doc.token_of == int(w[1:])))}
    assert seen == {f"w{t}" for t in range(start, end) if (doc.token_of == t).any()}


def test_a_block_is_masked_as_a_sentence_is() -> None:
    pieces = Pieces(np.arange(6), np.array([0, 1, 1, 2, 3, 4]), list("abcde"), np.array([0, 3]))
    packed = PackedText([(pieces, [(1, 3)])], 6)
    kinds = JointMasking(1.0, 0.0)(packed[0].window, np.random.default_rng(0))
    assert kinds.tolist() == [0, 2, 2, 2, 0, 0]


# ---- texts ----


def test_texts_of_lines_and_of_records(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n\n two \n", encoding="utf8")
    records = [{"text": "three", "id": 1}, {"text": ""}, {"text": "four\nfive \ud800"}]
    lines = "\n".join(map(json.dumps, records))
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(lines.encode("utf8")))
    found = list(read_texts([tmp_path / "a.txt", tmp_path / "b.jsonl.gz"]))
    assert found == [
        ("a.txt:1", "one"),
        ("a.txt:3", "two"),
        ("b.jsonl.gz:1", "three"),
        ("b.jsonl.gz:3", "four\nfive \ufffd"),
    ]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.jsonl", b'{"text": "qxsecret"}\n{"txt": "qxsecret"}\n', r"a\.jsonl, line 2"),
        ("a.jsonl", b'{"text": "qxsecret"', r"a\.jsonl, line 1"),
        ("a.jsonl", b'["qxsecret"]\n', r"a\.jsonl, line 1"),
        ("a.txt", b"good\n\xff qxsecret\n", r"a\.txt, line 2: not valid UTF-8"),
        (
            "a.txt.gz",
            gzip.compress(b"qxsecret\n" * 9999)[:-20],
            r"a\.txt\.gz, line [0-9]+: the compressed file is truncated",
        ),
        ("a.txt.gz", b"qxsecret\n", r"a\.txt\.gz, line 1: the compressed file is truncated"),
    ],
)
def test_broken_texts_are_refused(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ValueError, match=message) as caught:
        list(read_texts([tmp_path / name]))
    assert "qxsecret" not in str(caught.value)


# ---- the command ----


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("\n".join(SENTENCES * 30), encoding="utf8")
    return path


def command(output: Path, text: Path, **overrides: Any) -> list[str]:
    settings = {
        "pretraining.steps": 20,
        "pretraining.checkpoint_every": 10,
        "pretraining.batch_size": 4,
        "pretraining.length": 24,
        "vars.size": "tiny",
        "vars.vocab_size": 250,
        **overrides,
    }
    arguments = [str(a) for k, v in settings.items() for a in (f"--{k}", v)]
    config = str(ROOT / "configs" / "pretrain.cfg")
    start = ["-m", "spacy", "mslm", "pretrain", config, str(output)]
    return [*start, "--paths.text", str(text), *arguments]


def run(
    output: Path, text: Path, *flags: str, fresh: bool = False, **overrides: Any
) -> subprocess.CompletedProcess[str]:
    return run_python(*command(output, text, **overrides), *flags, fresh=fresh)


def weights(folder: Path) -> dict[str, np.ndarray]:
    return load_file(folder / "model.safetensors")


def same(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


def test_an_encoder_from_nothing_learns_the_text(tmp_path: Path, text: Path) -> None:
    output = tmp_path / "encoder"
    settings = {"pretraining.steps": 120, "pretraining.checkpoint_every": 40}
    settings |= {"pretraining.optimizer.learn_rate.rate": 0.003}
    found = run(output, text, **settings)
    assert found.returncode == 0, found.stderr
    record = json.loads((output / "pretraining.json").read_text())
    assert [row["step"] for row in record["history"]] == [40, 80, 120]
    assert record["history"][-1]["loss"] < 0.5 * record["history"][0]["loss"]
    assert "held-out perplexity" in found.stdout
    assert not (output / "optimizer.safetensors").exists()
    # An ordinary checkpoint, for transformers as for us.
    assert AutoModelForMaskedLM.from_pretrained(output).config.num_hidden_layers == 2
    assert "cisplatin" in AutoTokenizer.from_pretrained(output).tokenize("Cisplatin")
    _, wordpieces = load_checkpoint(str(output))
    assert len(wordpieces([spacy.blank("en")("acute renal failure")])[0].ids) == 3
    tokenizer = AutoTokenizer.from_pretrained(output)
    ids = tokenizer("cisplatin")["input_ids"]
    assert (ids[0], ids[-1], len(ids)) == (tokenizer.cls_token_id, tokenizer.sep_token_id, 3)
    assert (wordpieces.prefix, wordpieces.suffix) == (ids[:1], ids[-1:])
    # Done is done.
    again = run(output, text, **settings)
    assert again.returncode == 0
    assert "Pretraining:" not in again.stderr


def test_a_run_that_is_killed_goes_on_as_if_it_had_not_been(
    tmp_path: Path, text: Path, encoder: Path
) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    # Long enough that it is not over before it is killed.
    settings = {"vars.encoder": encoder, "pretraining.steps": 60}
    assert run(whole, text, **settings).returncode == 0
    process = subprocess.Popen(
        [sys.executable, *command(killed, text, **settings)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while not (killed / "optimizer.safetensors").exists() and process.poll() is None:
        time.sleep(0.001)
    process.kill()
    process.wait()
    assert json.loads((killed / "pretraining.json").read_text())["step"] in (10, 20, 30, 40, 50)
    assert not same(weights(whole), weights(killed))
    assert run(killed, text, **settings).returncode == 0
    assert same(weights(whole), weights(killed))


def test_on_from_a_checkpoint_with_joint_masking(tmp_path: Path, text: Path, encoder: Path) -> None:
    terms = write_terms(tmp_path / "terms.tsv", [("asthma", "disease"), ("aspirin", "drug")])
    output = tmp_path / "encoder"
    found = run(
        output,
        text,
        **{"vars.encoder": encoder, "vars.masking": "${maskings.joint}", "paths.terms": terms},
    )
    assert found.returncode == 0, found.stderr
    record = json.loads((output / "pretraining.json").read_text())
    assert record["history"][-1]["ppl_elm"] is not None
    assert AutoTokenizer.from_pretrained(output).vocab_size == 57
    assert not same(weights(output), weights(encoder))


def test_documents_bring_their_entities(tmp_path: Path, encoder: Path) -> None:
    nlp = spacy.blank("en")
    docs = []
    for sentence in SENTENCES * 30:
        doc = nlp(sentence)
        doc.set_ents([Span(doc, 0, 1, "drug")] if doc[0].text == "aspirin" else [])
        docs.append(doc)
    DocBin(docs=docs).to_disk(tmp_path / "notes.spacy")
    found = run(
        tmp_path / "encoder",
        tmp_path / "notes.spacy",
        **{"vars.encoder": encoder, "vars.masking": "${maskings.joint}", "vars.blm_rate": 0.0},
    )
    assert found.returncode == 0, found.stderr
    (row,) = json.loads((tmp_path / "encoder" / "pretraining.json").read_text())["history"][-1:]
    assert row["ppl_elm"] is not None and row["ppl_blm"] is None


def test_another_pretraining_is_not_taken_for_this_one(tmp_path: Path, text: Path) -> None:
    output = tmp_path / "encoder"
    assert run(output, text, **{"pretraining.steps": 2}).returncode == 0
    other = run(output, text, **{"pretraining.steps": 3})
    assert other.returncode == 1 and "--force" in other.stdout
    before = weights(output)
    text.write_text(text.read_text() + "a new line")
    changed = run(output, text, **{"pretraining.steps": 2})
    assert changed.returncode == 1 and "other input files: settings.text differ" in " ".join(
        changed.stdout.split()
    )
    assert run(output, text, "--force", **{"pretraining.steps": 3}).returncode == 0
    assert not same(weights(output), before)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").write_text("precious")
    refused = run(tmp_path / "mine", text, "--force")
    assert refused.returncode == 1 and "was not made by this step" in refused.stdout
    assert (tmp_path / "mine" / "notes").read_text() == "precious"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"vars.size": "huge"}, "'huge' is not typing.Literal['tiny'"),
        ({"pretraining.length": 600}, "window"),
        ({"pretraining.optimizer.learn_rate.rate": 1e30}, "NaN or infinite loss"),
        ({"paths.text": "nowhere.txt"}, "nowhere.txt"),
        ({"pretraining.length": 128, "paths.text": "{short}"}, "which is too few"),
    ],
)
def test_what_cannot_work_is_said(tmp_path, text, overrides, message) -> None:
    if overrides.get("paths.text") == "{short}":
        text.write_text("one short line\n")
        overrides = {key: value for key, value in overrides.items() if key != "paths.text"}
    found = run(tmp_path / "encoder", text, **overrides)
    assert found.returncode == 1
    assert message in " ".join(found.stdout.split()), found.stdout
