"""Run the trials of a spec: `spacy train` (overrides × sets × seeds), scored on clean text.

A spec is a YAML file, see `benchmarks/specs`. Each trial has its own folder and, once scored, one
line in the results file of the spec. Trials that have a line are skipped; a trial that was killed
starts again. Several runners can work on one spec at the same time.
"""

import base64
import contextlib
import fcntl
import gzip
import json
import os
import random
import shutil
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import spacy
import srsly
import typer
from spacy.language import Language
from wasabi import msg

from spacy_mslm.corpus.formats.iob import read_iob
from spacy_mslm.corpus.readers import make_corpus
from spacy_mslm.scoring.scorer import EntityScorer
from spacy_mslm.text.plain_texts import letters
from spacy_mslm.training.adaptation import RECORD
from spacy_mslm.util.files import replace_file

from .accuracy_report import accuracy_report
from .machine import describe_machine
from .reference import CONFIGS, SPLITS

ROOT = Path(__file__).parents[1]
SPECS = Path(__file__).parent / "specs"
RESULTS = Path(__file__).parent / "results" / "accuracy"
# The counts that are stored for each sentence, in this order.
COUNTS = ("gold", "predicted", "exact", "gold_unseen", "exact_unseen")


class Trial(NamedTuple):
    """One training run.

    overrides: Settings of the config, as in the options of `spacy train`.
    drop_mentions: Share of the training mentions to leave out.
    keep: Keep the pipeline in the folder of the trial, `model-last`, as a teacher of other trials.
    """

    name: str
    set: str
    seed: int
    config: str
    overrides: dict[str, Any]
    drop_mentions: float
    keep: bool

    @property
    def key(self) -> str:
        return f"{self.name}-{self.set}-s{self.seed}"


class Spec(NamedTuple):
    """The content of a spec.

    split: The split that trials are scored on, `dev` or `test`.
    text: Text for adaptation. It is copied to the folder of the trials as `text.txt.gz`, without
        the sentences of dev and test sets.
    bf16: Train in bfloat16, see `scripts/bf16.py`.
    """

    split: str
    data: Path
    encoder: str
    text: Path | None
    bf16: bool
    trials: list[Trial]


def accuracy(
    spec: Annotated[str, typer.Argument(help="A spec of trials, or `report`")],
    results: Annotated[
        list[Path] | None,
        typer.Argument(help="With `report`: result files [default: the stored ones]"),
    ] = None,
    output: Annotated[Path, typer.Option(help="Folder for the trials")] = ROOT
    / "training"
    / "accuracy",
    store: Annotated[Path, typer.Option(help="Folder for the results")] = RESULTS,
    detach: Annotated[bool, typer.Option(help="Run in the background and write a log")] = False,
    against: Annotated[str, typer.Option(help="With `report`: trial to compare with")] = "vanilla",
) -> None:
    """Run the trials of a spec one after another, or report results."""
    if spec == "report":
        accuracy_report(results or sorted(store.glob("*.jsonl")), against)
        return
    path = Path(spec)
    folder = (output / path.stem).resolve()  # trials run elsewhere, in the project's root
    folder.mkdir(parents=True, exist_ok=True)
    store.mkdir(parents=True, exist_ok=True)
    if detach:
        log = folder / f"runner-{os.getpid()}.log"
        arguments = [a for a in sys.argv[1:] if a != "--detach"]
        with log.open("w") as file:
            subprocess.Popen(
                [sys.executable, "-m", "benchmarks", *arguments],
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        msg.info(f"Running in the background, log: {log}")
        return
    run_trials(read_spec(path, folder), folder, store / f"{path.stem}.jsonl")


def read_spec(path: Path, folder: Path) -> Spec:
    """Read a spec.

    Args:
        path: The YAML file.
        folder: The folder of the trials. In overrides, `{output}`, `{set}` and `{seed}` are
            replaced by it, the set and the seed.
    """
    spec = srsly.read_yaml(path)
    trials = []
    for name, trial in spec["trials"].items():
        # All sets with the first seed come first, so that a queue that ends early has them.
        for seed in trial.get("seeds", spec["seeds"]):
            for dataset in trial.get("sets", spec["sets"]):
                overrides = {**spec.get("overrides", {}), **trial.get("overrides", {})}
                marks = {"{output}": str(folder), "{set}": dataset, "{seed}": str(seed)}
                for key, value in overrides.items():
                    if isinstance(value, str):
                        for mark, meant in marks.items():
                            value = value.replace(mark, meant)
                        overrides[key] = value
                trials.append(
                    Trial(
                        *(name, dataset, seed, trial["config"], overrides),
                        drop_mentions=trial.get("drop_mentions", 0.0),
                        keep=trial.get("keep", False),
                    )
                )
    text = ROOT / spec["text"] if "text" in spec else None
    data, encoder = ROOT / spec["data"], str(ROOT / spec["encoder"])
    return Spec(spec["split"], data, encoder, text, spec.get("bf16", False), trials)


def run_trials(spec: Spec, folder: Path, results: Path) -> None:
    """Run the trials without a result. Wait for those that another runner works on, or that need
    an encoder which is being adapted there."""
    if spec.text is not None and not (folder / "text.txt.gz").exists():
        write_text(spec.text, spec.data, folder / "text.txt.gz")
    while left := [trial for trial in spec.trials if trial.key not in _done(results)]:
        if not any([_try_trial(spec, trial, folder, results) for trial in left]):
            time.sleep(10)


def _try_trial(spec: Spec, trial: Trial, folder: Path, results: Path) -> bool:
    """Run a trial unless another runner has it; return whether it was run."""
    adapted = ROOT / trial.overrides.get("paths.adapted", folder)
    with contextlib.ExitStack() as stack:
        for name in (trial.key, "" if adapted.exists() else f"{adapted.name}.adapting"):
            if name and not stack.enter_context(_claimed(folder / f"{name}.lock")):
                return False
        if trial.key in _done(results):
            return False
        row = run_trial(spec, trial, folder / trial.key)
        _store(row, results)
        msg.good(f"{trial.key}: F1 {100 * row['f']:.1f} ({row['cpu_seconds']} CPU s)")
        return True


@contextlib.contextmanager
def _claimed(path: Path) -> Iterator[bool]:
    """Try to lock a file, and yield whether this process has the lock."""
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def _store(row: dict[str, Any], results: Path) -> None:
    """Append a line in one write, so that a runner that is killed leaves no partial line."""
    with results.open("ab", buffering=0) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write((json.dumps(row) + "\n").encode("ascii"))


def _done(results: Path) -> set[str]:
    if not results.exists():
        return set()
    with results.open() as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        rows = [json.loads(line) for line in file]
    return {f"{row['trial']}-{row['set']}-s{row['seed']}" for row in rows}


def run_trial(spec: Spec, trial: Trial, folder: Path) -> dict[str, Any]:
    """Train, score the last checkpoint (the learn rate ends at 0), and delete its weights."""
    folder.mkdir(parents=True, exist_ok=True)
    data = spec.data / trial.set
    train = data / SPLITS["train"]
    if trial.drop_mentions:
        train = drop_mentions(train, folder / "train.tsv", trial.drop_mentions)
    command = [
        sys.executable,
        *([str(ROOT / "scripts" / "bf16.py")] if spec.bf16 else ["-m"]),
        *("spacy", "train", str(CONFIGS / f"{trial.config}.cfg")),
        *("--output", str(folder), "--paths.train", str(train)),
        *("--paths.dev", str(data / SPLITS["dev"]), "--vars.encoder", spec.encoder),
        *("--system.seed", str(trial.seed)),
    ]
    for name, value in trial.overrides.items():
        command += [f"--{name}", value if isinstance(value, str) else json.dumps(value)]
    adapted = trial.overrides.get("paths.adapted")
    adapts = adapted is not None and not (ROOT / adapted).exists()
    start = _children_cpu()
    with (folder / "train.log").open("w") as log:
        result = subprocess.run(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)
    if result.returncode:
        msg.fail(f"{trial.key} failed, see {folder / 'train.log'}", exits=1)
    cpu_seconds = _children_cpu() - start
    adaptation = 0
    if adapted is not None:
        adaptation = srsly.read_json(ROOT / adapted / RECORD)["cpu_seconds"]
    limit, seed = (trial.overrides.get(f"vars.{name}", 0) for name in ("limit", "sample_seed"))
    nlp = spacy.load(folder / "model-last")
    scores, counts = score(nlp, data / SPLITS[spec.split], train, limit, seed)
    for model in ["model-best"] if trial.keep else ["model-best", "model-last"]:
        shutil.rmtree(folder / model)
    return {
        "trial": trial.name,
        "set": trial.set,
        "seed": trial.seed,
        "split": spec.split,
        "config": trial.config,
        **scores,
        # Training, and the adaptation it starts from, whichever trial made that.
        "cpu_seconds": round(cpu_seconds - adapts * adaptation),
        "adaptation_cpu_seconds": adaptation,
        "machine": describe_machine(),
        "counts": pack(counts),
    }


def _children_cpu() -> float:
    times = os.times()
    return times.children_user + times.children_system


def write_text(source: Path, data: Path, target: Path) -> None:
    """Copy plain text (one sentence per line) without the sentences of dev and test sets."""
    held_out = {
        letters(" ".join(sentence.words))
        for split in ("dev", "test")
        for path in data.glob(f"*/{SPLITS[split]}")
        for sentence in read_iob(path)
    }
    with gzip.open(source, "rt", encoding="utf8") as file:
        kept = [line for line in file if letters(line) not in held_out]
    replace_file(target, gzip.compress("".join(kept).encode("utf8")))


def drop_mentions(source: Path, target: Path, share: float) -> Path:
    """Copy an IOB file without a random share of its mentions, as if annotators missed them."""
    generator = random.Random(0)
    lines = []
    for sentence in read_iob(source):
        tags = ["O"] * len(sentence.words)
        for start, end, label in sentence.mentions:
            if generator.random() >= share:
                tags[start:end] = [f"B-{label}"] + [f"I-{label}"] * (end - start - 1)
        lines += [f"{word}\t{tag}" for word, tag in zip(sentence.words, tags, strict=True)]
        lines.append("")
    replace_file(target, ("\n".join(lines) + "\n").encode("utf8"))
    return target


def score(
    nlp: Language, data: Path, train: Path, limit: int, seed: int
) -> tuple[dict[str, float | None], np.ndarray]:
    """Score a pipeline on clean text.

    Args:
        nlp: The pipeline.
        data: The annotated text.
        train, limit, seed: The training set, which tells seen from unseen mentions.

    Returns:
        The scores, and (sentences, COUNTS) the counts of each sentence.
    """
    examples = list(make_corpus(data)(nlp))
    docs = list(nlp.pipe((example.predicted for example in examples), batch_size=256))
    scorer = EntityScorer(train=str(train), limit=limit, seed=seed)
    counts = np.zeros((len(examples), len(COUNTS)), dtype=np.uint8)
    for i, (example, doc) in enumerate(zip(examples, docs, strict=True)):
        example.predicted = doc
        counts[i] = sentence_counts(scorer([example]))
    gold, predicted, exact, gold_unseen, exact_unseen = counts.sum(axis=0, dtype=int).tolist()
    ece = scorer(examples)["mslm_ece"]
    return {
        "p": exact / max(predicted, 1),
        "em": exact / max(gold, 1),
        "f": 2 * exact / max(gold + predicted, 1),
        "em_unseen": exact_unseen / max(gold_unseen, 1),
        "ece": ece,
    }, counts


def sentence_counts(scores: Mapping[str, Any]) -> list[int]:
    found = scores["mslm_counts"]
    unseen = found["gold_unseen"]
    hits = round((scores["mslm_em_unseen"] or 0.0) * unseen)
    return [found["gold"], found["predicted"], found["exact"], unseen, hits]


def pack(counts: np.ndarray) -> str:
    """Encode (sentences, COUNTS) counts as text for JSON; see `accuracy_report.unpack`."""
    return base64.b64encode(zlib.compress(counts.tobytes(), 9)).decode("ascii")
