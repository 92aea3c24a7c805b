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

from ..errors import Errors, Warnings
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
            raise ValueError(Errors.M010.format(name=name)) from err
        raise ValueError(Errors.M011.format(name=name, error=err)) from err
    finally:
        transformers_logging.set_verbosity(verbosity)
    prefix = f"{model.base_model_prefix}."
    faulty = [key for key in info["missing_keys"] if key.startswith(prefix)]
    # Keys, or in older versions of transformers keys with two shapes.
    faulty += [e if isinstance(e, str) else e[0] for e in info["mismatched_keys"]]
    if faulty:
        shown = ", ".join(sorted(faulty)[:5])
        raise ValueError(Errors.M012.format(name=name, n=len(faulty), keys=shown))
    if info["missing_keys"]:
        model.tie_weights()
        logger.warning(Warnings.W010.format(name=name))
    return model


def build_config(stored: dict) -> PretrainedConfig:
    """The config of an encoder, from what a pipeline has stored of it."""
    model_type = stored.get("model_type")
    if not isinstance(model_type, str):
        raise ValueError(Errors.M013)
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
        raise ValueError(Errors.M016.format(name=name))
    size = model.config.vocab_size
    if len(tokenizer) > size:
        raise ValueError(Errors.M017.format(name=name, n=len(tokenizer), size=size))
    raw: Tokenizer = tokenizer.backend_tokenizer
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.mask_token_id
    return Wordpieces.from_tokenizer(
        raw, mask=tokenizer.mask_token_id, pad=pad, max_length=_max_length(tokenizer, model)
    )


def load_tokenizer(name: str) -> PreTrainedTokenizerFast:
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, use_fast=True, trust_remote_code=False)
        if _lowercases_cased_vocabulary(name, tokenizer):
            logger.warning(Warnings.W011.format(name=name))
            tokenizer = AutoTokenizer.from_pretrained(
                name, use_fast=True, trust_remote_code=False, do_lower_case=False
            )
    except Exception as err:  # transformers raises all sorts for a folder without a tokenizer
        raise ValueError(Errors.M014.format(name=name, error=type(err).__name__)) from err
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise ValueError(Errors.M015.format(name=name))
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
