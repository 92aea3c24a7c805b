"""Train an encoder on plain text, as a config says."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from spacy.util import registry

from ..training.pretraining import run_pretraining
from .configs import plain_errors, read_config


class Pretrained(NamedTuple):
    """The folder of the encoder, and the record of its training (steps, losses, perplexities)."""

    path: Path
    record: dict[str, Any]


def pretrain(
    config_path: Path,
    output_path: Path,
    overrides: Mapping[str, Any] | None = None,
    *,
    force: bool = False,
) -> Pretrained:
    """Train the masked language model of an encoder on plain text.

    A run that was interrupted continues from its last checkpoint.

    Args:
        config_path: A config with a [pretraining] block.
        output_path: Folder for the encoder (a Hugging Face checkpoint) and its training state.
        overrides: Settings by their dotted name, such as {"paths.text": "notes.txt"}.
        force: Start from scratch if the folder holds another pretraining.
    """
    settings = read_config(config_path, overrides, block="pretraining")["pretraining"]
    with plain_errors(config_path):
        resolved = registry.resolve({"pretraining": settings})["pretraining"]
    return Pretrained(output_path, run_pretraining(resolved, output_path, settings, force))
