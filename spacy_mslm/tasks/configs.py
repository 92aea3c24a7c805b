"""Configs of tasks that are not a spaCy training."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spacy.util import load_config
from thinc.api import Config


def read_config(path: Path, overrides: Mapping[str, Any] | None, *, block: str) -> Config:
    """Read a config and apply overrides.

    Args:
        path: The config file.
        overrides: Settings by their dotted name, such as {"paths.text": "notes.txt"}.
        block: The block that the task reads. Configs in `configs/` are named after the blocks.

    Returns:
        The config with all its variables filled in.

    Raises:
        ValueError: If the config does not have the block.
    """
    config = load_config(path, overrides=dict(overrides or {}), interpolate=False).interpolate()
    if block not in config:
        example = {"labelling": "weak", "pretraining": "pretrain"}[block]
        raise ValueError(f"{path} has no [{block}] block. Start from configs/{example}.cfg.")
    return config
