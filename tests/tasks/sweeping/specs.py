"""Small specs and their data."""

from pathlib import Path

import srsly

from ...conftest import build_encoder
from ...helpers import DEV, TRAIN, write_iob

# A tiny encoder learns the sentences in a second.
LEARNING = {
    "training.max_steps": 40,
    "training.eval_frequency": 40,
    "training.optimizer.learn_rate.rate": 0.003,
    "training.optimizer.head_learn_rate.rate": 0.01,
}
FEW_STEPS = {"training.max_steps": 2, "training.eval_frequency": 2}


def write_data(root: Path, sets: tuple[str, ...] = ("tiny",)) -> Path:
    """Write an encoder and IOB files, and return the folder of the sets."""
    for name in sets:
        folder = root / "data" / name
        folder.mkdir(parents=True, exist_ok=True)
        for split, sentences in (("train", TRAIN), ("devel", DEV), ("test", DEV)):
            write_iob(folder / f"{split}.tsv", sentences)
    build_encoder(root / "encoder", max_position_embeddings=300)
    return root / "data"


def write_spec(root: Path, name: str = "spec.yml", **content: object) -> Path:
    """Write a spec; `None` leaves a key out."""
    spec = {
        "split": "test",
        "data": str(root / "data"),
        "encoder": str(root / "encoder"),
        "sets": ["tiny"],
        "seeds": [0],
        "overrides": FEW_STEPS,
        **content,
    }
    if not (root / "encoder").exists():
        write_data(root)
    srsly.write_yaml(root / name, {k: v for k, v in spec.items() if v is not None})
    return root / name
