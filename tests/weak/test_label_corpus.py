"""Labelling of a corpus: with the command, in chunks, interrupted and continued."""

import csv
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
import spacy
from spacy.cli._util import parse_config_overrides
from spacy.tokens import Doc, DocBin, Span
from spacy.util import registry

from spacy_mslm.tasks import convert
from spacy_mslm.tasks.configs import read_config
from spacy_mslm.weak.annotators.pipeline import PipelineAnnotator
from spacy_mslm.weak.annotators.regex import RegexAnnotator
from spacy_mslm.weak.clusters import UMLS_TYPES, Clusters
from spacy_mslm.weak.concepts import Concept
from spacy_mslm.weak.label_corpus import label_notes
from spacy_mslm.weak.labeller import Failed, Labelled, make_labeller
from spacy_mslm.weak.notes import Note
from spacy_mslm.weak.scoring import score_labels
from spacy_mslm.weak.shards import split_of

from ..commands import run_python, run_spacy
from ..helpers import write_terms

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "configs" / "weak.cfg"
CLUSTERS = ROOT / "assets" / "semantic_types.yml"
VOCAB = spacy.blank("en").vocab


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    run_python(ROOT / "scripts/demo_notes.py", folder).check_returncode()
    return folder


def overrides(demo: Path, output: Path, **others: object) -> list[str]:
    values = {
        "paths.notes": demo / "notes.csv",
        "paths.terms": demo / "terms.tsv",
        "paths.patterns": demo / "patterns.tsv",
        "paths.clusters": CLUSTERS,
        "paths.output": output,
        "labelling.chunk": 20,
        **others,
    }
    return [text for name, value in values.items() for text in (f"--{name}", str(value))]


def read_settings(arguments: list[str]) -> dict[str, Any]:
    return read_config(CONFIG, parse_config_overrides(arguments), block="labelling")["labelling"]


def start(demo: Path, output: Path, *arguments: str, **others: object) -> subprocess.Popen:
    command = [sys.executable, "-m", "spacy", "mslm", "weak", "label", str(CONFIG), *arguments]
    return subprocess.Popen(
        [*command, *overrides(demo, output, **others)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(
    demo: Path, output: Path, *arguments: str, fresh: bool = False, **others: object
) -> tuple[int, str]:
    command = ("mslm", "weak", "label", CONFIG, *arguments, *overrides(demo, output, **others))
    result = run_spacy(*command, fresh=fresh)
    return result.returncode, result.stdout + result.stderr


def digests(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="module")
def corpus(demo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("corpus") / "weak"
    code, told = run(demo, output, fresh=True)
    assert code == 0, told
    assert "152 records left out, marked as an error" in told
    assert "152 records left out, empty: 152" in told
    return output


def docs_of(folder: Path) -> list[Doc]:
    return [
        doc
        for path in sorted(folder.glob("*.spacy"))
        for doc in DocBin().from_disk(path).get_docs(VOCAB)
    ]


# ---- the corpus ----


def test_every_note_is_in_one_split_with_its_patient(demo, corpus):
    patients = {}
    for row in csv.DictReader((demo / "notes.csv").open(newline="")):
        patients[row["ROW_ID"]] = row["SUBJECT_ID"]
    splits: dict[str, set[str]] = {}
    seen: list[str] = []
    for split in ("train", "dev", "test"):
        ids = {doc.user_data["id"].rpartition(":")[0] for doc in docs_of(corpus / split)}
        splits[split] = {patients[i] for i in ids}
        seen += ids
    assert sorted(seen, key=int) == [str(i) for i in range(1, 151)]
    assert not splits["train"] & splits["dev"]
    assert not splits["train"] & splits["test"]
    assert not splits["dev"] & splits["test"]
    assert len(splits["train"]) > len(splits["dev"]) + len(splits["test"]) > 3


def test_labels_are_those_of_the_clusters_with_their_concepts(demo, corpus):
    docs = docs_of(corpus / "train")
    assert {ent.label_ for doc in docs for ent in doc.ents} == {"Disease", "Symptom", "Treatment"}
    known = [ent for doc in docs for ent in doc.ents if ent.text.lower() == "asthma"]
    assert known and {ent.kb_id_ for ent in known} == {"DEMO:0"}
    assert all(token.ent_iob for doc in docs for token in doc)  # outside is annotated, too
    marked = [doc for doc in docs if "[**Asthma" in doc.text]
    assert marked and not any(ent.text == "Asthma" for doc in marked for ent in doc.ents)


def test_statistics_and_card_tell_what_is_in_the_corpus(corpus):
    stats = json.loads((corpus / "stats.json").read_text())
    for split, told in stats["splits"].items():
        docs = docs_of(corpus / split)
        assert told["sentences"] == len(docs)
        assert told["mentions"] == sum(len(doc.ents) for doc in docs)
        assert sum(told["labels"].values()) == told["mentions"]
    assert sum(told["notes"] for told in stats["splits"].values()) == 150
    left_out = stats["annotators"]["terminology"]["left_out"]
    assert left_out["in a mark of de-identification"] > 5
    assert stats["context"]["negated"] > 50 and stats["context"]["family"] > 5
    card = (corpus / "card.md").read_text()
    assert "| mentions |" in card and "seed 0" in card
    for word in ("amoxicillin", "renal", "asthma", "headache"):
        assert word not in card.lower()


def test_files_are_the_users_only(corpus):
    for path in [corpus, *corpus.rglob("*")]:
        assert path.stat().st_mode & 0o077 == 0, path


def test_what_is_gathered_of_them_is_the_users_only_too(corpus, tmp_path):
    convert(corpus, tmp_path / "gathered", set_name="weak")
    convert(corpus / "train", tmp_path / "train.spacy")
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) == 5
    for path in written:
        assert path.stat().st_mode & 0o077 == 0, path


def test_what_is_done_is_not_done_again(demo, corpus):
    before = {path: path.stat().st_mtime_ns for path in corpus.rglob("*.spacy")}
    code, told = run(demo, corpus)
    assert code == 0, told
    assert {path: path.stat().st_mtime_ns for path in corpus.rglob("*.spacy")} == before


def test_another_corpus_is_refused_and_replaced_by_force(demo, corpus, tmp_path):
    output = tmp_path / "weak"
    shutil.copytree(corpus, output)
    code, told = run(demo, output, **{"vars.seed": 1})
    assert code == 1 and "other settings or other input files" in " ".join(told.split())
    assert digests(output) == digests(corpus)
    code, told = run(demo, output, "--force", **{"vars.seed": 1, "vars.sample": 30})
    assert code == 0, told
    assert json.loads((output / "stats.json").read_text())["notes"]["chosen"] == 30
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    code, told = run(demo, tmp_path / "mine", "--force")
    assert code == 1 and (tmp_path / "mine" / "thesis.txt").exists()


# ---- pieces ----


def test_several_processes_make_the_same_corpus(demo, corpus, tmp_path):
    code, told = run(demo, tmp_path / "weak", "--jobs", "2")
    assert code == 0, told
    assert digests(tmp_path / "weak") == digests(corpus)


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_killed_at_any_moment_it_goes_on(demo, corpus, tmp_path, jobs):
    output = tmp_path / "weak"
    generator = random.Random(int(jobs))
    killed = 0
    for _ in range(3):
        process = start(demo, output, "--jobs", jobs)
        # Kill it while it writes, when files can be lost.
        enough = len(list(output.rglob("*.spacy"))) + generator.randint(1, 3)
        while process.poll() is None and len(list(output.rglob("*.spacy"))) < enough:
            time.sleep(0.01)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            killed += 1
        process.communicate()
    code, told = run(demo, output, "--jobs", jobs)
    assert code == 0, told
    assert killed and digests(output) == digests(corpus)


def workers_of(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(c) for c in children if b"spawn_main" in Path(f"/proc/{c}/cmdline").read_bytes()]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks for processes in /proc")
def test_a_worker_that_is_killed_is_replaced(demo, corpus, tmp_path):
    process = start(demo, tmp_path / "weak", "--jobs", "2")
    workers: list[int] = []
    while process.poll() is None and len(workers) < 2:
        workers = workers_of(process.pid)
        time.sleep(0.05)
    assert len(workers) == 2
    os.kill(workers[0], signal.SIGKILL)
    told, _ = process.communicate()
    assert process.returncode == 0, told
    assert digests(tmp_path / "weak") == digests(corpus)


def test_what_was_begun_when_a_run_was_killed_is_no_obstacle(demo, corpus, tmp_path):
    output = tmp_path / "weak"
    output.mkdir()
    (output / ".weak.json.abc").write_text("{")
    settings = read_settings(overrides(demo, output))
    label_notes(settings, output)
    (output / "train" / ".00001.spacy.xyz").write_bytes(b"half")
    (output / "done" / "00001.json").unlink()
    label_notes(settings, output)
    (output / ".weak.json.abc").unlink()
    assert digests(output) == digests(corpus)


def test_a_patient_has_one_split_and_shares_are_kept():
    splits = [split_of(f"p{i}", 0, 0.1, 0.2) for i in range(5000)]
    assert splits == [split_of(f"p{i}", 0, 0.1, 0.2) for i in range(5000)]
    assert splits != [split_of(f"p{i}", 1, 0.1, 0.2) for i in range(5000)]
    # 500 and 1,000 are expected, with standard deviations of 21 and 28.
    assert 400 < splits.count("dev") < 600 and 850 < splits.count("test") < 1150


# ---- a note that fails ----


class Fussy:
    """An annotator that fails on notes that contain a word."""

    def __init__(self, word: str) -> None:
        self.word = word

    def __call__(self, docs: Sequence[Doc]) -> Iterable[list[Concept]]:
        for doc in docs:
            if self.word in doc.text:
                raise RuntimeError(doc.text)
            yield [Concept(0, 5, "C", "T184")]


def test_a_note_that_an_annotator_cannot_read_is_left_out_alone(demo, tmp_path):
    settings = read_settings(overrides(demo, tmp_path))
    labeller = make_labeller(settings)
    labeller.annotators = {"fussy": Fussy("SECRET")}
    texts = ["Fever again.", "Fever SECRET.", "Cough again."]
    first, second, third = labeller([Note(f"n{i}", "", text) for i, text in enumerate(texts)])
    assert second == Failed("n1", "RuntimeError")
    for result, word in ((first, "Fever"), (third, "Cough")):
        assert isinstance(result, Labelled)
        assert [(e.text, e.label_) for e in result.doc.ents] == [(word, "Symptom")]


def test_an_annotator_that_always_fails_stops_the_work(demo, tmp_path):
    settings = read_settings(overrides(demo, tmp_path))
    settings["annotators"] = {"broken": {"@misc": "test_weak.Broken.v1"}}
    spacy.registry.misc("test_weak.Broken.v1")(lambda: Fussy(""))
    with pytest.raises(ValueError, match=r"all 20 notes .* the note 1 with RuntimeError"):
        label_notes(settings, tmp_path / "weak")
    assert not list((tmp_path / "weak").rglob("*.spacy"))


def test_a_note_of_two_million_characters(demo, tmp_path):
    text = "He has asthma and fever, [**Fever Clinic**]. " * 45_000
    (tmp_path / "notes.jsonl").write_text(json.dumps({"id": "long", "text": text}) + "\n")
    notes = {"paths.notes": tmp_path / "notes.jsonl"}
    settings = read_settings(overrides(demo, tmp_path, **notes))
    stats = label_notes(settings, tmp_path / "weak")
    assert sum(split["mentions"] for split in stats["splits"].values()) == 90_000
    left_out = stats["annotators"]["terminology"]["left_out"]
    assert left_out == {"in a mark of de-identification": 45_000}


def test_bad_input_is_told_and_leaves_nothing_half_done(demo, tmp_path):
    path = tmp_path / "notes.csv"
    path.write_bytes((demo / "notes.csv").read_bytes() + b'999,1,2,"x","","","","","","","SECRET\n')
    code, told = run(demo, tmp_path / "weak", **{"paths.notes": path})
    assert code == 1
    assert "a quote is not closed or not doubled in the record that begins on line" in " ".join(
        told.split()
    )
    assert "SECRET" not in told and "Traceback" not in told
    assert not list((tmp_path / "weak").rglob("*.spacy"))
    code, told = run(demo, tmp_path / "weak", **{"paths.notes": tmp_path / "none.csv"})
    assert code == 1 and "there is no such file" in " ".join(told.split())


# ---- annotators, clusters, scores ----


def test_patterns(tmp_path):
    path = tmp_path / "patterns.tsv"
    path.write_text("# comment\nT121\t(?i)\\b(\\w+cillin) \\d+ mg\\b\tC1\n\nT184\tnight sweats?\n")
    doc = spacy.blank("en")("Amoxicillin 5 mg, penicillin. Night sweats, night sweat.")
    assert list(RegexAnnotator(str(path))([doc])) == [
        [Concept(0, 11, "C1", "T121"), Concept(44, 55, "", "T184")]
    ]
    for line, match in (("T121", "a tab and a pattern"), ("T121\t(a", "no.*regular expression")):
        path.write_text(f"T184\tx\n{line}\n")
        with pytest.raises(ValueError, match=rf"(?s)patterns\.tsv, line 2: .*{match[:12]}"):
            RegexAnnotator(str(path)).load()


def test_any_pipeline_is_an_annotator(tmp_path):
    nlp = spacy.blank("en")
    ruler = nlp.add_pipe("entity_ruler")
    ruler.add_patterns([{"label": "T184", "pattern": "fever", "id": "C5"}])
    nlp.to_disk(tmp_path / "pipeline")
    docs = [spacy.blank("en")(text) for text in ("No fever.", "", "A fever")]
    found = list(PipelineAnnotator(str(tmp_path / "pipeline"))(docs))
    assert [[c[:2] + c[3:] for c in concepts] for concepts in found] == [
        [(3, 8, "T184", 1.0)],
        [],
        [(2, 7, "T184", 1.0)],
    ]


def test_confidences_of_an_mslm_pipe_are_scores(make_nlp, tmp_path):
    nlp = make_nlp()
    nlp.to_disk(tmp_path / "pipeline")
    annotator = PipelineAnnotator(str(tmp_path / "pipeline"))
    annotator.nlp.add_pipe("entity_ruler", before="mslm").add_patterns(
        [{"label": "T184", "pattern": "fever"}]
    )

    class Unsure:
        def __call__(self, doc: Doc) -> Doc:
            doc.set_ents([Span(doc, 1, 2, label="T184")])
            doc.ents[0]._.confidence = 0.4
            return doc

    annotator.nlp.remove_pipe("mslm")
    spacy.Language.component("unsure", func=Unsure())
    annotator.nlp.add_pipe("unsure")
    docs = [spacy.blank("en")("No fever.")]
    assert [c.score for c in next(iter(annotator(docs)))] == [0.4]
    annotator.min_score = 0.5
    assert list(annotator(docs)) == [[]]


def test_the_clusters_are_those_of_table_12():
    clusters = Clusters(str(CLUSTERS))
    assert clusters.labels == ["Disease", "Symptom", "Treatment"]
    assert len(UMLS_TYPES) == 127
    expected = {
        "Treatment": ["T121", "T200", "T195"],
        "Disease": ["T020", "T190", "T007", "T194", "T019", "T049", "T047", "T005", "T191"],
        "Symptom": ["T054", "T184", "T048"],
    }
    assert {t for t in UMLS_TYPES if clusters(t)} == {t for ts in expected.values() for t in ts}
    assert all(clusters(t) == label for label, types in expected.items() for t in types)
    assert clusters("sign or symptom") == "Symptom"
    assert clusters("T033") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Disease:\n  T047: x\n  T006: y\n", r"line 3: UMLS has no semantic type T006\b"),
        ("A:\n  T047: x\nB:\n  T047: x\n", "line 4: .* type T047 is also in the cluster A"),
        ("A: [T047]\n", "is not a file of clusters"),
        ("A: {\n", "is not a file of clusters"),
        ("", "is not a file of clusters"),
    ],
)
def test_broken_clusters(tmp_path, text, message):
    path = tmp_path / "types.yml"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        Clusters(str(path)).load()


def test_labels_are_scored_against_gold(demo, tmp_path):
    """Of three gold mentions, one source finds one, and the other one plus a wrong one. Their vote
    finds two, as the wrong one is overlapped."""
    (tmp_path / "terms.tsv").write_text("term\tid\tsemantic_type\nacute asthma\tC1\tT047\n")
    (tmp_path / "patterns.tsv").write_text("T047\tasthma\nT184\tfever\n")
    doc = spacy.blank("en")("He has acute asthma, fever and chills.")
    doc.set_ents(
        [doc.char_span(*x) for x in ((7, 19, "Disease"), (21, 26, "Symptom"), (31, 37, "Symptom"))]
    )
    DocBin(docs=[doc]).to_disk(tmp_path / "gold.spacy")
    paths = {f"paths.{name}": tmp_path / f"{name}.tsv" for name in ("terms", "patterns")}
    settings = read_settings(overrides(demo, tmp_path, **paths))
    scores = score_labels(settings, tmp_path / "gold.spacy")
    told = {name: (s["all"].precision, s["all"].recall) for name, s in scores.items()}
    third = pytest.approx(1 / 3)
    assert told == {
        "terminology": (1.0, third),
        "patterns": (0.5, third),
        "vote": (1.0, pytest.approx(2 / 3)),
    }
    assert scores["vote"]["Disease"].fscore == 1.0
    arguments = [tmp_path / "gold.spacy", *overrides(demo, tmp_path, **paths)]
    result = run_spacy("mslm", "weak", "score", CONFIG, *arguments, fresh=True)
    assert result.returncode == 0, result.stdout + result.stderr
    (vote,) = (line for line in result.stdout.splitlines() if line.startswith("vote"))
    assert vote.split() == ["vote", "all", "100.0", "66.7", "80.0"]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("labelling.chunk", -1, "chunk is -1, but must be a number of notes"),
        ("vars.sample", -5, "sample is -5 notes"),
        ("labelling.dev", 1.5, "dev is 1.5, but must be between 0 and 1"),
        ("labelling.dev", -0.5, "dev is -0.5, but must be between 0 and 1"),
        ("labelling.test", 0.9, "no patients in train"),
        ("vars.seed", "abc", "seed is 'abc'"),
    ],
)
def test_settings_are_checked_before_the_first_note(demo, tmp_path, name, value, message):
    code, told = run(demo, tmp_path / "out", **{name: value})
    assert code == 1 and message in " ".join(told.split())
    assert list(tmp_path.iterdir()) == []


@registry.misc("test_label_corpus.leaves_a_file")
def make_leaving_annotator(folder: str, name: str) -> Any:
    """Leaves what a worker process leaves that is killed while it writes a shard."""

    def annotate(docs: Sequence[Doc]) -> Iterable[list[Concept]]:
        path = Path(folder) / "train" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("text of a note")
        (Path(folder) / "called").touch()
        return [[] for _ in docs]

    return annotate


def test_no_hidden_file_of_a_killed_process_is_in_a_corpus(demo, tmp_path):
    output = tmp_path / "weak"
    name = ".00002.spacy.0123456789abcdef.partial"
    settings = read_settings(overrides(demo, output, **{"vars.sample": 3}))
    leaving = {"@misc": "test_label_corpus.leaves_a_file", "folder": str(output), "name": name}
    settings["annotators"]["patterns"] = leaving
    label_notes(settings, output)
    assert (output / "called").exists() and not list(output.rglob(".*"))


# ---- labels that find nothing ----


def test_a_terminology_without_types_of_the_clusters_is_an_error(demo, tmp_path):
    """Before the first note is labelled; the message has the types of both."""
    terms = write_terms(tmp_path / "terms.tsv", [("asthma", "disorder"), ("aspirin", "drug")])
    overriden = {"paths.terms": terms, "paths.patterns": "null", "labelling.chunk": 20}
    code, told = run(demo, tmp_path / "out", **overriden)
    told = " ".join(told.split())
    assert code == 1 and "Types of the terminology: disorder, drug. Types of the clusters:" in told
    assert "disease or syndrome" in told and "Traceback" not in told
    assert not (tmp_path / "out").exists()
    # Clusters may map such names.
    clusters = tmp_path / "clusters.yml"
    clusters.write_text("Disease:\n  disorder: disorder\nTreatment:\n  drug: drug\n", "utf8")
    overriden["paths.clusters"] = clusters
    code, told = run(demo, tmp_path / "out", **overriden)
    assert code == 0, told


def test_labels_that_find_nothing_fail(demo, tmp_path):
    terms = write_terms(tmp_path / "terms.tsv", [("qqxyzzy", "T047")])
    code, told = run(*(demo, tmp_path / "out"), **{"paths.terms": terms, "paths.patterns": "null"})
    assert code == 1 and "No mention was found, so nothing can be learnt" in " ".join(told.split())
