"""Tiny checkpoints of each family of encoders, with a tokenizer of its kind."""

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    AutoConfig,
    AutoModelForMaskedLM,
    BertTokenizerFast,
    PreTrainedTokenizerFast,
    RobertaTokenizerFast,
)

from .conftest import PIECES, TEXTS

SENTENCES = [text for text, _ in TEXTS]
SHAPE = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 80,
}
SHAPES: dict[str, dict[str, Any]] = {
    "distilbert": {**SHAPE, "hidden_dim": 64, "n_layers": 2},
    "electra": {**SHAPE, "embedding_size": 16},
}
FAMILIES = ["bert", "roberta", "xlm-roberta", "electra", "distilbert", "modernbert"]
FAMILIES += ["roberta-prelayernorm"]
NO_ADAPTER = ["mpnet", "deberta-v2"]

BRACKETS = {f"{name}_token": f"[{name.upper()}]" for name in ("cls", "pad", "sep", "unk", "mask")}
ANGLES = {
    "cls_token": "<s>",
    "pad_token": "<pad>",
    "sep_token": "</s>",
    "unk_token": "<unk>",
    "mask_token": "<mask>",
}


def byte_level(special: dict[str, str]) -> Tokenizer:
    """As RoBERTa and ModernBERT have them."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=list(special.values()),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    return tokenizer


def sentence_piece(special: dict[str, str], normalizer: Any, *pre: Any) -> Tokenizer:
    """As transformers converts them; families differ in how they strip white space."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*pre, pre_tokenizers.Metaspace()])
    trainer = trainers.UnigramTrainer(
        vocab_size=120, special_tokens=list(special.values()), unk_token=special["unk_token"]
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    return tokenizer


def subword_tokenizer(family: str) -> PreTrainedTokenizerFast:
    special = ANGLES if "roberta" in family else BRACKETS
    if family == "xlm-roberta":
        normalizer = normalizers.Replace("``", '"')
        tokenizer = sentence_piece(special, normalizer, pre_tokenizers.WhitespaceSplit())
    elif family == "deberta-v2":
        tokenizer = sentence_piece(special, normalizers.Strip())
    else:
        tokenizer = byte_level(special)
    cls, sep = special["cls_token"], special["sep_token"]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{cls} $A {sep}",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in (cls, sep)],
    )
    wrapper = RobertaTokenizerFast if family == "roberta" else PreTrainedTokenizerFast
    return wrapper(tokenizer_object=tokenizer, **special)


def wordpiece_tokenizer(folder: Path) -> BertTokenizerFast:
    (folder / "vocab.txt").write_text("\n".join(PIECES) + "\n", encoding="utf8")
    return BertTokenizerFast.from_pretrained(folder)


def build_checkpoint(folder: Path, family: str, **config: Any) -> Path:
    """A tiny random checkpoint of a family, with a tokenizer of its kind."""
    if "roberta" in family or family in ("modernbert", "deberta-v2"):
        tokenizer = subword_tokenizer(family)
    else:
        tokenizer = wordpiece_tokenizer(folder)
    tokenizer.save_pretrained(folder)
    ids = {f"{n}_token_id": getattr(tokenizer, f"{n}_token_id") for n in ("pad", "cls", "sep")}
    shape = {**SHAPES.get(family, SHAPE), "vocab_size": len(tokenizer), **ids, **config}
    torch.manual_seed(0)
    model = AutoModelForMaskedLM.from_config(AutoConfig.for_model(family, **shape))
    model.save_pretrained(folder)
    return folder
