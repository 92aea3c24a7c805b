"""Hugging Face checkpoints -> encoder with masked-LM head, and wordpieces.

A checkpoint is a hub name or a local folder. Loading is stricter than in transformers: missing
encoder weights or weights of another shape are an error and are not replaced by random ones, a
cased vocabulary is not lower-cased, pickles are not loaded if they would run code, and no code of
the checkpoint is run.
"""

import json
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
from transformers import __version__ as transformers_version
from transformers.models.auto.tokenization_auto import get_tokenizer_config
from transformers.utils import logging as transformers_logging

if transformers_version.startswith("4."):
    from transformers.modeling_utils import no_init_weights
else:
    from transformers.initialization import no_init_weights

from ..errors import Errors
from ..pieces.wordpieces import Wordpieces
from ..util.files import map_file
from ..util.manifest import check_folder, is_pointer

logger = logging.getLogger("spacy_mslm")

# The argument, and setting in a config, for the type of the weights.
DTYPE = "torch_dtype" if transformers_version.startswith("4.") else "dtype"
# A vocabulary is cased if more than this share of its pieces has upper-case letters. Uncased BERT
# vocabularies have none except special pieces, cased ones have 20 % or more.
CASED_SHARE = 0.01


def load_checkpoint(name: str) -> tuple[PreTrainedModel, Wordpieces]:
    """Load the encoder (in 32-bit floats) and the wordpieces of a checkpoint.

    Args:
        name: The hub name or local folder.

    Raises:
        ValueError: If one of them cannot be loaded, or they do not belong together.
    """
    model = load_encoder(name)
    return model, load_wordpieces(name, model)


def check_checkpoint(name: str) -> None:
    """Verify the files of a checkpoint folder before they are used.

    A folder that this package wrote has a manifest. Other folders must not contain pointers of Git
    LFS, nor settings that make transformers read files outside the folder.

    Raises:
        ValueError: If a file was changed or is a pointer, or a setting names a file elsewhere.
    """
    folder = Path(name)
    if folder.is_dir():
        check_folder(folder)
        for path in sorted(folder.iterdir()):
            content = map_file(path)
            if content and is_pointer(content):
                raise ValueError(Errors.M213.format(where=folder, name=path.name))
        for path in folder.glob("*.index.json"):
            _check_index(path)
    try:
        settings = get_tokenizer_config(name)
    except Exception:  # whatever is wrong with it, `load_fast_tokenizer` reports it
        return
    for key, value in settings.items():
        if key.endswith("_file") and isinstance(value, str) and _is_outside(value, folder):
            raise ValueError(
                f"The setting {key} in tokenizer_config.json of {name!r} names a file outside the "
                "checkpoint, which would be read. Remove the setting, and put the file into the "
                "folder."
            )


def _check_index(path: Path) -> None:
    """Check that the index of weights in several files names files in its folder only."""
    try:
        names = set(json.loads(path.read_text(encoding="utf8"))["weight_map"].values())
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        names = {None}
    if not all(isinstance(name, str) and Path(name).name == name for name in names):
        raise ValueError(
            f"{path} is not an index of weights, or names a file outside its folder. Download the "
            "checkpoint again."
        )


def _is_outside(value: str, folder: Path) -> bool:
    """Return whether a path that transformers would open exists and is not in a folder."""
    try:
        inside = Path(value).resolve().is_relative_to(folder.resolve())
        return Path(value).exists() and not inside
    except (OSError, ValueError):  # the name is too long or contains a null character
        return False


def load_encoder(name: str) -> PreTrainedModel:
    """Load an encoder with its masked-LM head.

    If the checkpoint has no such head (ELECTRA discriminators, sentence encoders), it gets a new
    one that is tied to the input embeddings.

    Raises:
        ValueError: If it cannot be loaded, or a file was changed or names files elsewhere.
    """
    check_checkpoint(name)
    # transformers' report of missing weights is a page long. Ours is below.
    verbosity = transformers_logging.get_verbosity()
    bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        config = AutoConfig.from_pretrained(name, trust_remote_code=False)
        model, info = AutoModelForMaskedLM.from_pretrained(
            name,
            config=_no_compile(config),
            **{DTYPE: torch.float32},
            weights_only=True,
            trust_remote_code=False,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # they are reported below
        )
    except Exception as err:  # transformers and safetensors raise various errors
        if _is_refused_pickle(err):
            raise ValueError(
                f"The weights of {name!r} are a pickle that would run code when it is loaded, "
                "so they were not loaded. Convert them on a machine where this is safe: load the "
                "model with transformers and write it with `model.save_pretrained(folder)`, as "
                "safetensors."
            ) from err
        raise ValueError(
            f"Could not load the encoder {name!r}: {str(err) or type(err).__name__}\nGive a "
            "Hugging Face hub name or a local folder with config.json and model.safetensors "
            "(--vars.encoder). If the folder is complete, a file in it is damaged: copy it again."
        ) from err
    finally:
        transformers_logging.set_verbosity(verbosity)
        if bars:
            transformers_logging.enable_progress_bar()
    prefix = f"{model.base_model_prefix}."
    faulty = [key for key in info["missing_keys"] if key.startswith(prefix)]
    # Keys; in older versions of transformers, tuples of a key and two shapes.
    faulty += [e if isinstance(e, str) else e[0] for e in info["mismatched_keys"]]
    if faulty:
        shown = ", ".join(sorted(faulty)[:5])
        raise ValueError(
            f"The encoder {name!r} lacks {len(faulty)} weights of its architecture, or has them in "
            f"another shape: {shown}. They are not replaced by random weights. Use a complete "
            "checkpoint."
        )
    if info["missing_keys"]:
        model.tie_weights()
        logger.warning(
            f"The encoder {name!r} has no masked-LM head. It gets a new one, tied to the input "
            "embeddings. The masked-LM loss starts high and falls as the head learns."
        )
    return model


def build_config(stored: dict) -> PretrainedConfig:
    """Create the config of an encoder from the one stored in a pipeline."""
    model_type = stored.get("model_type")
    if not isinstance(model_type, str):
        raise ValueError(
            "The stored encoder config has no model_type. Save the pipeline again, or retrain it."
        )
    facts = {k: v for k, v in stored.items() if k not in ("model_type", "auto_map")}
    return _no_compile(AutoConfig.for_model(model_type, **facts))


def build_encoder(config: PretrainedConfig) -> PreTrainedModel:
    """Create an encoder from its config, without initial weights: they will be overwritten."""
    with no_init_weights():
        model = AutoModelForMaskedLM.from_config(
            config, trust_remote_code=False, **{DTYPE: torch.float32}
        )
    # transformers ties weights at the end of its initialization, which was skipped.
    model.tie_weights()
    return model


def load_wordpieces(name: str, model: PreTrainedModel) -> Wordpieces:
    """Load the fast tokenizer of a checkpoint, and respect the case of its vocabulary.

    Args:
        name: The hub name or local folder.
        model: The encoder of the checkpoint.
    """
    tokenizer = load_fast_tokenizer(name)
    if tokenizer.mask_token_id is None:
        raise ValueError(
            f"The tokenizer of {name!r} has no mask token, which MSLM needs. Use another encoder."
        )
    size = model.config.vocab_size
    if len(tokenizer) > size:
        raise ValueError(
            f"The tokenizer of {name!r} has {len(tokenizer)} pieces, but its encoder has "
            f"embeddings for {size}. Use the tokenizer that belongs to the weights."
        )
    raw: Tokenizer = tokenizer.backend_tokenizer
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.mask_token_id
    return Wordpieces.from_tokenizer(
        raw, mask=tokenizer.mask_token_id, pad=pad, max_length=_max_length(tokenizer, model)
    )


def load_fast_tokenizer(name: str) -> PreTrainedTokenizerFast:
    """Load the fast tokenizer of a checkpoint.

    Raises:
        ValueError: If the checkpoint has no fast tokenizer.
    """
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, use_fast=True, trust_remote_code=False)
        if _lowercases_cased_vocabulary(name, tokenizer):
            logger.warning(
                f"The vocabulary of {name!r} is cased, but the checkpoint does not say so, and "
                "transformers would lower-case all text. It is loaded as cased. To avoid this "
                'warning, put {"do_lower_case": false} into its tokenizer_config.json.'
            )
            tokenizer = AutoTokenizer.from_pretrained(
                name, use_fast=True, trust_remote_code=False, do_lower_case=False
            )
        # transformers 5 makes up a vocabulary of special pieces if there is none.
        if not set(tokenizer.get_vocab()) - set(tokenizer.all_special_tokens):
            raise ValueError("empty vocabulary")
    except Exception as err:  # transformers raises various errors if there is no tokenizer
        raise ValueError(
            f"Could not load a tokenizer from {name!r} ({type(err).__name__}). Put "
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
    """Write an encoder as a checkpoint folder, with the tokenizer of the checkpoint `name`."""
    model.save_pretrained(folder)  # as safetensors, which is the default
    load_fast_tokenizer(name).save_pretrained(folder)


def _lowercases_cased_vocabulary(name: str, tokenizer: PreTrainedTokenizerFast) -> bool:
    """Return whether transformers lower-cases text by default although the vocabulary is cased.

    A checkpoint that sets `do_lower_case` itself is trusted.
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
    """Return the maximum number of pieces that an encoder takes.

    This is the limit of the tokenizer, but at most the number of position embeddings. Those of
    RoBERTa and MPNet start after the padding index.
    """
    positions = getattr(model.config, "max_position_embeddings", None) or 512
    embeddings = getattr(model.base_model, "embeddings", None)
    padding = getattr(getattr(embeddings, "position_embeddings", None), "padding_idx", None)
    if padding is not None:
        positions -= padding + 1
    return int(min(positions, tokenizer.model_max_length))


def _is_refused_pickle(err: BaseException | None) -> bool:
    """Return whether an error was caused by torch's weights-only loader, which transformers wraps.

    Pointers of Git LFS, which are no pickles either, are refused before.
    """
    while err is not None and not isinstance(err, pickle.UnpicklingError):
        err = err.__cause__ or err.__context__
    return err is not None


def _no_compile(config: PretrainedConfig) -> PretrainedConfig:
    """Keep ModernBERT from compiling itself on first use."""
    if getattr(config, "reference_compile", False) is None:
        config.reference_compile = False
    return config
