"""The project file: complete dependencies, assets that agree with the package's, page in step;
and the scripts that its commands run. The workflow `all` itself is run by `.ci/run`."""

import csv
import hashlib
import json
import runpy
import shutil
from pathlib import Path

import pytest
import spacy
import srsly
from spacy.tokens import Doc, DocBin
from weasel.cli.document import project_document
from weasel.util.config import substitute_project_variables

from spacy_mslm.corpus.download import read_table

from ..commands import run_python, run_spacy

ROOT = Path(__file__).resolve().parents[2]
BLURB = ROOT.parent / "shared" / "blurb"
BLURB_VARS = {"vars.dataset": "ncbi_disease", "vars.encoder": "dmis-lab/biobert-base-cased-v1.2"}
# The user's own files are files that are there.
MIMIC_VARS = {
    **BLURB_VARS,
    "vars.dataset": "mimic",
    "vars.notes": "setup.py",
    "vars.terms": "README.md",
    "vars.text": "corpus/mimic/train.spacy",
}
# The encoder and the text of `mini` are the user's own files, too.
MINI_VARS = {"vars.mini_teacher": "setup.py", "vars.mini_text": "README.md"}


def read_project(**overrides: str) -> dict:
    """Not weasel's own function, which makes folders."""
    return substitute_project_variables(srsly.read_yaml(ROOT / "project.yml"), overrides)


# By workflow: the project with the variables that it is run with.
PROJECTS = {
    "all": read_project(),
    "blurb": read_project(**BLURB_VARS),
    "mimic": read_project(**MIMIC_VARS),
    "pretrain": read_project(),
    "mini": read_project(**MINI_VARS),
}
STEPS = [(name, step) for name, project in PROJECTS.items() for step in project["workflows"][name]]
PROJECT = PROJECTS["blurb"]


def commands_of(workflow: str) -> dict[str, dict]:
    project = PROJECTS[workflow]
    commands = {command["name"]: command for command in project["commands"]}
    return {step: commands[step] for step in project["workflows"][workflow]}


def parents(path: str) -> set[str]:
    return {path, *map(str, Path(path).parents)}


def test_workflows_name_commands_and_every_command_is_in_one() -> None:
    steps = {step for workflow in PROJECT["workflows"].values() for step in workflow}
    assert steps == {command["name"] for command in PROJECT["commands"]}
    assert set(PROJECT["workflows"]) == set(PROJECTS)


@pytest.mark.parametrize(("workflow", "name"), STEPS)
def test_what_a_command_reads_is_among_its_dependencies(workflow: str, name: str) -> None:
    commands = commands_of(workflow)
    command = commands[name]
    made = {path for other in commands.values() for path in other["outputs"]}
    words = {word.strip("'\"") for line in command["script"] for word in line.split()}
    files = {word for word in words if word.startswith(("configs/", "scripts/"))}
    read = {
        word
        for word in words
        if parents(word) & made and not parents(word) & set(command["outputs"])
    }
    assert all((ROOT / file).is_file() for file in files)
    assert files | read <= set(command.get("deps", [])), "a change of these would not run it again"


@pytest.mark.parametrize(("workflow", "name"), STEPS)
def test_what_a_command_needs_is_made_before_it(workflow: str, name: str) -> None:
    commands = commands_of(workflow)
    steps = list(commands)
    before = {path for step in steps[: steps.index(name)] for path in commands[step]["outputs"]}
    folders = {folder for path in before for folder in parents(path)}
    for path in commands[name].get("deps", []):
        assert path in folders or parents(path) & before or (ROOT / path).is_file(), path


def test_every_command_has_outputs_so_that_a_second_run_skips_it() -> None:
    assert all(command["outputs"] for command in PROJECT["commands"])


def test_assets_are_generated() -> None:
    written = runpy.run_path(str(ROOT / "scripts" / "project_assets.py"))["render"]()
    assert written == (ROOT / "project.yml").read_text("utf8"), "python scripts/project_assets.py"


def test_assets_are_those_of_fetch() -> None:
    assets = {asset["dest"]: asset for asset in PROJECT["assets"]}
    known = {
        f"assets/{name}/{file}": asset
        for name, entry in read_table().items()
        for file, asset in entry["files"].items()
    }
    assert {dest: a["url"] for dest, a in assets.items()} == {d: a["url"] for d, a in known.items()}
    for dest, asset in known.items():
        assert ("checksum" in assets[dest]) == bool(asset["sha256"]), dest


@pytest.mark.shared
@pytest.mark.skipif(not BLURB.exists(), reason="needs ../shared")
def test_checksums_of_assets() -> None:
    for asset in PROJECT["assets"]:
        path = BLURB / Path(asset["dest"]).relative_to("assets")
        if "checksum" in asset:
            assert hashlib.md5(path.read_bytes()).hexdigest() == asset["checksum"], path


def test_docs_have_what_spacy_project_document_writes(tmp_path: Path) -> None:
    page = ROOT / "docs" / "reference" / "project.md"
    target = tmp_path / page.name
    shutil.copy(page, target)
    project_document(ROOT, target, no_emoji=True)
    written = target.read_text("utf8")
    assert written == page.read_text("utf8"), (
        "python -m spacy project document --no-emoji --output docs/reference/project.md"
    )


def test_biobert_on_a_gpu_is_a_matter_of_overrides() -> None:
    overrides = {
        **BLURB_VARS,
        "vars.package": "mslm_biobert",
        "vars.gpu_id": 0,
    }
    arguments = [f"--{key}={value}" for key, value in overrides.items()]
    result = run_spacy("project", "run", "blurb", ".", "--dry", *arguments, cwd=ROOT)
    assert result.returncode == 0, result.stderr
    lines = [line for line in result.stdout.splitlines() if " -m spacy train " in line]
    assert len(lines) == 3
    for line in lines:
        assert "--vars.encoder dmis-lab/biobert-base-cased-v1.2" in line
        assert "--paths.train corpus/ncbi_disease/train.spacy" in line
        assert "--gpu-id 0" in line
    assert "packages/en_mslm_biobert-0.1.0/dist/en_mslm_biobert-0.1.0" in result.stdout


def run_script(name: str, *arguments: object) -> str:
    result = run_python(ROOT / "scripts" / name, *arguments)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    run_script("demo_notes.py", folder)
    return folder


def read_terms(folder: Path) -> dict[str, str]:
    rows = csv.DictReader((folder / "terms.tsv").open(), delimiter="\t")
    return {row["term"].lower(): row["semantic_type"] for row in rows}


def test_demo_notes_are_the_same_each_time(demo: Path, tmp_path: Path) -> None:
    run_script("demo_notes.py", tmp_path)
    names = {path.name for path in demo.iterdir()}
    assert names == {
        *("notes.csv", "truth.jsonl", "terms.tsv", "patterns.tsv", "text.jsonl"),
        *("dev.jsonl", "test.jsonl"),
    }
    for name in names:
        assert (tmp_path / name).read_bytes() == (demo / name).read_bytes()


def test_demo_notes_have_the_schema_of_noteevents(demo: Path) -> None:
    with (demo / "notes.csv").open(newline="") as file:
        rows = list(csv.DictReader(file, strict=True))
    notes = [row for row in rows if row["TEXT"].strip() and row["ISERROR"] != "1"]
    assert len(rows) == 152 and len(notes) == 150
    assert {"ROW_ID", "SUBJECT_ID", "HADM_ID", "CATEGORY", "ISERROR", "TEXT"} < set(rows[0])
    assert len({row["TEXT"] for row in notes}) == len(notes)
    assert all(row["TEXT"].count("\n") > 10 for row in notes)
    truth = {record["id"]: record["text"] for record in srsly.read_jsonl(demo / "truth.jsonl")}
    assert truth == {row["ROW_ID"]: row["TEXT"] for row in notes}


def test_demo_mentions_are_at_their_offsets_and_some_are_in_no_terminology(demo: Path) -> None:
    terms = read_terms(demo)
    types = {"T047": "Disease", "T184": "Symptom", "T121": "Treatment"}
    known = unknown = 0
    for record in srsly.read_jsonl(demo / "test.jsonl"):
        for start, end, label in record["entities"]:
            mention = record["text"][start:end]
            assert mention == mention.strip() != ""
            if mention.lower() in terms:
                assert types[terms[mention.lower()]] == label
            known += mention.lower() in terms
            unknown += mention.lower() not in terms
    assert known > 400
    assert unknown > 100


def test_unlabelled_text_leaves_out_dev_and_test(tmp_path: Path) -> None:
    vocab = spacy.blank("en").vocab
    test = ["Fever", ".", "Sepsis", "(", "late", ")", "."]
    for split, words in {"dev": ["No", "asthma."], "test": test}.items():
        DocBin(docs=[Doc(vocab, words=words)]).to_disk(tmp_path / f"{split}.spacy")
    source = tmp_path / "train.tsv"
    sentences = (["No", "asthma", "."], ["Aspirin", "helps"], ["Sepsis", "(late)"], ["Cough"])
    lines = ["\n".join(f"{word}\tO" for word in words) for words in sentences]
    source.write_text("\n\n".join([*lines, lines[1]]) + "\n")
    run_script("unlabelled_text.py", tmp_path, tmp_path / "text.txt", source)
    assert (tmp_path / "text.txt").read_text() == "Aspirin helps\nCough\n"


def test_smoke_test_refuses_a_file_that_is_no_wheel(tmp_path: Path) -> None:
    wheel = tmp_path / "en_none-0.1.0-py3-none-any.whl"
    wheel.write_text(json.dumps({}))
    result = run_python(ROOT / "scripts/smoke_test.py", wheel, "Text.", tmp_path / "out")
    assert result.returncode != 0 and "Wheel" in result.stderr
    assert not (tmp_path / "out").exists()
