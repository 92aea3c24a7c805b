"""A smaller encoder from a larger one: fewer layers, and only the wordpieces that a text uses.

    layers       0  1  2  3  4  5          vocabulary   aspirin  ##osis  ##o  ##s  zebra  ...
    keep 0 2 5   0     2        5          keep         aspirin  ##osis  ##o  ##s

The weights that remain are the same, so the result is a start for training and not yet a good
encoder. `pretrain` with a teacher (`--paths.teacher`) is the next step.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import AutoConfig, PreTrainedModel, PreTrainedTokenizerFast

from .checkpoints import build_encoder

FAMILIES = ("bert",)
# The weights with one row for each piece: embeddings, and the output of the masked-LM head.
ROWS = (
    "bert.embeddings.word_embeddings.weight",
    "cls.predictions.decoder.weight",
    "cls.predictions.decoder.bias",
    "cls.predictions.bias",
)
LAYER = "bert.encoder.layer."
CONTINUED = "##"


def check_family(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, name: str) -> None:
    """Raise a ValueError if encoders of this family cannot be made smaller."""
    spec = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    family, vocabulary = model.config.model_type, spec["type"]
    if (
        family not in FAMILIES
        or vocabulary != "WordPiece"
        or spec["continuing_subword_prefix"] != CONTINUED
    ):
        raise ValueError(
            f"The encoder {name!r} (family {family}, vocabulary {vocabulary}) cannot be made "
            f"smaller. This works for: {', '.join(FAMILIES)}, with a WordPiece vocabulary."
        )


def choose_pieces(
    tokenizer: PreTrainedTokenizerFast, counts: np.ndarray, size: int | None
) -> dict[str, int]:
    """Choose the pieces of a smaller vocabulary: those that are needed and the most frequent.

    Special pieces are needed, and so is each character of the vocabulary, both at the start of a
    word (`a`) and inside (`##a`): whatever pieces are dropped, WordPiece can still spell their
    words, so that no word becomes unknown. A character that the old vocabulary has in one form
    only gets the other one.

    Args:
        tokenizer: The tokenizer.
        counts: (vocabulary,) How often each piece occurs in the text.
        size: The number of pieces to keep, or None for all that occur.

    Returns:
        The new pieces in the order of their ids, each with the id of the old piece whose weights it
        gets.

    Raises:
        ValueError: If more than `size` pieces are needed.
    """
    vocabulary = tokenizer.get_vocab()
    special = {t.content for t in tokenizer.added_tokens_decoder.values()}
    needed = {piece: vocabulary[piece] for piece in special}
    unknown = vocabulary[str(tokenizer.unk_token)]
    added: dict[str, int] = {}
    letters = {c for p in vocabulary.keys() - special for c in p.removeprefix(CONTINUED)}
    letters |= {"#"} & vocabulary.keys()
    for letter in sorted(letters):
        forms = [letter, CONTINUED + letter]
        known = [vocabulary[form] for form in forms if form in vocabulary]
        for form in forms:
            if form in vocabulary:
                needed[form] = vocabulary[form]
            else:
                added[form] = known[0] if known else unknown
    smallest = len(needed) + len(added)
    if size is not None and size < smallest:
        raise ValueError(
            f"{smallest} pieces are needed: special pieces, and each character so that every word "
            f"can be spelled. Give a --vocab-size of at least {smallest}, not {size}."
        )
    others = [(p, i) for p, i in vocabulary.items() if p not in needed and counts[i]]
    others.sort(key=lambda item: (-int(counts[item[1]]), item[1]))
    kept = others if size is None else others[: size - smallest]
    ordered = sorted([*needed.items(), *kept], key=lambda item: item[1])
    return {**dict(ordered), **added}


def shrink_tokenizer(
    tokenizer: PreTrainedTokenizerFast, pieces: Sequence[str]
) -> PreTrainedTokenizerFast:
    """Return a tokenizer of the same kind and settings with other pieces, numbered in order."""
    ids = {piece: i for i, piece in enumerate(pieces)}
    spec = json.loads(tokenizer.backend_tokenizer.to_str())
    spec["model"]["vocab"] = ids
    spec["truncation"] = spec["padding"] = None
    for token in spec["added_tokens"]:
        token["id"] = ids[token["content"]]
    template = spec["post_processor"] or {}
    for token in template.get("special_tokens", {}).values():  # TemplateProcessing
        token["ids"] = [ids[piece] for piece in token["tokens"]]
    for key in ("sep", "cls"):  # BertProcessing
        if key in template:
            template[key] = [template[key][0], ids[template[key][0]]]
    normalizer = spec["normalizer"] or {}
    if normalizer.get("type") != "BertNormalizer":
        normalizer = {"lowercase": tokenizer.init_kwargs.get("do_lower_case", False)}
    return type(tokenizer)(
        tokenizer_object=Tokenizer.from_str(json.dumps(spec)),
        model_max_length=tokenizer.model_max_length,
        # The class would otherwise set its own defaults: lower case.
        do_lower_case=normalizer["lowercase"],
        strip_accents=normalizer.get("strip_accents"),
        tokenize_chinese_chars=normalizer.get("handle_chinese_chars", True),
        **tokenizer.special_tokens_map,
    )


def shrink_model(
    model: PreTrainedModel, layers: Sequence[int], rows: Sequence[int], pad: int | None
) -> PreTrainedModel:
    """Return an encoder with some of the layers and some of the pieces of another.

    Args:
        model: The encoder with its masked-LM head.
        layers: The layers to keep, in order.
        rows: The old id of each new piece.
        pad: The new id of the padding piece.
    """
    facts = {
        **model.config.to_dict(),
        "num_hidden_layers": len(layers),
        "vocab_size": len(rows),
        "pad_token_id": pad,
    }
    facts.pop("model_type")
    smaller = build_encoder(AutoConfig.for_model(model.config.model_type, **facts))
    old = model.state_dict()
    new = {}
    for name in smaller.state_dict():
        source = name
        if name.startswith(LAYER):
            number, rest = name.removeprefix(LAYER).split(".", 1)
            source = f"{LAYER}{layers[int(number)]}.{rest}"
        new[name] = old[source][torch.tensor(rows)] if name in ROWS else old[source]
    smaller.load_state_dict(new)
    return smaller.eval()


def save_half(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write a checkpoint folder with weights in 16-bit floats, half the size of 32-bit floats."""
    model.half().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
