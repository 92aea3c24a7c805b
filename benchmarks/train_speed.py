"""Measure the seconds per update of several trainings on the same sentences and encoder."""

import statistics
from pathlib import Path
from typing import Annotated, Any

import typer
from wasabi import msg

from .machine import write_result
from .reference import SPLITS
from .speed import RESULTS, ROOT
from .systems import Worker

SCRIPT = str(Path(__file__).with_name("training_systems.py"))
JOINT = {"@misc": "spacy_mslm.JointMasking.v1", "elm_rate": 1.0, "blm_rate": 0.075}
NONE = {"@misc": "spacy_mslm.NoMasking.v1"}
WEIGHTS = {"mlm": 1.0, "ed": 1.0, "el": 1.0}
TRAININGS: dict[str, tuple[str, dict[str, Any]]] = {
    "vanilla": ("ours", {"masking": NONE, "loss_weights": WEIGHTS}),
    "MSLM, mixed view": ("ours", {"masking": JOINT, "view": "mixed", "loss_weights": WEIGHTS}),
    "MSLM, clean view": ("ours", {"masking": JOINT, "view": "clean", "loss_weights": WEIGHTS}),
    "Hugging Face Trainer": ("hf_trainer", {}),
    "spacy-transformers ner": ("spacy_ner", {}),
    "the paper's recipe": ("paper", {}),
}


def train_speed(
    shared: Annotated[Path, typer.Option(help="Folder with blurb/ and encoders/")] = ROOT
    / "../shared",
    encoder: Annotated[
        str, typer.Option(help="Encoder of all systems [default: the shared one]")
    ] = "",
    updates: Annotated[int, typer.Option(help="Updates of 16 sentences per round")] = 8,
    rounds: Annotated[int, typer.Option(help="Rounds over all trainings")] = 5,
    results: Annotated[Path, typer.Option(help="Folder for figures and plot")] = RESULTS,
) -> None:
    """Time updates of all trainings in turn; print seconds and ratios."""
    from .train_plot import draw_training

    facts = {
        "train": str((shared / "blurb/ncbi_disease" / SPLITS["train"]).resolve()),
        "encoder": encoder or str((shared / "encoders/biominilm").resolve()),
    }
    workers = {
        name: Worker(system, {**facts, **settings}, script=SCRIPT)
        for name, (system, settings) in TRAININGS.items()
    }
    seconds: dict[str, list[float]] = {name: [] for name in workers}
    data: dict[str, list[float]] = {}
    for turn in range(rounds + 1):
        for name, worker in workers.items():
            found = worker({"first": turn * updates, "updates": updates})
            if turn:  # the first one warms up
                seconds[name].append(found["seconds"] / updates)
                if "data" in found:
                    data.setdefault(name, []).append(found["data"])
    for worker in workers.values():
        worker.close()
    # Ratios by round: all have the same sentences in it.
    vanilla, trainer = seconds["vanilla"], seconds["Hugging Face Trainer"]
    rows: dict[str, dict[str, Any]] = {
        name: {
            "seconds": statistics.median(times),
            "to_vanilla": _ratio(times, vanilla),
            "to_trainer": _ratio(times, trainer),
            "data_share": statistics.median(data[name]) if name in data else None,
        }
        for name, times in seconds.items()
    }
    figures: dict[str, Any] = {"rounds": rounds, "updates": updates, "rows": rows}
    record = write_result(results / "train_speed.json", figures)
    draw_training(record, results / "train_speed.png")
    table = [
        (
            name,
            f"{1000 * row['seconds']:.0f}",
            f"{row['to_vanilla']:.2f}",
            f"{row['to_trainer']:.2f}",
            "" if row["data_share"] is None else f"{row['data_share']:.1%}",
        )
        for name, row in rows.items()
    ]
    header = ("", "ms per update", "to vanilla", "to HF Trainer", "data side")
    msg.table(table, header=header, divider=True, aligns=("l", *"rrrr"))


def _ratio(times: list[float], others: list[float]) -> float:
    return statistics.median(a / b for a, b in zip(times, others, strict=True))
