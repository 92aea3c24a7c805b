"""Configs of commands: reading, overrides, and errors in one sentence."""

import contextlib
from collections.abc import Iterator, Mapping
from configparser import Error as ConfigParserError
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from spacy.schemas import ConfigSchemaInit, ConfigSchemaNlp, ConfigSchemaTraining
from spacy.util import load_config, walk_dict
from thinc.api import Config, ConfigValidationError

from ..errors import Errors

# spaCy ignores settings of these sections that it does not know, so they are checked here.
SCHEMAS: dict[str, Any] = {
    "nlp": ConfigSchemaNlp,
    "training": ConfigSchemaTraining,
    "initialize": ConfigSchemaInit,
}
# Blocks whose settings are checked when they are read, though some are not in the config.
CHECKED_LATER = ("components.", "initialize.components.", "initialize.tokenizer.")
FREE = "training.score_weights"
# The maximum number of characters of the parser's own words in a message.
LONGEST = 300


def read_config(path: Path, overrides: Mapping[str, Any] | None, *, block: str) -> Config:
    """Read a config and apply overrides.

    Args:
        path: The config file.
        overrides: Settings by their dotted name, such as {"paths.text": "notes.txt"}.
        block: The block that the task reads. Configs in `configs/` are named after the blocks.

    Returns:
        The config with all its variables filled in.

    Raises:
        ValueError: If the config does not have the block, or an override names no setting.
    """
    config = read_raw_config(path, overrides)
    with _reading(path):
        config = config.interpolate()
    if block not in config:
        example = {"labelling": "weak", "pretraining": "pretrain"}[block]
        raise ValueError(f"{path} has no [{block}] block. Start from configs/{example}.cfg.")
    return config


def read_raw_config(path: Path, overrides: Mapping[str, Any] | None) -> Config:
    """Read a config and apply overrides, without filling in variables.

    Raises:
        ValueError: If the file does not exist or is not a config, or an override names no setting.
    """
    if not path.is_file():
        raise ValueError(Errors.M106.format(path=path))
    with _reading(path):
        check_overrides(path, load_config(path, interpolate=False), overrides or {})
        return load_config(path, overrides=dict(overrides or {}), interpolate=False)


def check_overrides(path: Path, config: Config, overrides: Mapping[str, Any]) -> None:
    """Raise a ValueError if an override names no setting of a config.

    A setting that has a default can be missing in the config. Its name is checked when it is read,
    if it is in a block of a registered function or in a section of spaCy.
    """
    names = {
        ".".join(parts[:n]) for parts, _ in walk_dict(config) for n in range(1, len(parts) + 1)
    }
    for section, schema in SCHEMAS.items():
        if section in names:
            names |= {f"{section}.{field}" for field in schema.model_fields}
    for name, value in overrides.items():
        parent = name.rpartition(".")[0]
        has_function = any(known.startswith(f"{parent}.@") for known in names)
        later = name.startswith(CHECKED_LATER) and (parent in names or name[0] == "i")
        is_block = isinstance(value, dict) and parent in names
        if name not in names and not (has_function or later or is_block or parent == FREE):
            nearest = get_close_matches(name, sorted(names), n=1)
            hint = f"Did you mean --{nearest[0]}?" if nearest else "See docs/reference/config.md."
            raise ValueError(f"{path} has no setting {name}. {hint}")


@contextlib.contextmanager
def plain_errors(path: Path) -> Iterator[None]:
    """Turn an error about a config, which quotes much of it, into one sentence."""
    try:
        yield
    except ConfigValidationError as err:
        raise ValueError(f"{path}: {_sentence(err)}") from None
    except ConfigParserError as err:
        raise ValueError(f"{path}: {' '.join(str(err).split())}") from None


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn an error of the file itself into one sentence that names it."""
    try:
        with plain_errors(path):
            yield
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not a config: it is not valid UTF-8.") from None
    except RecursionError:
        raise ValueError(f"{path} is not a config: a value is nested too deeply.") from None
    except ValueError as err:
        if str(path) in str(err):
            raise
        raise ValueError(f"{path}: {err}") from None  # a variable is not written as one


def _sentence(err: ConfigValidationError) -> str:
    faults = []
    for fault in err.errors or ():
        place = ".".join(map(str, fault.get("loc", ())))
        place = f"{err.parent}.{place}" if err.parent else place
        faults.append(f"{place}: {fault.get('msg')}")
    found = "; ".join(faults) or " ".join(str(err.desc or err.title).split())
    if len(found) > LONGEST:  # the parser quotes the line, which may be a whole file
        found = f"{found[:LONGEST]} ..."
    return found if found.endswith(".") else f"{found}."
