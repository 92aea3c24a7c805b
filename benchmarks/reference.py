"""Train the reference recipe (spaCy's own ner, vanilla, each view), and score it on clean text.

Every run is `spacy train` on a shipped config with 2,500 training sentences (shuffled with seed 0),
scored on the test set. It has its own folder and is skipped if it has been scored.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import mean, stdev
from typing import Annotated, NamedTuple

import spacy
import typer
from wasabi import msg

from .machine import load_machine, save_machine, write_rows

CONFIGS = Path(__file__).parents[1] / "configs"
RESULTS = Path(__file__).parent / "results" / "reference.jsonl"
PAPER_WEIGHTS = (
    '{"@misc": "spacy_mslm.MaskSpecificWeights.v1", "threshold": 0.5, "temperature": 1.0}'
)
# The masked LM is trained together with tagging, as in the paper; in mslm.cfg it comes before.
BESIDE_TAGGING = [
    *("--components.mslm.loss_weights.mlm", "0.1", "--vars.mask_weights", PAPER_WEIGHTS),
    *("--vars.elm_rate", "1.0", "--vars.blm_rate", "0.075"),
]
SPLITS = {"train": "train.tsv", "dev": "devel.tsv", "test": "test.tsv"}


class Run(NamedTuple):
    config: str
    view: str
    dataset: str
    seed: int

    @property
    def folder(self) -> str:
        return f"{self.config}-{self.view}-{self.dataset}-s{self.seed}"


def table_of_runs(seeds: int) -> Iterator[Run]:
    for seed in range(seeds):
        yield Run("spacy_ner", "clean", "ncbi_disease", seed)
        yield Run("vanilla", "clean", "ncbi_disease", seed)
        for view in ("clean", "mixed", "masked"):
            yield Run("mslm", view, "ncbi_disease", seed)
    yield Run("mslm", "clean", "bc5cdr", 0)


def reference(
    encoder: Annotated[Path, typer.Argument(help="Encoder folder, or hub name")],
    blurb: Annotated[Path, typer.Argument(help="Folder with <set>/{train,devel,test}.tsv")],
    output: Annotated[Path, typer.Argument(help="Folder for the runs")],
    seeds: Annotated[int, typer.Option(help="Seeds of each config")] = 2,
) -> None:
    """Train and score every row of the table, and skip those with a score."""
    for run in table_of_runs(seeds):
        folder = output / run.folder
        if (folder / "test.json").exists():
            continue
        data = blurb / run.dataset
        start = time.perf_counter()
        extra = ["--vars.view", run.view, "--system.seed", str(run.seed)]
        train(run.config, folder, data, encoder, extra)
        seconds = time.perf_counter() - start
        score_run(folder, data / SPLITS["test"])
        msg.good(f"{run.folder} ({seconds:.0f} s)")


def train(
    config: str, folder: Path, data: Path, encoder: Path, extra: list[str], limit: int = 2500
) -> None:
    """Run `spacy train` on a shipped config with `limit` sentences; write a log to the folder."""
    if config == "mslm":
        extra = [*BESIDE_TAGGING, *extra]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "train.log").open("w") as log:
        subprocess.run(
            [
                *(sys.executable, "-m", "spacy", "train", str(CONFIGS / f"{config}.cfg")),
                *("--output", str(folder)),
                *("--paths.train", str(data / SPLITS["train"])),
                *("--paths.dev", str(data / SPLITS["dev"])),
                *("--vars.encoder", str(encoder), "--vars.limit", str(limit), *extra),
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
            check=True,
        )
    save_machine(folder)


def score_run(folder: Path, test: Path) -> None:
    """Score the checkpoint that was best on dev, on clean test text."""
    from spacy_mslm.corpus.readers import make_corpus

    nlp = spacy.load(folder / "model-best")
    scores = nlp.evaluate(list(make_corpus(test)(nlp)))
    (folder / "test.json").write_text(json.dumps(scores, indent=2))


def report(
    output: Annotated[
        Path | None, typer.Argument(help="Folder of runs [default: the stored results]")
    ] = None,
) -> None:
    """Print the table; with a folder, first store its results next to this script."""
    if output is not None:
        rows = []
        for path in sorted(output.glob("*/test.json")):
            config, view, dataset, seed = path.parent.name.rsplit("-", 3)
            scores = json.loads(path.read_text())
            kept = {k: scores[k] for k in ("ents_p", "ents_r", "ents_f", "mslm_type_acc")}
            run = {"config": config, "view": view, "set": dataset, "seed": seed}
            rows.append({**run, "machine": load_machine(path.parent), **kept})
        write_rows(RESULTS, rows)
    groups: dict[tuple[str, str, str], list[dict]] = {}
    for line in RESULTS.read_text().splitlines():
        row = json.loads(line)
        groups.setdefault((row["set"], row["config"], row["view"]), []).append(row)
    table = []
    for (dataset, config, view), runs in sorted(groups.items()):
        f = [100 * run["ents_f"] for run in runs]
        cells = [f"{100 * mean(run[k] for run in runs):.1f}" for k in ("ents_p", "ents_r")]
        types = [run["mslm_type_acc"] for run in runs if run["mslm_type_acc"] is not None]
        table.append(
            [
                *(dataset, config, view, len(runs), *cells, f"{mean(f):.1f}"),
                f"{stdev(f):.1f}" if len(f) > 1 else "-",
                f"{100 * mean(types):.1f}" if types else "-",
            ]
        )
    msg.info("Protocol: clean text, test set, checkpoint chosen on dev")
    header = ["set", "config", "view", "seeds", "P", "EM = R", "F1", "sd", "type acc."]
    msg.table(table, header=header, divider=True, aligns=("l", "l", "l", *"rrrrrr"))
