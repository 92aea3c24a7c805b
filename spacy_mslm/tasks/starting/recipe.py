"""The config that a project starts from, which is one of `configs/`, and what it will do."""

from pathlib import Path
from typing import NamedTuple

from spacy.util import load_config

from ...training.budget import count_updates

PACKAGE = Path(__file__).parents[2]


class Recipe(NamedTuple):
    """A config with the settings that a project exposes."""

    name: str
    path: Path
    encoder: str
    epochs: float
    learn_rate: float
    head_learn_rate: float
    adaptation_steps: int  # 0 if there is no adaptation


def find_recipe(has_text: bool) -> Recipe:
    """Return the config for a corpus: MSLM needs text without labels, too."""
    name = "mslm" if has_text else "vanilla"
    path = config_path(name)
    config = load_config(path, interpolate=False)
    rates = config["training"]["optimizer"]
    adaptation = config["initialize"]["components"]["mslm"].get("adaptation", {})
    return Recipe(
        name,
        path,
        config["vars"]["encoder"],
        config["training"]["max_steps"]["epochs"],
        rates["learn_rate"]["rate"],
        rates["head_learn_rate"]["rate"],
        adaptation.get("steps", 0),
    )


def config_path(name: str) -> Path:
    """Return a config of the package: a wheel has them in it, a checkout beside it."""
    installed = PACKAGE / "configs" / f"{name}.cfg"
    return installed if installed.exists() else PACKAGE.parent / "configs" / f"{name}.cfg"


def count_steps(recipe: Recipe, train: Path, epochs: float) -> int:
    """Return the number of updates that the config derives from a training set."""
    training = load_config(recipe.path, interpolate=False)["training"]
    plan = training["max_steps"]
    size = training["batcher"]["size"]
    evaluations = plan["evaluations"]
    return count_updates(str(train), size, epochs, plan["least"], evaluations=evaluations)
