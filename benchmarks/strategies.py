"""Train every masking strategy, calibrate it on dev, and score it on test under both protocols.

Every run is `spacy train` with the reference recipe and another `--vars.masking` (or `vanilla.cfg`,
for none), `spacy mslm calibrate` on dev and `spacy mslm evaluate` on test, on clean and on masked
text. Every run has its own folder and is skipped if it exists.
"""

import json
from pathlib import Path
from statistics import mean
from typing import Annotated, Any, NamedTuple

import typer
from wasabi import msg

from .machine import load_machine, write_rows
from .reference import SPLITS, train

RESULTS = Path(__file__).parent / "results" / "strategies.jsonl"
DATASET = "ncbi_disease"
PROTOCOLS = ("clean", "masked")
# Names of the maskings in the configs, and the views they are trained in.
STRATEGIES = (
    ("none", "clean"),
    ("token", "clean"),
    ("span", "clean"),
    ("pmi", "clean"),
    ("joint", "clean"),
    ("joint", "masked"),
)
TITLES = {"none": "none (vanilla)", "token": "BLM", "span": "SPAN", "pmi": "PMI", "joint": "joint"}


class Column(NamedTuple):
    title: str
    score: str
    scale: float


COLUMNS = (
    Column("EM", "mslm_em", 100),
    Column("F1", "ents_f", 100),
    Column("unseen EM", "mslm_em_unseen", 100),
    Column("PPL ELM", "mslm_ppl_elm", 1),
    Column("PPL BLM", "mslm_ppl_blm", 1),
    Column("confidence", "mslm_confidence", 100),
    Column("ECE raw", "mslm_ece_uncalibrated", 100),
    Column("ECE", "mslm_ece", 100),
)


def strategies(
    encoder: Annotated[Path, typer.Argument(help="Encoder folder, or hub name")],
    blurb: Annotated[Path, typer.Argument(help="Folder with <set>/{train,devel,test}.tsv")],
    output: Annotated[Path, typer.Argument(help="Folder for the runs")],
    seeds: Annotated[int, typer.Option(help="Seeds of each strategy")] = 2,
) -> None:
    """Train, calibrate and score every row of the table, and store the results."""
    from spacy_mslm.tasks import Protocol, build_pmi_vocabulary, calibrate, evaluate

    data = blurb / DATASET
    vocabulary = output / "pmi.txt"
    if not vocabulary.exists():
        build_pmi_vocabulary(data / SPLITS["train"], vocabulary)
    for seed in range(seeds):
        for masking, view in STRATEGIES:
            folder = output / f"{masking}-{view}-s{seed}"
            extra = ["--vars.view", view, "--system.seed", str(seed)]
            config = "vanilla"
            if masking != "none":
                config = "mslm"
                extra += ["--vars.masking", f"${{maskings.{masking}}}"]
                extra += ["--paths.pmi", str(vocabulary)]
            if not (folder / "trained").exists():
                train(config, folder, data, encoder, extra)
                (folder / "trained").touch()
            model = folder / "calibrated"
            if not model.exists():
                try:
                    calibrate(str(folder / "model-best"), data / SPLITS["dev"], model)
                except ValueError:  # the masked view predicts nothing on clean text
                    model = folder / "model-best"
            for protocol in Protocol:
                report = folder / f"{protocol.value}.json"
                if not report.exists():
                    data_path = data / SPLITS["test"]
                    evaluate(str(model), data_path, protocol=protocol, output=report)
            msg.good(folder.name)
    store(output)
    strategies_report()


def store(output: Path) -> None:
    """Store the evaluations of all runs next to this script."""
    rows = []
    paths = [output.glob(f"*-s*/{protocol}.json") for protocol in PROTOCOLS]
    for path in sorted(path for found in paths for path in found):
        masking, view, seed = path.parent.name.split("-")
        report = json.loads(path.read_text())
        kept = {column.score: report["scores"][column.score] for column in COLUMNS}
        run: dict[str, Any] = {"masking": masking, "view": view, "seed": int(seed[1:])}
        run |= {"protocol": report["protocol"], "machine": load_machine(path.parent)}
        rows.append({**run, **kept})
    write_rows(RESULTS, rows)


def strategies_report() -> None:
    """Print one table per protocol from the stored results."""
    rows = [json.loads(line) for line in RESULTS.read_text().splitlines()]
    for protocol in PROTOCOLS:
        msg.divider(f"Protocol: {protocol} text")
        table = []
        for masking, view in STRATEGIES:
            runs = [
                row
                for row in rows
                if (row["masking"], row["view"], row["protocol"]) == (masking, view, protocol)
            ]
            if runs:
                cells = [_cell(runs, column) for column in COLUMNS]
                table.append((TITLES[masking], view, len(runs), *cells))
        header = ("strategy", "view", "seeds", *(column.title for column in COLUMNS))
        msg.table(table, header=header, divider=True, aligns=("l", "l", *"r" * 9))


def _cell(runs: list[dict], column: Column) -> str:
    values = [run[column.score] for run in runs if run[column.score] is not None]
    return f"{column.scale * mean(values):.1f}" if values else "-"
