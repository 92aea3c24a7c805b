"""kill -9 at random moments. What was there stays whole, and the next run ends the same.

Two kinds of commands: those that replace an output, which has to be the old or the new one, and
those that continue, whose result has to be that of a run without an interruption.
"""

import random
import shutil
import signal
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import spacy
from spacy.cli.package import package
from spacy.tokens import DocBin
from spacy.training import Example

from spacy_mslm.pipeline.saving import safe_save
from spacy_mslm.tasks import (
    Mode,
    annotate,
    calibrate,
    convert,
    label,
    optimize,
    pretrain,
    train,
    verify,
)

from .experiment import Run
from .hostile import label_settings, write_notes
from .parts import ROOT, SENTENCES, Row, Work, files_of, run_forked, time_of

CONFIGS = ROOT / "configs"
# A run that continues is killed up to so many times before it may finish.
IN_A_ROW = 5
# Files with times or with the path of the output in them.
VARYING = (
    *("pretraining.json", "adaptation.json", "stats.json", "mslm_manifest.json", "card.md"),
    *("meta.json", "checkpoint.json", "config.cfg"),
)
# In a wheel: spaCy packs the README that it makes only if there was no folder of the package, and
# RECORD lists it.
OF_SPACY = ("README.md", "RECORD")

Task = Callable[[Path], object]
Make = Callable[[Work, Path], Task]


def write_iob(path: Path, n: int) -> Path:
    """Write an IOB file of `n` times the sentences."""
    nlp = spacy.blank("en")
    blocks = []
    for text, spans in SENTENCES:
        doc = Example.from_dict(nlp.make_doc(text), {"entities": spans}).reference
        tags = [f"{t.ent_iob_}-{t.ent_type_}" if t.ent_type_ else "O" for t in doc]
        rows = zip(doc, tags, strict=True)
        blocks.append("".join(f"{token.text}\t{tag}\n" for token, tag in rows))
    path.write_text("\n".join(blocks * n), encoding="utf8")
    return path


def write_dev(folder: Path, type_: str = "") -> Path:
    """Write a development set. With a type, it is that of all mentions."""
    nlp = spacy.blank("en")
    examples = []
    for text, spans in SENTENCES:
        entities = [(start, end, type_ or own) for start, end, own in spans]
        examples.append(Example.from_dict(nlp.make_doc(text), {"entities": entities}))
    DocBin(docs=[example.reference for example in examples]).to_disk(folder / "dev.spacy")
    return folder / "dev.spacy"


# ---- tasks, each of which gets a folder and returns what to run with an output ----


def saving(work: Work, folder: Path) -> Task:
    return lambda out: safe_save(work.nlp, out)


def calibrating(work: Work, folder: Path) -> Task:
    """In place, as by default."""
    dev = write_dev(folder)
    old = folder / "old"
    safe_save(work.nlp, old)

    def task(out: Path) -> None:
        if not out.exists():
            shutil.copytree(old, out)
        calibrate(str(out), dev)

    return task


def optimizing(work: Work, folder: Path) -> Task:
    import onnxruntime  # noqa: F401  once here, and not in each fork
    import torch.onnx._internal.exporter  # noqa: F401

    dev = write_dev(folder)
    safe_save(work.nlp, folder / "old")
    return lambda out: optimize(str(folder / "old"), out, Mode.onnx_int8, dev, force=True)


def converting(work: Work, folder: Path) -> Task:
    corpus = write_iob(folder / "in.tsv", 100)
    return lambda out: convert(corpus, out)


def packaging(work: Work, folder: Path) -> Task:
    safe_save(work.nlp, folder / "old")

    def task(out: Path) -> None:
        out.mkdir(exist_ok=True)
        named = {"name": "tiny", "version": "1.0.0", "force": True}
        package(folder / "old", out, **cast(Any, named), create_sdist=False, create_wheel=True)

    return task


def training(work: Work, folder: Path) -> Task:
    settings = training_settings(work, folder)
    path = CONFIGS / "mslm.cfg"
    return lambda out: train(path, out, settings, resume=True, checkpoint_every=3)


def adapting(work: Work, folder: Path) -> Task:
    """A teacher, the labels that it gives to plain text, and the encoder that learns from them."""
    stage = {"steps": 8, "teacher_steps": 8, "checkpoint_every": 2, "corpus.min_confidence": 0.0}
    return _with_stage(work, folder, CONFIGS / "mslm.cfg", stage)


def self_training(work: Work, folder: Path) -> Task:
    """Two teachers, and a student that learns from them."""
    stage = {"steps": 8, "teacher_steps": 30, "sure": 0.0, "batch_size": 4, "labelled": 2}
    rates = {"learn_rate": 0.003, "head_learn_rate": 0.01}
    stage |= {f"teacher_optimizer.{name}.rate": rate for name, rate in rates.items()}
    return _with_stage(work, folder, CONFIGS / "self_training.cfg", stage)


def _with_stage(work: Work, folder: Path, config: Path, stage: dict[str, Any]) -> Task:
    """A training whose initialisation adapts the encoder to text. `stage` has settings of that."""
    text = folder / "text.txt"
    text.write_text("the patient had asthma after aspirin .\n" * 20, encoding="utf8")
    settings = training_settings(work, folder) | {"paths.text": str(text), "training.max_steps": 2}
    settings |= {f"initialize.components.mslm.adaptation.{k}": v for k, v in stage.items()}

    def task(out: Path) -> None:
        out.mkdir(exist_ok=True)
        adapted = {"paths.adapted": str(out / "adapted")}
        train(config, out / "training", {**settings, **adapted}, resume=True)

    return task


def training_of_types(work: Work, folder: Path) -> Task:
    """`mini.cfg`: four corpora that each annotate some types, and the architecture v2."""
    types = {"ncbi_disease": "Disease", "bc5cdr": "Chemical", "bc2gm": "GENE", "jnlpba": "DNA"}
    for name, type_ in types.items():
        (folder / name).mkdir()
        shutil.copy(write_dev(folder / name, type_), folder / name / "train.spacy")
    settings = {
        **{f"paths.{name}": str(folder / name) for name in types},
        "vars.encoder": str(work.encoder),
        "training.max_steps": 12,
        "training.eval_frequency": 4,
        "training.batcher.size": 4,
    }
    path = CONFIGS / "mini.cfg"
    return lambda out: train(path, out, settings, resume=True, checkpoint_every=3)


def training_settings(work: Work, folder: Path) -> dict[str, Any]:
    """Write corpora, and return settings of a training of twelve updates."""
    return {
        "paths.train": str(write_iob(folder / "train.tsv", 8)),
        "paths.dev": str(write_iob(folder / "dev.tsv", 1)),
        "vars.encoder": str(work.encoder),
        "training.max_steps": 12,
        "training.eval_frequency": 4,
        "training.batcher.size": 4,
        "system.seed": 1,
    }


def pretraining(work: Work, folder: Path) -> Task:
    text = folder / "text.txt"
    text.write_text("".join(f"{text}\n" for text, _ in SENTENCES * 60), encoding="utf8")
    settings = {
        "paths.text": str(text),
        "vars.size": "tiny",
        "pretraining.vocab_size": 60,
        "pretraining.steps": 12,
        "pretraining.batch_size": 2,
        "pretraining.length": 16,
        "pretraining.checkpoint_every": 2,
    }
    return lambda out: pretrain(CONFIGS / "pretrain.cfg", out, settings)


def labelling(work: Work, folder: Path) -> Task:
    settings = label_settings(folder, _notes(400))
    return lambda out: label(CONFIGS / "weak.cfg", {**settings, "paths.output": str(out)})


def annotating(work: Work, folder: Path) -> Task:
    safe_save(work.nlp, folder / "old")
    write_notes(folder / "notes.jsonl", _notes(200))
    arguments = (str(folder / "old"), folder / "notes.jsonl")
    return lambda out: annotate(*arguments, out, chunk=10, jobs=1)


def _notes(n: int) -> list[str]:
    return [f"Note {i}. " + " ".join(text for text, _ in SENTENCES * 3) for i in range(n)]


# ---- outputs that are replaced ----


def kill_replacing(
    name: str, make: Make, output: str = "out", sent: int = signal.SIGKILL, pipeline: bool = True
) -> Callable[[Work], Run]:
    """Return an experiment whose cases are kills of a command that replaces its output.

    After a kill the output has to be the old or the new one. After the last one, the command is run
    to its end, and nothing else may be left in the folder.

    Args:
        name: The name of the row.
        make: Makes the task.
        output: The name of the output.
        sent: The signal. After SIGINT, the interrupted process itself has to leave nothing.
        pipeline: Whether the output is a pipeline, which is verified by its manifest. Other outputs
            have the same bytes each time.
    """

    def prepare(work: Work) -> Run:
        folder = work.new(name.replace(" ", "_"))
        task = make(work, folder)
        out = folder / output
        duration = time_of(lambda: task(out))
        expected, entries = contents(out), _entries(folder)

        def is_whole() -> bool:
            if not pipeline:
                return contents(out) == expected
            found = verify(str(out))
            return not found.faults and not found.unknown

        def run(cases: range) -> list[Row]:
            draw = random.Random(f"{name} {cases.start}")
            killed = good = attempts = 0
            while killed < len(cases):
                attempts = _next_attempt(name, attempts, len(cases))
                code = run_forked(lambda: task(out), draw.uniform(0, duration), sent)
                if code == 0:
                    continue
                killed += 1
                if sent == signal.SIGKILL:
                    good += is_whole() and code == -signal.SIGKILL
                else:
                    good += is_whole() and _entries(folder) == entries
            ended = run_forked(lambda: task(out)) == 0
            if not (ended and is_whole() and _entries(folder) == entries):
                good = 0
            return [Row(name, killed, good, wrong=killed - good)]

        return run

    return prepare


# ---- outputs that are continued ----


def kill_continued(
    name: str,
    make: Make,
    check: Callable[[Path], bool] | None = None,
    sent: int = signal.SIGKILL,
) -> Callable[[Work], Run]:
    """Return an experiment whose cases are kills of a command that continues.

    A run is killed up to five times and then ends. Its kills are survived if it ends with the files
    of a run that was not killed.

    Args:
        name: The name of the row.
        make: Makes the task.
        check: Returns whether an unfinished output is as it may be.
        sent: The signal.
    """

    def prepare(work: Work) -> Run:
        folder = work.new(name.replace(" ", "_"))
        task = make(work, folder)
        whole, out = folder / "whole", folder / "out"
        duration = time_of(lambda: task(whole))
        expected = contents(whole)

        def run(cases: range) -> list[Row]:
            draw = random.Random(f"{name} {cases.start}")
            killed = good = attempts = 0
            while killed < len(cases):
                attempts = _next_attempt(name, attempts, len(cases))
                shutil.rmtree(out, ignore_errors=True)
                own, is_good = 0, True
                while own < min(IN_A_ROW, len(cases) - killed):
                    code = run_forked(lambda: task(out), draw.uniform(0, duration), sent)
                    if code == 0:
                        break
                    own += 1
                    as_sent = sent != signal.SIGKILL or code == -signal.SIGKILL
                    is_good = is_good and as_sent and (check is None or check(out))
                same = run_forked(lambda: task(out)) == 0 and contents(out) == expected
                killed += own
                good += own if same and is_good else 0
            return [Row(name, killed, good, wrong=killed - good)]

        return run

    return prepare


def _next_attempt(name: str, attempts: int, kills: int) -> int:
    if attempts >= 20 * kills:
        raise RuntimeError(f"{name} ends before it can be killed")
    return attempts + 1


def contents(path: Path) -> dict[str, bytes]:
    """Return the content of a file, of the wheels in a folder, or else of its files, but those with
    times or paths in them."""
    if path.is_file():
        return {"": path.read_bytes()}
    wheels = [zipfile.ZipFile(wheel) for wheel in path.rglob("*.whl")]  # a zip file has times
    if wheels:
        return {
            name: wheel.read(name)
            for wheel in wheels
            for name in wheel.namelist()
            if Path(name).name not in OF_SPACY
        }
    return {n: data for n, data in files_of(path).items() if Path(n).name not in VARYING}


def has_no_broken_wheel(out: Path) -> bool:
    """Return whether there is no wheel, a good one, or one that cannot be installed."""
    for path in out.glob("*/dist/*.whl"):
        try:
            if zipfile.ZipFile(path).testzip() is not None:
                return False
        except zipfile.BadZipFile:
            continue
    return True


def _entries(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}
