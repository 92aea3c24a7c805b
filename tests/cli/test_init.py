"""`spacy mslm init`: a project for the user's own corpus, and the mistakes that it tells."""

import json
import shutil
from pathlib import Path

import pytest
import srsly
from spacy.tokens import DocBin
from spacy.util import load_config, registry
from typer.testing import CliRunner
from weasel.util.config import load_project_config

from spacy_mslm.cli import app
from spacy_mslm.tasks import start_project
from spacy_mslm.tasks.starting.recipe import config_path

from ..commands import run_spacy
from ..conftest import TEXTS, build_encoder
from ..helpers import DEV, TRAIN, read_docs, write_iob

CONFIGS = Path(__file__).parents[2] / "configs"
UNLABELLED = "the patient had asthma after aspirin .\nno history of renal failure .\n"


@pytest.fixture(scope="module")
def work(tmp_path_factory) -> Path:
    """Annotated files of one and of two types, in three formats, and an encoder."""
    root = tmp_path_factory.mktemp("init")
    build_encoder(root / "encoder", max_position_embeddings=300)
    notes = []
    (root / "brat").mkdir()
    for number in range(40):
        text, entities = TEXTS[number % 4]
        text = f"{text} day {number}"
        notes.append({"text": text, "entities": entities, "patient": number // 2})
        (root / "brat" / f"{number}.txt").write_text(text)
        lines = [
            f"T{i}\t{label} {start} {end}\t{text[start:end]}\n"
            for i, (start, end, label) in enumerate(entities)
            if label == "Disease"
        ]
        (root / "brat" / f"{number}.ann").write_text("".join(lines))
    (root / "notes.jsonl").write_text("".join(json.dumps(note) + "\n" for note in notes))
    write_iob(root / "my_train.tsv", TRAIN * 6)
    write_iob(root / "my_dev.tsv", DEV * 3)
    write_iob(root / "my_test.tsv", DEV * 2)
    (root / "text.txt").write_text(UNLABELLED)
    return root


def init(*arguments: object) -> str:
    """What the command prints, on one line."""
    result = CliRunner().invoke(app, ["mslm", "init", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


def fail(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["mslm", "init", *map(str, arguments)])
    assert result.exit_code == 1 and isinstance(result.exception, SystemExit), result.output
    return " ".join(result.output.split())


def test_one_file_is_split_and_converted(work, tmp_path):
    out = tmp_path / "My notes"
    said = init(work / "notes.jsonl", out, "--encoder", work / "encoder", "--group", "patient")
    for text in ("train jsonl 32", "dev jsonl 4", "test jsonl 4", "Disease", "Chemical"):
        assert text in said
    assert "vanilla.cfg: 312 updates, 4 epochs or the least number" in said
    assert "documents of one patient are together" in said
    assert f"python -m spacy project run all {out}" in said
    assert {path.name for path in out.iterdir()} == {
        *("project.yml", "configs", "corpus", ".gitignore")
    }
    docs = [
        doc
        for split in ("train", "dev", "test")
        for doc in read_docs(out / f"corpus/{split}.spacy")
    ]
    assert sorted(doc.text for doc in docs) == sorted(
        json.loads(line)["text"] for line in (work / "notes.jsonl").read_text().splitlines()
    )
    project = load_project_config(out)
    assert project["vars"]["package"] == "my_notes"
    assert project["vars"]["encoder"] == str((work / "encoder").resolve())


def test_a_file_for_each_split(work, tmp_path):
    said = init(work / "my_dev.tsv", work / "my_train.tsv", tmp_path / "out", "--encoder", "a/b")
    assert "train iob 30" in said and "dev iob 6" in said
    assert "There is no test set" in said and "Split at random" not in said
    commands = {c["name"]: c for c in load_project_config(tmp_path / "out")["commands"]}
    assert "corpus/dev.spacy" in commands["evaluate"]["script"][0]
    three = (work / f"my_{name}.tsv" for name in ("train", "dev", "test"))
    assert "test iob 4" in init(*three, tmp_path / "three", "--encoder", "a/b")


def test_a_folder_of_brat_files_with_one_type(work, tmp_path):
    said = init(work / "brat", tmp_path / "out", "--encoder", "a/b", "--seed", 1)
    assert "train brat 32" in said and "Chemical" not in said
    assert "Entities of the type Disease" in load_project_config(tmp_path / "out")["description"]


@pytest.mark.parametrize(("name", "has_text"), [("mslm", True), ("vanilla", False)])
def test_the_config_is_that_of_the_repository(work, tmp_path, name, has_text):
    text = ["--text", work / "text.txt"] if has_text else []
    out = tmp_path / "out"
    said = init(work / "notes.jsonl", out, "--encoder", "a/b", "--epochs", "200", *text)
    copy = out / "configs" / f"{name}.cfg"
    assert (
        copy.read_bytes()
        == (CONFIGS / f"{name}.cfg").read_bytes()
        == config_path(name).read_bytes()
    )
    assert [path.name for path in copy.parent.iterdir()] == [f"{name}.cfg"]
    # The number of steps that is printed is what the config derives.
    overrides = {"paths.train": str(out / "corpus/train.spacy"), "training.max_steps.epochs": 200}
    config = load_config(copy, overrides=overrides, interpolate=True)
    steps = registry.resolve({"steps": config["training"]["max_steps"]})["steps"]
    assert steps == 400 and "400 updates" in said
    variables = load_project_config(out)["vars"]
    assert variables["epochs"] == 200 and ("text" in variables) == has_text
    assert "after 400 of adaptation" in said if has_text else "adaptation" not in said
    rates = config["training"]["optimizer"]
    assert variables["learn_rate"] == rates["learn_rate"]["rate"]
    assert variables["head_learn_rate"] == rates["head_learn_rate"]["rate"]


def test_what_the_project_runs_parses(work, tmp_path):
    """Every option of the training names a setting of the config, with every kind of project."""
    out = tmp_path / "out of the way"
    arguments = [work / "notes.jsonl", out, "--encoder", work / "encoder"]
    init(*arguments, "--text", work / "text.txt", "--tokenizer", "biomedical:de")
    done = run_spacy("project", "run", "train", out, "--dry")
    assert done.returncode == 0, done.stderr
    (line,) = (line for line in done.stdout.splitlines() if "spacy train" in line)
    for option in ("--nlp.lang de", "--nlp.tokenizer.biomedical true", "--paths.adapted"):
        assert option in line
    names = [word[2:] for word in line.split() if word.startswith("--") and "." in word]
    config = load_config(out / "configs" / "mslm.cfg")
    for name in names:
        node = config
        for part in name.split("."):
            assert part in node, name
            node = node[part]
    # Inputs of a command are made by init or by the commands before it.
    project = load_project_config(out)
    commands = {command["name"]: command for command in project["commands"]}
    there = {"configs/mslm.cfg", *(f"corpus/{name}.spacy" for name in ("train", "dev", "test"))}
    for steps in project["workflows"].values():
        for step in steps:
            assert set(commands[step]["deps"]) <= there
            there |= set(commands[step]["outputs"])


def test_dedup_removes_texts_of_two_splits(work, tmp_path):
    write_iob(tmp_path / "train.tsv", [*TRAIN, *DEV])
    write_iob(tmp_path / "dev.tsv", DEV)
    both = (tmp_path / "train.tsv", tmp_path / "dev.tsv")
    assert "also in train" in init(*both, tmp_path / "with", "--encoder", "a/b")
    init(*both, tmp_path / "without", "--encoder", "a/b", "--dedup")
    assert len(read_docs(tmp_path / "without/corpus/train.spacy")) == len(TRAIN)


def test_private_input_stays_private(work, tmp_path):
    private = tmp_path / "notes.jsonl"
    shutil.copy(work / "notes.jsonl", private)
    private.chmod(0o600)
    init(private, tmp_path / "out", "--encoder", "a/b")
    for path in (tmp_path / "out" / "corpus").iterdir():
        assert path.stat().st_mode & 0o077 == 0, path


# ---- mistakes ----


def test_mistakes(work, tmp_path):
    notes, out = work / "notes.jsonl", tmp_path / "out"
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    write_iob(tmp_path / "none.tsv", [f"the/O patient/O {n}/O" for n in range(40)])
    write_iob(tmp_path / "train.tsv", TRAIN)
    (tmp_path / "x.md").write_text("# qxsecretname\n")
    (tmp_path / "broken").mkdir()
    cases = [
        ([notes], "Give annotated files and a new folder"),
        ([notes, tmp_path / "full"], "exists and is not empty"),
        ([notes, notes], "exists and is not empty"),
        ([tmp_path / "gone.jsonl", out], "there is no such file"),
        ([tmp_path / "none.tsv", out], "documents and no entity"),
        ([tmp_path / "x.md", out], "the format cannot be detected"),
        ([notes, out, "--format", "jsn"], "Unknown format 'jsn'"),
        ([work / "my_train.tsv", work / "my_dev.tsv", out, "--format", "jsn"], "Unknown format"),
        ([notes, out, "--split", "0.5"], "not a list of shares"),
        ([notes, out, "--tokenizer", "en_core_web_sm"], "neither blank:LANG nor biomedical:LANG"),
        ([notes, out, "--tokenizer", "blank:qq"], "spaCy has no language 'qq'"),
        ([notes, out, "--epochs", "-1"], "--epochs is -1"),
        ([notes, out, "--name", "4"], "no name for a package"),
        ([notes, out, "--text", tmp_path / "gone.txt"], "there is no such file"),
        ([notes, out, "--encoder", "./gone"], "is no folder"),
        ([notes, out, "--encoder", tmp_path / "broken"], "broken"),
        ([notes, tmp_path / "train.tsv", out], "its name must tell which split it is"),
        ([tmp_path / "train.tsv", work / "my_train.tsv", out], "no other input may be the same"),
        ([tmp_path / "train.tsv", work / "my_test.tsv", out], "There is no dev split"),
        ([work / "my_train.tsv", work / "my_dev.tsv", out, "--split", "0.9,0.1"], "Leave it out"),
    ]
    for arguments, message in cases:
        settings = [] if "--encoder" in arguments else ["--encoder", "a/b"]
        said = fail(*arguments, *settings)
        assert message in said, said
        assert "Traceback" not in said and "qxsecretname" not in said
        assert not out.exists() and not list(tmp_path.glob(".*"))


def test_one_text_cannot_be_split(tmp_path):
    (tmp_path / "one.jsonl").write_text(json.dumps({"text": "no asthma", "entities": []}) + "\n")
    assert "--split leaves nothing" in fail(tmp_path / "one.jsonl", tmp_path / "out")


# ---- from annotations to a package ----


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["iob", "brat with text"])
def test_the_project_runs(work, tmp_path, kind):
    out = tmp_path / "mine"
    if kind == "iob":
        inputs = [work / f"my_{name}.tsv" for name in ("train", "dev", "test")]
        started = start_project(inputs, out, encoder=str(work / "encoder"))
        settings = {}
    else:
        # The teacher of a tiny encoder labels nothing with confidence.
        (tmp_path / "text.txt").write_text(UNLABELLED * 40)
        started = start_project(
            [work / "brat"], out, encoder=str(work / "encoder"), text=tmp_path / "text.txt", seed=1
        )
        settings = {"adaptation_steps": 5}
    settings |= {"learn_rate": 0.003, "head_learn_rate": 0.01}
    options = [text for name, value in settings.items() for text in (f"--vars.{name}", str(value))]
    done = run_spacy("project", "run", "all", out, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    scores = srsly.read_json(out / "metrics" / "scores.json")
    assert scores["scores"]["ents_f"] > 0.5
    assert started.steps == 312
    (wheel,) = out.glob("packages/en_mine-0.1.0/dist/*.whl")
    assert wheel.stat().st_size > 10_000
    # The second time, nothing is run.
    again = run_spacy("project", "run", "all", out, *options)
    assert "Running command" not in again.stdout and again.returncode == 0
    assert DocBin().from_disk(out / "corpus" / "train.spacy")
