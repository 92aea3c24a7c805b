"""One word of a person is in the input of every command, and only in the outputs that are meant to
hold text: not in a log, an error, a temporary file or a file of a model."""

import csv
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import srsly
import typer

from spacy_mslm.cli import mslm_cli

from .commands import run_spacy
from .conftest import build_encoder
from .helpers import DEV, TRAIN, write_iob, write_terms

ROOT = Path(__file__).parents[1]
CANARY = "qxsecretname"
SETTINGS = {
    "training.max_steps": 30,
    "training.eval_frequency": 15,
    "training.optimizer.learn_rate.rate": 0.003,
    "training.optimizer.head_learn_rate.rate": 0.01,
    "components.mslm.model.window": 40,
    "components.mslm.model.context": 8,
    "initialize.components.mslm.adaptation.steps": 3,
    "initialize.components.mslm.adaptation.teacher_steps": 30,
    "initialize.components.mslm.adaptation.corpus.min_confidence": 0.0,
}
# What is meant to hold text of its input, below the folder of the test.
HOLDS_TEXT = ("input/", "corpus/", "weak/", "pmi.txt", "review.jsonl", "heatmap.html", "apply/")
# These show the text that they are given.
SHOWS_TEXT = ("try",)
# These get no text on the command line: for the server, see tests/server/test_serve.py.
WITHOUT_TEXT = {"weak medcat-setup", "serve"}
# A new vocabulary has the words of its text that occur twice or more.
HOLDS_TEXT += ("project/corpus/", "new_encoder/tokenizer.json", "new_encoder/vocab.txt")
# Ends a training once, as the out-of-memory killer does.
STOP = """
import os, signal
from pathlib import Path
from spacy.util import registry

@registry.callbacks("tests.kill.v1")
def make_kill(step):
    def before_update(nlp, at):
        if at["step"] == step and Path("input/kill").exists():
            Path("input/kill").unlink()
            os.kill(os.getpid(), signal.SIGKILL)
    return before_update
"""


def options(settings: dict[str, object]) -> list[str]:
    return [text for name, value in settings.items() for text in (f"--{name}", str(value))]


def holders(folder: Path) -> Iterator[str]:
    """Yield the files and folders with the canary in their content or name."""
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        data = path.read_bytes() if path.is_file() else b""
        if CANARY.encode() in data or CANARY.encode("utf-16-le") in data or CANARY in name:
            yield name


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("privacy")
    given = folder / "input"
    given.mkdir()
    (folder / "apply").mkdir()
    (given / "set").mkdir()
    write_iob(given / "set" / "train.tsv", TRAIN * 6)
    write_iob(given / "set" / "devel.tsv", DEV)
    write_iob(given / "set" / "test.tsv", DEV)
    (given / "text.txt").write_text(
        f"the patient {CANARY} had asthma after aspirin .\nno history of renal failure .\n" * 30
    )
    write_terms(given / "terms.tsv", [("asthma", "T047"), ("aspirin", "T121")])
    with (given / "notes.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["ROW_ID", "SUBJECT_ID", "TEXT"])
        for i in range(40):
            writer.writerow([i, i, f"Mr {CANARY} had asthma. He took aspirin, 3 mg."])
    build_encoder(given / "encoder")
    (given / "stop.py").write_text(STOP)
    (given / "kill").touch()
    (given / "assets" / "ncbi_disease").mkdir(parents=True)
    write_iob(given / "assets" / "ncbi_disease" / "train.tsv", TRAIN)
    spec = {
        "split": "dev",
        "sets": {"one": {"train": "corpus/train.spacy", "dev": "corpus/dev.spacy"}},
        "seeds": [0],
        "encoder": "input/encoder",
        "overrides": SETTINGS,
        "trials": {"x": {"config": str(ROOT / "configs" / "mslm.cfg")}},
    }
    srsly.write_yaml(given / "spec.yml", spec)
    broken = {
        "broken.tsv": f"{CANARY}\tI-\n\x00{CANARY}\n",
        "broken.jsonl": f'{{"text": "{CANARY}", "spans": [{{"start": 0, "end": 99}}]}}\n{CANARY}\n',
        "broken.csv": f'ROW_ID,TEXT\n1,"{CANARY}\n2,{CANARY}\n',
        "broken.xml": f"<collection><document><id>1</id>{CANARY}</collection>",
        "broken.txt": f"1|t|{CANARY}\n1\t0\t5\t{CANARY}\tDisease\n",
    }
    for name, text in broken.items():
        (given / name).write_text(text)
    return folder


def commands() -> list[tuple[bool, list[str]]]:
    """Return the commands with whether they succeed, in an order in which each has its input."""
    pipeline = "training/model-best"
    paths = {"paths.train": "corpus/train.spacy", "paths.dev": "corpus/dev.spacy"}
    trained = {**paths, "vars.encoder": "input/encoder", **SETTINGS}
    mslm, config = ["mslm"], str(ROOT / "configs" / "mslm.cfg")
    kill = '{"@callbacks": "tests.kill.v1", "step": 12}'
    resumed = [*mslm, "train", config, "--output", "resumed", "--code", "input/stop.py"]
    resumed += ["--resume", "--checkpoint-every", "5"]
    resumed += options({**trained, "training.before_update": kill})
    adapted = {**trained, "paths.text": "input/text.txt", "paths.adapted": "adapted"}
    adapted["training.logger.output_file"] = "training.jsonl"
    export = [*mslm, "export", pipeline, "--train", "corpus/train.spacy"]
    export += ["--dev", "corpus/dev.spacy"]
    notes = {
        "paths.notes": "input/notes.csv",
        "paths.terms": "input/terms.tsv",
        "paths.clusters": str(ROOT / "assets" / "semantic_types.yml"),
    }
    weak = ["mslm", "weak"]
    labelling = str(ROOT / "configs" / "weak.cfg")
    tiny = {"paths.text": "input/text.txt", "vars.size": "tiny", "pretraining.steps": 2}
    tiny |= {"pretraining.length": 16, "pretraining.batch_size": 2, "pretraining.vocab_size": 90}
    pretraining = str(ROOT / "configs" / "pretrain.cfg")
    return [
        (True, [*mslm, "convert", "input/set", "corpus"]),
        (True, [*mslm, "init", "input/set", "project", "--encoder", "input/encoder"]),
        (True, [*mslm, "train", config, "--output", "training", *options(adapted)]),
        (True, ["train", config, "--output", "plain", *options(trained)]),
        *((succeeds, resumed) for succeeds in (False, True)),  # killed, and continued
        (True, ["apply", pipeline, "input/text.txt", "apply/docs.spacy"]),
        (True, [*mslm, "evaluate", pipeline, "corpus/dev.spacy", "-o", "metrics/set/vanilla.json"]),
        (True, [*mslm, "evaluate", pipeline, "corpus/dev.spacy", "--protocol", "masked"]),
        (True, [*mslm, "calibrate", pipeline, "corpus/train.spacy"]),
        (True, [*mslm, "card", pipeline]),
        (True, [*mslm, "verify", pipeline]),
        (True, [*mslm, "try", f"Mr {CANARY} had asthma.", "--model", pipeline]),
        (True, [*export, "exported/mlm", "--to", "hf-mlm"]),
        (True, [*export, "exported/classifier", "--to", "hf-token-classification"]),
        (True, [*export, "exported/onnx", "--to", "onnx"]),
        (True, [*mslm, "optimize", pipeline, "fast", "--mode", "onnx", "--force"]),
        (True, [*mslm, "annotate", pipeline, "input/notes.csv", "entities.jsonl", "-j", "1"]),
        (True, [*mslm, "pmi", "corpus/train.spacy", "pmi.txt"]),
        (True, [*mslm, "heatmap", pipeline, "input/text.txt", "-o", "heatmap.html"]),
        (True, [*mslm, "report", "metrics", "report"]),
        (True, [*mslm, "pretrain", pretraining, "new_encoder", *options(tiny)]),
        (True, [*mslm, "sweep", "input/spec.yml", "sweep"]),
        (True, [*mslm, "paper", "--results", "sweep", "--output", "paper"]),
        (True, [*mslm, "curves", "training.jsonl", "curves.png"]),
        (False, [*mslm, "tune", config, "tuned", "--minutes", "0", *options(trained)]),
        (True, [*mslm, "shrink", "input/encoder", "shrunk", "--layers", "0"]),
        (True, [*weak, "label", labelling, *options({**notes, "paths.output": "weak"})]),
        (True, [*weak, "terms", labelling, *options(notes)]),
        (True, [*weak, "review", "weak/train", "review.jsonl"]),
        (True, [*weak, "score", labelling, "corpus/dev.spacy", *options(notes)]),
        # Input that is broken, or not what the command expects.
        *(
            (False, [*mslm, "convert", f"input/broken.{end}", "o.spacy"])
            for end in ("tsv", "jsonl")
        ),
        *((False, [*mslm, "convert", f"input/broken.{end}", "o.spacy"]) for end in ("xml", "txt")),
        (False, [*mslm, "init", "input/broken.tsv", "o"]),
        (
            False,
            [*weak, "label", labelling, *options({**notes, "paths.notes": "input/broken.csv"})],
        ),
        (False, [*mslm, "annotate", pipeline, "input/broken.csv", "o.jsonl", "-j", "1"]),
        (False, [*mslm, "evaluate", pipeline, "input/text.txt"]),
        (False, [*mslm, "fetch", "ncbi_disease", "fetched", "--assets", "input/assets"]),
        (False, [*mslm, "pmi", "input/broken.tsv", "o.txt"]),
        (False, [*mslm, "heatmap", pipeline, "input/broken.tsv", "-o", "o.html"]),
        (False, [*weak, "review", "input/broken.jsonl", "o.jsonl"]),
        (False, [*mslm, "pretrain", pretraining, "o", "--paths.text", "input/broken.jsonl"]),
    ]


def names(group: typer.Typer, before: str = "") -> Iterator[str]:
    """Yield the names of all commands: "convert", "weak label", ..."""
    for info in group.registered_groups:
        yield from names(info.typer_instance, f"{before}{info.name} ")
    for command in group.registered_commands:
        yield before + (command.name or command.callback.__name__.replace("_", "-"))


def test_every_command_gets_the_canary():
    """A new command fails here until `commands` has it."""
    tried = {
        " ".join(command[1:3] if command[1] == "weak" else command[1:2])
        for _, command in commands()
        if command[0] == "mslm"
    }
    assert set(names(mslm_cli)) - WITHOUT_TEXT == tried


@pytest.mark.slow
def test_text_is_only_where_it_is_meant_to_be(folder):
    temporary = folder / "tmp"
    temporary.mkdir()
    for succeeds, command in commands():
        done: subprocess.CompletedProcess[str] = run_spacy(
            *command, cwd=folder, TMPDIR=str(temporary), COLUMNS="500"
        )
        said = done.stdout + done.stderr
        assert (done.returncode == 0) == succeeds, f"{command}: {said}"
        assert CANARY not in said or command[1] in SHOWS_TEXT, command
        assert "Traceback" not in said, f"{command}: {said}"
        found = set(holders(folder))  # also the files that the next command removes
        assert {name for name in found if not name.startswith(HOLDS_TEXT)} == set(), command
    assert {"heatmap.html", "input/notes.csv"} <= found
    assert not list(folder.rglob(".*.partial"))
