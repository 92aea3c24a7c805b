"""The benchmark commands run: the stored results are a table, a trained pipe is measured."""

import json
import sys
from math import inf
from pathlib import Path

import pytest

from benchmarks.machine import UNKNOWN
from benchmarks.reliability.experiment import Experiment, Record, run_experiment
from benchmarks.reliability.experiment import table as markdown_table
from benchmarks.reliability.load import NEW_WORDS, slope
from benchmarks.reliability.parts import Row, Work
from benchmarks.speed import RESULTS, count_words, measure, prepare_hf, write_notes, write_sentences

from ..commands import run_python
from ..conftest import TEXTS, build_encoder, make_examples

ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> str:
    result = run_python("-m", "benchmarks", *arguments, cwd=ROOT)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_report_prints_the_stored_results():
    table = run("report")
    assert "Protocol: clean text" in table
    assert "vanilla" in table and "spacy_ner" in table and "masked" in table


def test_strategies_report_never_mixes_the_protocols():
    clean, masked = run("strategies-report").split("Protocol: masked text")
    assert "Protocol: clean text" in clean
    for table in (clean, masked):
        for strategy in ("none (vanilla)", "BLM", "SPAN", "PMI", "joint"):
            assert strategy in table


# Logs of trainings, from which curves are drawn, are not results.
STORED = sorted(path for path in RESULTS.rglob("*.json*") if path.parent.name != "curves")


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.name)
def test_stored_results_name_their_machine(path):
    rows = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
    for row in map(json.loads, rows):
        assert row["machine"] == UNKNOWN or row["machine"]["cpu"]


@pytest.fixture
def trained(train_once, tmp_path):
    nlp = train_once(60, masking={"@misc": "spacy_mslm.NoMasking.v1"})
    nlp.to_disk(tmp_path / "nlp")
    return nlp


def write_iob(nlp, path: Path) -> Path:
    blocks = []
    for example in make_examples(nlp):
        tags = [
            f"{token.ent_iob_}-{token.ent_type_}" if token.ent_type_ else "O"
            for token in example.reference
        ]
        words = [token.text for token in example.reference]
        words[0] = words[0].capitalize()
        pairs = zip(words, tags, strict=True)
        blocks.append("\n".join(f"{word}\t{tag}" for word, tag in pairs))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n\n".join(blocks * 8) + "\n", encoding="utf8")
    return path


def write_shared(folder: Path) -> Path:
    """Notes like those of ../shared."""
    note = " ".join(text for text, _ in TEXTS) * 30
    (folder / "notes").mkdir(parents=True)
    (folder / "notes" / "notes.jsonl").write_text(json.dumps({"text": note}) + "\n")
    return folder


def test_long_text_on_a_trained_pipe(trained, tmp_path):
    data = write_iob(trained, tmp_path / "test.tsv")
    table = run("long-text", str(tmp_path / "nlp"), str(data), "--sentences", str(len(TEXTS)))
    scores = [float(line.split()[-1]) for line in table.splitlines() if line.startswith("F1")]
    assert len(scores) == 2 and scores[0] == scores[1] == 100.0


@pytest.mark.slow
def test_speed_of_systems_in_turn(trained, tmp_path):
    encoder = build_encoder(tmp_path / "encoder", max_position_embeddings=600)
    write_iob(trained, tmp_path / "data" / "test.tsv")
    texts = {
        "sentences": write_sentences(tmp_path / "data", 40, tmp_path),
        "notes": write_notes(write_shared(tmp_path) / "notes/notes.jsonl", 40, tmp_path),
    }
    assert 40 <= count_words(texts["sentences"]) < 60 and count_words(texts["notes"]) > 800
    ours = {"model": str(tmp_path / "nlp")}
    classifier = str(prepare_hf(str(encoder), tmp_path / "hf"))
    systems = {
        "bare encoder": ("bare encoder", ours, sys.executable),
        "ours": ("spacy pipeline", ours, sys.executable),
        "peer": ("hf pipeline", {"model": classifier}, sys.executable),
    }
    found = measure(systems, texts, rounds=1)
    assert all(found[kind][name] > 0 for kind in texts for name in systems)


@pytest.mark.slow
def test_speed_of_training(trained, tmp_path):
    build_encoder(tmp_path / "encoders/biominilm", max_position_embeddings=300)
    write_iob(trained, tmp_path / "blurb/ncbi_disease/train.tsv")
    options = ["--shared", str(tmp_path), "--results", str(tmp_path), "--updates", "1"]
    table = run("train", *options, "--rounds", "1")
    assert "the paper's recipe" in table
    rows = json.loads((tmp_path / "train_speed.json").read_text())["rows"]
    assert rows["vanilla"]["to_vanilla"] == 1.0 and 0 < rows["vanilla"]["data_share"] < 1
    assert all(row["seconds"] > 0 for row in rows.values())
    assert (tmp_path / "train_speed.png").stat().st_size > 5000


@pytest.mark.slow
def test_scale(trained, tmp_path):
    write_shared(tmp_path)
    options = ["--shared", str(tmp_path), "--results", str(tmp_path), "--output", str(tmp_path)]
    table = run("scale", str(tmp_path / "nlp"), *options, "--rounds", "1", "--longest", "100")
    assert "documents of 100 words" in table
    record = json.loads((tmp_path / "scale.json").read_text())
    assert [row["n"] for row in record["rows"]] == [10, 100, 1000, 4000, 16000, 1, 2]
    assert all(row["words_per_second"] > 0 for row in record["rows"])
    assert (tmp_path / "scale.png").stat().st_size > 5000


@pytest.mark.slow
def test_annotate(trained, tmp_path):
    notes = write_shared(tmp_path) / "notes" / "notes.jsonl"
    sizes = ["--documents", "4", "--rounds", "1", "--new-words", "1500", "--kills", "1"]
    output = tmp_path / "figures.json"
    run("annotate", str(tmp_path / "nlp"), str(notes), *sizes, "--output", str(output))
    figures = json.loads(output.read_text())
    assert figures["speed"]["to_nlp_pipe"] > 0
    assert figures["kills"]["each_document_once"]
    assert figures["kills"]["finished"] == figures["kills"]["same_bytes"] > 0
    assert min(figures["memory"]["resident_mb_at"].values()) > 50


@pytest.fixture
def notes_and_terms(tmp_path):
    (tmp_path / "notes.jsonl").write_text('{"text": "No asthma."}\n{"text": "Given aspirin."}\n')
    terms = "term\tid\tsemantic_type\nasthma\tC1\tdisease\naspirin\tC2\tdrug\n"
    (tmp_path / "terms.tsv").write_text(terms)
    return [str(tmp_path / "notes.jsonl"), str(tmp_path / "terms.tsv")]


def test_weak_labels_on_a_few_notes(notes_and_terms, tmp_path):
    options = ["--sizes", "5,10", "--no-million", "--output", str(tmp_path / "figures.json")]
    assert "notes/s" in run("weak-labels", *notes_and_terms, *options)
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert figures["machine"]["cpu"] and figures["machine"]["date"]
    rows = figures["sizes"]
    assert [row["notes"] for row in rows] == [5, 10]
    assert all(row["peak_mb"] > 50 and row["notes_per_second"] > 0 for row in rows)


@pytest.mark.slow
def test_weak_kills_on_a_few_notes(notes_and_terms, tmp_path):
    options = ["--size", "150", "--kills", "1", "--output", str(tmp_path / "figures.json")]
    run("weak-kills", *notes_and_terms, *options)
    result = json.loads((tmp_path / "figures.json").read_text())
    assert result["each_note_once"]
    assert [row["kills"] for row in result["runs"]] == [1, 1]
    assert all(row["same_corpora"] == row["corpora"] > 0 for row in result["runs"])


def test_cases_of_a_large_experiment_are_run_in_parts(tmp_path):
    """Also by several processes into one file; each case once."""
    seen: list[range] = []

    def run(cases: range) -> list[Row]:
        seen.append(cases)
        return [Row("a row", len(cases), len(cases) - 1, wrong=1)]

    path = tmp_path / "result.json"
    experiment = Experiment("an experiment", 100, 4, lambda work: run)
    other = Experiment("another", 10, 10, lambda work: run)
    work = Work(tmp_path)

    def portions(size: float, deadline: float = inf, of: Experiment = experiment) -> int:
        return len(list(run_experiment(of, work, Record(path), size, deadline)))

    assert portions(0.1) == 3 and seen == [range(4), range(4, 8), range(8, 10)]
    assert portions(0.1) == 0 and portions(0.05) == 0  # they are in the file
    assert portions(1, of=other) == 1
    assert portions(0.2, deadline=-inf) == 0
    assert portions(0.15) == 2 and seen[-2:] == [range(10, 14), range(14, 15)]
    (row, _) = Record(path).rows()
    assert row == Row("a row", 15, 10, wrong=5)
    assert markdown_table(Record(path))[2] == "| a row | 15 | 10 | 0 | 0 | 5 | 15 % |"
    with pytest.raises(AssertionError, match="another process"):
        Record(path).add(experiment, range(3), [], 0.0)


def test_memory_grows_by_its_second_half():
    assert NEW_WORDS * slope([(0, 100), (100, 900), (200, 1000), (400, 1200)]) == 1024


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fuzz", "kill saving", "kill annotate", "truncations"])
def test_reliability_in_small(name, tmp_path):
    output = tmp_path / "result.json"
    arguments = ("--size", "0.001", "--only", name, "--output", output)
    printed = run("reliability", *arguments)
    assert "Nothing was lost, doubled or wrong" in printed
    assert any(line in printed for line in markdown_table(Record(output))[2:])
