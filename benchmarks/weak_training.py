"""Train on weak labels: compare plain fine-tuning with MSLM on the notes of the demo.

Train and dev have weak labels. The test set is scored twice: on its weak labels, and on the true
entities that the generator of the notes has written. Steps that are up to date are skipped.
"""

import json
import subprocess
import sys
from pathlib import Path
from statistics import mean
from typing import Annotated, Any

import typer
from wasabi import msg

from spacy_mslm.tasks import score_labels
from spacy_mslm.weak.scoring import ALL, VOTE

from .machine import describe_machine, load_machine, save_machine, write_rows

ROOT = Path(__file__).parents[1]
CONFIG = ROOT / "configs" / "weak.cfg"
RESULTS = Path(__file__).parent / "results" / "weak_training.jsonl"
# The paper's rates for weakly labelled notes (Table 13).
RATES = ["--vars.elm_rate", "0.5", "--vars.blm_rate", "0.075"]
# As in project.yml: for a small encoder with little pretraining.
ENCODER = [
    *("--vars.size", "tiny", "--vars.vocab_size", "1000", "--pretraining.steps", "1000"),
    *("--pretraining.length", "64", "--pretraining.optimizer.learn_rate.rate", "0.002"),
]
TRAINING = [
    *("--training.max_steps", "300", "--training.eval_frequency", "100"),
    *("--training.optimizer.learn_rate.rate", "0.001"),
    *("--training.optimizer.head_learn_rate.rate", "0.005"),
]
STAGE = "initialize.components.mslm.adaptation"
ADAPTATION = [
    *("--paths.text", "{folder}/notes/text.jsonl", "--paths.adapted", "{run}/adapted"),
    *(f"--{STAGE}.steps", "200", f"--{STAGE}.optimizer.learn_rate.rate", "0.001"),
    *(f"--{STAGE}.seed", "{seed}", f"--{STAGE}.corpus.seed", "{seed}"),
]
ARMS: dict[str, tuple[str, list[str]]] = {
    "vanilla": ("vanilla", []),
    # The recipe of mslm.cfg: adaptation on notes without labels, then fine-tuning.
    "adaptation": ("mslm", [*ADAPTATION, *RATES]),
    "adaptation without masks": ("mslm", [*ADAPTATION, "--vars.masking", "${maskings.none}"]),
    # The recipe of the paper: masked LM and tagging are trained together on labelled notes.
    "beside tagging": ("mslm", [*RATES, "--components.mslm.loss_weights.mlm", "0.1"]),
}


def weak_training(
    folder: Annotated[Path, typer.Option(help="Folder for notes, corpora and models")] = ROOT
    / "training"
    / "weak",
    seeds: Annotated[int, typer.Option(help="Number of trainings of each kind")] = 4,
    results: Annotated[Path, typer.Option(help="JSON lines file for the figures")] = RESULTS,
) -> None:
    """Label the notes of the demo, train on them in each way, write and print EM and F1."""
    folder = folder.resolve()
    settings = _prepare(folder)
    labels = score_labels(CONFIG, folder / "truth.spacy", settings)[VOTE][ALL]
    told = {"p": labels.precision, "em": labels.recall, "f": labels.fscore}
    first = {"arm": "the labels themselves", "machine": describe_machine(), "truth": told}
    rows: list[dict[str, Any]] = [first]
    for seed in range(seeds):
        rows += [{"arm": arm, "seed": seed, **_train(folder, arm, seed)} for arm in ARMS]
    write_rows(results, rows)
    _show(rows)


def _prepare(folder: Path) -> dict[str, str]:
    """Make notes, weak labels and an encoder; return the settings of labelling."""
    notes = folder / "notes"
    settings = {
        "paths.terms": str(notes / "terms.tsv"),
        "paths.patterns": str(notes / "patterns.tsv"),
        "paths.clusters": str(ROOT / "assets" / "semantic_types.yml"),
    }
    if not (folder / "encoder").exists():
        _python("scripts/demo_notes.py", str(notes))
        options = [text for key, value in settings.items() for text in (f"--{key}", value)]
        label = ["weak", "label", str(CONFIG), *options]
        _mslm(*label, "--paths.notes", str(notes / "notes.csv"), "--paths.output", f"{folder}/weak")
        # All notes are in the test split.
        held_out = ["--labelling.dev", "0", "--labelling.test", "1"]
        paths = ["--paths.notes", str(notes / "test.jsonl"), "--paths.output", f"{folder}/held_out"]
        _mslm(*label, *held_out, *paths)
        _mslm("convert", str(notes / "test.jsonl"), f"{folder}/truth.spacy")
        text = ["--paths.text", str(notes / "text.jsonl")]
        _mslm("pretrain", "configs/pretrain.cfg", f"{folder}/encoder", *text, *ENCODER)
    return settings


def _train(folder: Path, arm: str, seed: int) -> dict[str, Any]:
    run = folder / f"{arm.replace(' ', '-')}-s{seed}"
    config, extra = ARMS[arm]
    if not (run / "model-last").exists():
        meant = {"{folder}": str(folder), "{run}": str(run), "{seed}": str(seed)}
        for mark, value in meant.items():
            extra = [argument.replace(mark, value) for argument in extra]
        corpora = ["--paths.train", f"{folder}/weak/train", "--paths.dev", f"{folder}/weak/dev"]
        model = ["--vars.encoder", f"{folder}/encoder", "--system.seed", str(seed)]
        output = ["--output", str(run)]
        command = ["train", f"configs/{config}.cfg", *output, *corpora, *model, *TRAINING, *extra]
        _python("-m", "spacy", *command)
        save_machine(run)
    # The learn rate ends at 0, so the last checkpoint is used.
    sets = {"weak": folder / "held_out" / "test", "truth": folder / "truth.spacy"}
    scores = {name: _scores(run / "model-last", path) for name, path in sets.items()}
    return {"machine": load_machine(run), **scores}


def _scores(model: Path, data: Path) -> dict[str, float]:
    path = model.parent / f"{data.stem}.json"
    _mslm("evaluate", str(model), str(data), "--output", str(path))
    scores = json.loads(path.read_text())["scores"]
    names = {"p": "ents_p", "em": "mslm_em", "f": "ents_f", "em_unseen": "mslm_em_unseen"}
    return {name: round(scores[key], 4) for name, key in names.items()}


def _mslm(*arguments: str) -> None:
    _python("-m", "spacy", "mslm", *arguments)


def _python(*arguments: str) -> None:
    subprocess.run([sys.executable, *arguments], cwd=ROOT, check=True)


def _show(rows: list[dict[str, Any]]) -> None:
    """Print means over seeds."""
    table = []
    for arm in dict.fromkeys(row["arm"] for row in rows):
        cells = [arm]
        for data, names in (("weak", ("p", "em", "f")), ("truth", ("p", "em", "f", "em_unseen"))):
            for name in names:
                found = [
                    row[data][name]
                    for row in rows
                    if row["arm"] == arm and data in row and name in row[data]
                ]
                cells.append(f"{100 * mean(found):.1f}" if found else "-")
        table.append(cells)
    header = ("", "P weak", "EM", "F1", "P truth", "EM", "F1", "unseen EM")
    msg.table(table, header=header, divider=True, aligns=("l", *"rrrrrrr"))
