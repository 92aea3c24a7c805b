"""A smaller encoder: its layers and pieces are as they were, and every word is known."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file
from tokenizers import BertWordPieceTokenizer
from transformers import (
    AutoModelForMaskedLM,
    AutoTokenizer,
    BertTokenizerFast,
    RobertaConfig,
    RobertaForMaskedLM,
)

from spacy_mslm.model.checkpoints import load_checkpoint, load_encoder, load_fast_tokenizer
from spacy_mslm.model.shrinking import choose_pieces, shrink_tokenizer
from spacy_mslm.tasks import shrink

from ..commands import run_python
from ..conftest import PIECES, build_encoder

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
TEXT = "acute renal failure after aspirin .\nno history of asthma .\n"
SHARED = Path(__file__).parents[3] / "shared"


def tokenizer_of(pieces: list[str], lowercase: bool = True) -> BertTokenizerFast:
    vocabulary = {piece: i for i, piece in enumerate([*SPECIAL, *pieces])}
    backend = BertWordPieceTokenizer(
        vocab=vocabulary, lowercase=lowercase, strip_accents=False
    )._tokenizer
    return BertTokenizerFast(tokenizer_object=backend, do_lower_case=lowercase, strip_accents=False)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(TEXT, encoding="utf8")
    return path


# ---- the vocabulary ----

spellings = st.text("abc", min_size=1, max_size=4)


@given(
    st.sets(st.tuples(st.booleans(), spellings), min_size=1, max_size=25),
    st.integers(0, 30),
    st.lists(st.text("abcd", min_size=1, max_size=12), min_size=1, max_size=20),
    st.data(),
)
def test_no_word_becomes_unknown(pieces, room, words, data) -> None:
    tokenizer = tokenizer_of(sorted({("##" if inside else "") + p for inside, p in pieces}))
    size = len(tokenizer.get_vocab())
    counts = np.array(data.draw(st.lists(st.integers(0, 3), min_size=size, max_size=size)))
    smallest = len(choose_pieces(tokenizer, np.zeros_like(counts), None))
    chosen = choose_pieces(tokenizer, counts, smallest + room)
    assert len(chosen) <= smallest + room
    assert [*SPECIAL] == list(chosen)[:5]
    smaller = shrink_tokenizer(tokenizer, list(chosen))
    assert smaller.get_vocab() == {piece: i for i, piece in enumerate(chosen)}
    for word in words:
        before, after = tokenizer.tokenize(word), smaller.tokenize(word)
        if before != ["[UNK]"]:
            assert "".join(piece.removeprefix("##") for piece in after) == word
        if set(before) <= set(chosen) and not set(chosen) - set(tokenizer.get_vocab()):
            assert after == before


def test_the_most_frequent_pieces_stay() -> None:
    tokenizer = tokenizer_of(["a", "b", "##a", "##b", "ab", "ba", "aa", "##bb"])
    counts = np.zeros(13, dtype=int)
    counts[[9, 10, 12]] = 1, 5, 5  # ab, ba, ##bb
    chosen = choose_pieces(tokenizer, counts, 11)
    assert list(chosen) == [*SPECIAL, "a", "b", "##a", "##b", "ba", "##bb"]
    assert list(chosen.values()) == [*range(9), 10, 12]
    assert "ab" in choose_pieces(tokenizer, counts, None)
    assert "aa" not in choose_pieces(tokenizer, counts, None)
    with pytest.raises(ValueError, match="9 pieces are needed"):
        choose_pieces(tokenizer, counts, 8)


@pytest.mark.parametrize("lowercase", [True, False])
def test_the_settings_of_the_tokenizer_stay(tmp_path: Path, lowercase: bool) -> None:
    pieces = ["A", "##A", "a", "##a", "\u00e9", "##\u00e9", "A\u00e9", "aa"]
    tokenizer = tokenizer_of(pieces, lowercase)
    smaller = shrink_tokenizer(tokenizer, [*SPECIAL, *pieces[:-1]])
    smaller.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    for found in (smaller, load_fast_tokenizer(str(tmp_path))):
        assert found.tokenize("Aé") == (["a", "##é"] if lowercase else ["Aé"])
        assert found.tokenize("aa") == ["a", "##a"]
        ids = found("a")["input_ids"]
        assert found.convert_ids_to_tokens(ids) == ["[CLS]", "a", "[SEP]"]
        assert found.mask_token_id == 4


# ---- the weights ----


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_encoder(tmp_path_factory.mktemp("deep"), num_hidden_layers=4)


def test_the_command_keeps_layers_and_rows(tmp_path: Path, deep: Path, text: Path) -> None:
    output = tmp_path / "small"
    arguments = ["--layers", "0,2,3", "--text", str(text), "--vocab-size", "69"]
    command = ["-m", "spacy", "mslm", "shrink", str(deep), str(output), *arguments]
    found = run_python(*command)
    assert found.returncode == 0, found.stdout
    assert "layers" in found.stdout and "4        3" in found.stdout
    stored = load_file(output / "model.safetensors")
    assert {str(array.dtype) for array in stored.values()} == {"float16"}
    old, tokenizer = load_encoder(str(deep)), AutoTokenizer.from_pretrained(deep)
    new, wordpieces = load_checkpoint(str(output))
    assert new.config.num_hidden_layers == 3
    vocabulary = wordpieces.tokenizer.get_vocab()
    assert len(vocabulary) == new.config.vocab_size == 69
    assert set(PIECES[:5]) < set(vocabulary) and "asthma" in vocabulary
    assert "patient" not in vocabulary
    for k, v in [(0, 0), (1, 2), (2, 3)]:
        for a, b in zip(
            new.bert.encoder.layer[k].parameters(),
            old.bert.encoder.layer[v].parameters(),
            strict=True,
        ):
            assert torch.equal(a, b.half().float())
    at = tokenizer.get_vocab()
    for piece, row in vocabulary.items():
        if piece in at:
            for a, b in [
                (new.get_input_embeddings().weight, old.get_input_embeddings().weight),
                (new.get_output_embeddings().weight, old.get_output_embeddings().weight),
                (new.cls.predictions.bias, old.cls.predictions.bias),
            ]:
                assert torch.equal(a[row], b[at[piece]].half().float())
    assert new.get_input_embeddings().weight is new.get_output_embeddings().weight
    # An ordinary checkpoint, also for transformers.
    assert AutoModelForMaskedLM.from_pretrained(output).config.vocab_size == 69
    assert AutoTokenizer.from_pretrained(output).tokenize("Asthma") == ["asthma"]
    again = run_python(*command)
    assert again.returncode == 1 and "--force" in again.stdout
    assert run_python(*command, "--force").returncode == 0


def test_without_options_only_the_storage_changes(tmp_path: Path, deep: Path) -> None:
    sizes = shrink(str(deep), tmp_path / "half")
    assert sizes.before == sizes.after
    old, new = load_encoder(str(deep)), load_encoder(str(tmp_path / "half"))
    ids = torch.tensor([[2, 7, 8, 4, 3]])
    assert torch.allclose(old(ids).logits, new(ids).logits, atol=1e-2)
    assert load_fast_tokenizer(str(tmp_path / "half")).get_vocab() == {
        piece: i for i, piece in enumerate(PIECES)
    }


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layers": [0, 4]}, "layers 0 to 3"),
        ({"layers": [2, 0]}, "ascending"),
        ({"layers": [1, 1]}, "ascending"),
        ({"layers": []}, "one or more"),
        ({"vocab_size": 50}, "--text"),
        ({"text": ["nowhere.txt"]}, "nowhere.txt"),
        ({"text": ["{text}"], "vocab_size": 20}, "are needed"),
    ],
)
def test_impossible_settings_are_errors(tmp_path, deep, text, settings, message) -> None:
    settings = {**settings, "text": [f.format(text=text) for f in settings.get("text", ())]}
    with pytest.raises(ValueError, match=message):
        shrink(str(deep), tmp_path / "small", **settings)
    assert not (tmp_path / "small").exists()


def test_other_families_are_refused(tmp_path: Path, encoder: Path) -> None:
    shape = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    AutoTokenizer.from_pretrained(encoder).save_pretrained(tmp_path)
    RobertaForMaskedLM(RobertaConfig(vocab_size=57, **shape)).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"family roberta.*works for: bert"):
        shrink(str(tmp_path), tmp_path / "small")


@pytest.mark.skipif(not SHARED.exists(), reason="needs ../shared")
def test_clinical_text_stays_known_to_a_real_encoder(tmp_path: Path, text: Path) -> None:
    encoder = str(SHARED / "encoders" / "biominilm")
    size = 2500
    shrink(encoder, tmp_path / "small", layers=[5], text=[str(text)], vocab_size=size)
    old, new = load_fast_tokenizer(encoder), load_fast_tokenizer(str(tmp_path / "small"))
    with (SHARED / "notes" / "notes.jsonl").open(encoding="utf8") as notes:
        words = {word for _ in range(50) for word in next(notes).split()}
    for word in sorted(words):
        before, after = old.tokenize(word), new.tokenize(word)
        assert before.count("[UNK]") == after.count("[UNK]")
