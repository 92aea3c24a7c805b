"""Hugging Face checkpoints (hub name or local folder) -> encoder with masked-LM head + wordpieces.

Loading is strict where transformers is lenient: a weight of the encoder that is missing or of
another shape is an error and not a random number, a cased vocabulary is not lower-cased, nothing
is unpickled and no code of the checkpoint is run.
"""

import logging
import pickle
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import (
    AutoConfig,
    AutoModelForMaskedLM,
    AutoTokenizer,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)
from transformers.modeling_utils import no_init_weights
from transformers.models.auto.tokenization_auto import get_tokenizer_config
from transformers.utils import logging as transformers_logging

from ..pieces.wordpieces import Wordpieces

logger = logging.getLogger("spacy_mslm")

# A vocabulary is cased when more than this share of its word pieces has an upper-case letter;
# uncased BERT vocabularies have none outside their special pieces, cased ones a fifth or more.
CASED_SHARE = 0.01


def load_checkpoint(name: str) -> tuple[PreTrainedModel, Wordpieces]:
    """Load a checkpoint by hub name or local folder, in 32-bit floats."""
    model = load_encoder(name)
    return model, load_wordpieces(name, model)


def load_encoder(name: str) -> PreTrainedModel:
    """The encoder with its masked-LM head. Where the checkpoint has no such head (ELECTRA
    discriminators, sentence encoders) it gets a fresh one, tied to the input embeddings."""
    # Its own report of missing weights is a page long; ours follows below.
    verbosity = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()
    try:
        config = AutoConfig.from_pretrained(name, trust_remote_code=False)
        model, info = AutoModelForMaskedLM.from_pretrained(
            name,
            config=_no_compile(config),
            torch_dtype=torch.float32,
            weights_only=True,
            trust_remote_code=False,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # they are reported, and an error below
        )
    except (OSError, ValueError, RuntimeError, ImportError, pickle.UnpicklingError) as err:
        if _is_refused_pickle(err):
            raise ValueError(
                f"The weights of {name!r} are a pickle that would run code when it is loaded, "
                "so it is not. Convert them on a machine where that is safe: load the model "
                "with transformers there and write it with `model.save_pretrained(folder, "
                "safe_serialization=True)`."
            ) from err
        raise ValueError(
            f"The encoder {name!r} cannot be loaded: {err}\nGive a Hugging Face hub name or a "
            "local folder with config.json and model.safetensors (--vars.encoder)."
        ) from err
    finally:
        transformers_logging.set_verbosity(verbosity)
    prefix = f"{model.base_model_prefix}."
    faulty = [key for key in info["missing_keys"] if key.startswith(prefix)]
    # Keys, or in older versions of transformers keys with two shapes.
    faulty += [e if isinstance(e, str) else e[0] for e in info["mismatched_keys"]]
    if faulty:
        shown = ", ".join(sorted(faulty)[:5])
        raise ValueError(
            f"The encoder {name!r} lacks {len(faulty)} weights of its own architecture, or has "
            f"them in another shape: {shown}. They are not replaced by random ones: use a "
            "complete checkpoint."
        )
    if info["missing_keys"]:
        model.tie_weights()
        logger.warning(
            f"The encoder {name!r} has no masked-LM head: it gets a fresh one, tied to the "
            "input embeddings. Its masked-LM loss starts high and falls as the head learns."
        )
    return model


def build_config(stored: dict) -> PretrainedConfig:
    """The config of an encoder, from what a pipeline has stored of it."""
    model_type = stored.get("model_type")
    if not isinstance(model_type, str):
        raise ValueError(
            "The stored encoder config has no model_type. Save the pipeline again, or retrain it."
        )
    facts = {k: v for k, v in stored.items() if k not in ("model_type", "auto_map")}
    return _no_compile(AutoConfig.for_model(model_type, **facts))


def build_encoder(config: PretrainedConfig) -> PreTrainedModel:
    """An encoder of the given shape whose weights are about to be overwritten."""
    with no_init_weights():
        model = AutoModelForMaskedLM.from_config(
            config,
            torch_dtype=torch.float32,
            trust_remote_code=False,
        )
    # Ties are made at the end of transformers' own initialisation, which was just skipped.
    model.tie_weights()
    return model


def load_wordpieces(name: str, model: PreTrainedModel) -> Wordpieces:
    """The checkpoint's fast tokenizer, with the case of its vocabulary respected."""
    tokenizer = load_tokenizer(name)
    if tokenizer.mask_token_id is None:
        raise ValueError(
            f"The tokenizer of {name!r} has no mask token, so its encoder cannot be trained by "
            "MSLM."
        )
    size = model.config.vocab_size
    if len(tokenizer) > size:
        raise ValueError(
            f"The tokenizer of {name!r} has {len(tokenizer)} pieces, its encoder has "
            f"embeddings for {size}. The two do not belong together: use the tokenizer that "
            "came with the weights."
        )
    raw: Tokenizer = tokenizer.backend_tokenizer
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.mask_token_id
    return Wordpieces.from_tokenizer(
        raw, mask=tokenizer.mask_token_id, pad=pad, max_length=_max_length(tokenizer, model)
    )


def load_tokenizer(name: str) -> PreTrainedTokenizerFast:
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, use_fast=True, trust_remote_code=False)
        if _lowercases_cased_vocabulary(name, tokenizer):
            logger.warning(
                f"The vocabulary of {name!r} is cased, but the checkpoint does not say so and "
                "transformers would lower-case all text. It is loaded as cased. To silence "
                'this, put {"do_lower_case": false} into its tokenizer_config.json.'
            )
            tokenizer = AutoTokenizer.from_pretrained(
                name, use_fast=True, trust_remote_code=False, do_lower_case=False
            )
    except Exception as err:  # transformers raises all sorts for a folder without a tokenizer
        raise ValueError(
            f"No tokenizer can be loaded from {name!r} ({type(err).__name__}). Put "
            "tokenizer.json, or the vocabulary file, next to the weights."
        ) from err
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise ValueError(
            f"{name!r} has only a slow tokenizer. Convert it once with transformers "
            "(`AutoTokenizer.from_pretrained(name).save_pretrained(folder)` writes "
            "tokenizer.json)."
        )
    return tokenizer


def save_checkpoint(model: PreTrainedModel, name: str, folder: Path) -> None:
    """Write an encoder that was loaded by `name`, as a checkpoint with that one's tokenizer."""
    model.save_pretrained(folder, safe_serialization=True)
    load_tokenizer(name).save_pretrained(folder)


def _lowercases_cased_vocabulary(name: str, tokenizer: PreTrainedTokenizerFast) -> bool:
    """Whether transformers' default lower-cases a vocabulary that has upper case in it.

    A checkpoint that says `do_lower_case` itself is believed.
    """
    normalizer = tokenizer.backend_tokenizer.normalizer
    if normalizer is None or normalizer.normalize_str("A") == "A":
        return False
    if "do_lower_case" in get_tokenizer_config(name):
        return False
    special = set(tokenizer.all_special_tokens)
    words = [w for w in tokenizer.get_vocab() if w not in special and w.isalpha()]
    return sum(w != w.lower() for w in words) > CASED_SHARE * len(words)


def _max_length(tokenizer: PreTrainedTokenizerFast, model: PreTrainedModel) -> int:
    """Pieces that fit: the tokenizer's word for it where it has one, and never more than there are
    position embeddings (those of RoBERTa and MPNet begin after the padding index)."""
    positions = getattr(model.config, "max_position_embeddings", None) or 512
    embeddings = getattr(model.base_model, "embeddings", None)
    padding = getattr(getattr(embeddings, "position_embeddings", None), "padding_idx", None)
    if padding is not None:
        positions -= padding + 1
    return int(min(positions, tokenizer.model_max_length))


def _is_refused_pickle(err: BaseException | None) -> bool:
    """Whether torch's weights-only loader is at the bottom of an error. transformers wraps it, and
    wraps in the same way what it says itself of a file that git-lfs did not fetch."""
    if "git-lfs" in str(err):
        return False
    while err is not None and not isinstance(err, pickle.UnpicklingError):
        err = err.__cause__ or err.__context__
    return err is not None


def _no_compile(config: PretrainedConfig) -> PretrainedConfig:
    """ModernBERT compiles itself on first use unless told not to."""
    if getattr(config, "reference_compile", False) is None:
        config.reference_compile = False
    return config
