"""Annotation of many documents: formats, failures, interruptions."""

import csv
import gzip
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pytest
import spacy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from spacy.language import Language
from spacy.tokens import Doc

from spacy_mslm.engine.place import Engine
from spacy_mslm.tasks import Annotated, Format, annotate
from spacy_mslm.tasks.annotation.formats import DIGITS

from ..commands import run_spacy
from ..conftest import TEXTS
from ..helpers import read_docs

NO_MASKS = {"masking": {"@misc": "spacy_mslm.NoMasking.v1"}}
WORDS = sorted({word for text, _ in TEXTS for word in text.split()})


def make_texts(n: int) -> list[str]:
    generator = random.Random(0)
    return [" ".join(generator.choices(WORDS, k=generator.randint(0, 20))) for _ in range(n)]


DOCUMENTS = {f"n{i}": text for i, text in enumerate(make_texts(40))}


@pytest.fixture(scope="module")
def model(train_once, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("model") / "nlp"
    train_once(60, **NO_MASKS).to_disk(path)
    return path


@pytest.fixture(scope="module")
def notes(tmp_path_factory) -> Path:
    return write_jsonl(tmp_path_factory.mktemp("notes") / "notes.jsonl", DOCUMENTS)


def write_jsonl(path: Path, documents: dict[str, str]) -> Path:
    lines = (json.dumps({"id": id_, "text": text}) for id_, text in documents.items())
    path.write_text("\n".join(lines) + "\n", encoding="utf8")
    return path


def read_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf8").splitlines()]


def expected(nlp: Language, text: str) -> list[dict[str, Any]]:
    return [
        {
            "start": ent.start_char,
            "end": ent.end_char,
            "label": ent.label_,
            "confidence": round(ent._.confidence, DIGITS),
        }
        for ent in nlp(text).ents
    ]


@pytest.fixture(scope="module")
def whole(model, notes, tmp_path_factory) -> Path:
    """The shards of a run that was not interrupted."""
    output = tmp_path_factory.mktemp("whole") / "shards"
    annotate(str(model), notes, output, chunk=4)
    return output


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


# ---- rows ----


def test_each_document_is_one_row_with_the_entities_of_the_pipeline(model, notes, tmp_path):
    found = annotate(str(model), notes, tmp_path / "out.jsonl", text=True)
    rows = read_rows(tmp_path / "out.jsonl")
    assert {row["id"]: row["text"] for row in rows} == DOCUMENTS and len(rows) == len(DOCUMENTS)
    nlp = spacy.load(model)
    for row in rows:
        wanted = expected(nlp, row["text"])
        assert [{**e, "confidence": None} for e in row["entities"]] == [
            {**e, "confidence": None} for e in wanted
        ]
        # In a batch, sums may be rounded differently.
        assert [e["confidence"] for e in row["entities"]] == pytest.approx(
            [e["confidence"] for e in wanted], abs=2 * 10**-DIGITS
        )
    assert found == Annotated(
        *(tmp_path / "out.jsonl", 40, sum(len(row["entities"]) for row in rows), 0, 0, None)
    )
    assert found.entities > 40
    assert {(row["model"], row["version"]) for row in rows} == {("en_pipeline", "0.0.0")}
    assert {len(row["digest"]) for row in rows} == {32}
    assert os.listdir(tmp_path) == ["out.jsonl"]
    assert (tmp_path / "out.jsonl").stat().st_mode & 0o077 == 0


def test_formats_hold_the_same_and_no_text_unless_asked(model, notes, tmp_path):
    for name in ("out.jsonl", "out.parquet"):
        annotate(str(model), notes, tmp_path / name, chunk=7)
    rows = read_rows(tmp_path / "out.jsonl")
    assert all("text" not in row for row in rows)
    assert parquet.read_table(tmp_path / "out.parquet").to_pylist() == rows
    annotate(str(model), notes, tmp_path / "out.spacy", text=True, chunk=7)
    docs = read_docs(tmp_path / "out.spacy")
    assert [(doc.user_data["id"], doc.text) for doc in docs] == list(DOCUMENTS.items())
    for doc, row in zip(docs, rows, strict=True):
        assert doc.user_data["digest"] == row["digest"]
        assert row["entities"] == [
            {
                "start": ent.start_char,
                "end": ent.end_char,
                "label": ent.label_,
                "confidence": ent._.confidence,
            }
            for ent in doc.ents
        ]


def test_a_folder_gets_shards_that_other_tools_read(model, notes, tmp_path):
    annotate(str(model), notes, tmp_path / "out", format=Format.parquet, chunk=7)
    assert len(list((tmp_path / "out/rows").iterdir())) == 6
    rows = parquet.read_table(tmp_path / "out" / "rows").to_pylist()
    assert [row["id"] for row in rows] == list(DOCUMENTS)


def test_spans_of_a_group_are_entities(model, notes, tmp_path):
    nlp = spacy.load(model, config={"components": {"mslm": {"spans_key": "terms"}}})
    nlp.to_disk(tmp_path / "nlp")
    found = annotate(str(tmp_path / "nlp"), notes, tmp_path / "out.spacy", text=True)
    docs = read_docs(tmp_path / "out.spacy")
    spans = [len(nlp(text).spans["terms"]) for text in DOCUMENTS.values()]
    assert [len(doc.spans["terms"]) for doc in docs] == spans
    assert found.entities == sum(spans) > 0


def write_inputs(folder: Path) -> Iterator[Path]:
    """The documents in each format that can be read."""
    lines = [json.dumps({"note_id": k, "text": v}) for k, v in DOCUMENTS.items()]
    with gzip.open(folder / "notes.jsonl.gz", "wt", encoding="utf8") as file:
        file.write("\n".join(lines) + "\n")
    yield folder / "notes.jsonl.gz"
    with (folder / "NOTEEVENTS.csv").open("w", newline="") as file:
        rows = [["ROW_ID", "SUBJECT_ID", "ISERROR", "TEXT"]]
        csv.writer(file).writerows(rows + [[k, "7", "", v] for k, v in DOCUMENTS.items()])
    yield folder / "NOTEEVENTS.csv"
    columns = {"id": list(DOCUMENTS), "text": list(DOCUMENTS.values())}
    parquet.write_table(pyarrow.table(columns), folder / "notes.parquet")
    yield folder / "notes.parquet"
    (folder / "texts").mkdir()
    for id_, text in DOCUMENTS.items():
        (folder / "texts" / f"{id_}.txt").write_text(text)
    yield folder / "texts"


def test_every_format_of_notes_is_read(model, notes, tmp_path):
    rows = {}
    for path in [notes, *write_inputs(tmp_path)]:
        annotate(str(model), path, tmp_path / "out.jsonl", force=True)
        ours = read_rows(tmp_path / "out.jsonl")
        rows[path.name] = {r["id"].removesuffix(".txt"): r["entities"] for r in ours}
    assert len(rows) == 5
    for own in rows.values():
        assert own.keys() == DOCUMENTS.keys()
        for id_, entities in own.items():
            places = [(e["start"], e["end"], e["label"]) for e in entities]
            ours = rows["notes.jsonl"][id_]
            assert places == [(e["start"], e["end"], e["label"]) for e in ours]


# ---- interruptions ----


@given(st.sets(st.integers(0, 9)), st.sets(st.integers(0, 9)))
@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_chunks_that_are_missing_are_added(model, notes, whole, tmp_path_factory, lost, torn):
    """`lost` chunks have nothing, `torn` ones their rows but no mark, and a half-written file."""
    output = tmp_path_factory.mktemp("torn") / "shards"
    shutil.copytree(whole, output)
    for number in lost | torn:
        (output / "done" / f"{number:05}.json").unlink()
    for number in lost:
        (output / "rows" / f"{number:05}.jsonl").unlink()
    for number in torn - lost:
        (output / "rows" / f"{number:05}.jsonl").write_text("{")
        (output / "rows" / f".{number:05}.jsonl.tmp").write_text("{")
    kept = {p: p.stat().st_mtime_ns for p in output.rglob("*") if p.stem.isdigit()}
    found = annotate(str(model), notes, output, chunk=4)
    assert contents(output) == contents(whole)
    rewritten = {p for p, then in kept.items() if p.stat().st_mtime_ns != then}
    assert {int(p.stem) for p in rewritten} <= lost | torn
    assert found.documents == 40


def test_shards_are_joined_to_the_same_file_after_an_interruption(model, notes, whole, tmp_path):
    annotate(str(model), notes, tmp_path / "out.jsonl", chunk=4)
    rows = sorted((whole / "rows").iterdir())
    assert (tmp_path / "out.jsonl").read_bytes() == b"".join(p.read_bytes() for p in rows)
    shutil.copytree(whole, tmp_path / "new.jsonl.parts")
    (tmp_path / "new.jsonl.parts" / "done" / "00003.json").unlink()
    annotate(str(model), notes, tmp_path / "new.jsonl", chunk=4)
    assert (tmp_path / "new.jsonl").read_bytes() == (tmp_path / "out.jsonl").read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["new.jsonl", "out.jsonl"]


def test_what_a_finished_run_did_not_remove_is_removed(model, notes, whole, tmp_path):
    (tmp_path / "out.jsonl").write_text("")
    shutil.copytree(whole, tmp_path / "out.jsonl.parts")
    (tmp_path / "out.jsonl.parts" / "annotation.json").unlink()
    with pytest.raises(ValueError, match=r"out\.jsonl already exists"):
        annotate(str(model), notes, tmp_path / "out.jsonl", chunk=4)
    assert os.listdir(tmp_path) == ["out.jsonl"]


def test_another_input_pipeline_or_setting_is_refused_and_replaced_by_force(
    model, notes, whole, make_nlp, tmp_path
):
    output = tmp_path / "shards"
    shutil.copytree(whole, output)
    make_nlp(**NO_MASKS).to_disk(tmp_path / "other")
    fewer = write_jsonl(tmp_path / "fewer.jsonl", {"n0": DOCUMENTS["n0"]})
    with pytest.raises(ValueError, match=r"annotated by another pipeline: en_pipeline 0\.0\.0 \(d"):
        annotate(str(tmp_path / "other"), tmp_path / "unread.jsonl", output, chunk=4)
    for arguments, settings_, differs in (
        ((str(model), fewer), {"chunk": 4}, r"input\.documents, input\.digest differ"),
        ((str(model), notes), {"chunk": 5}, "chunk differ"),
        ((str(model), notes), {"chunk": 4, "text": True}, "text differ"),
    ):
        with pytest.raises(ValueError, match=f"other settings or other input files: {differs}"):
            annotate(*arguments, output, **settings_)
    assert contents(output) == contents(whole)
    annotate(str(model), fewer, output, force=True)
    assert [row["id"] for row in read_rows(output / "rows" / "00000.jsonl")] == ["n0"]
    assert len(list((output / "rows").iterdir())) == 1


def test_a_model_that_differs_between_machines_is_refused(model, notes, tmp_path):
    from spacy_mslm.tasks.annotation.work import Annotator, find_pipeline

    path, origin = find_pipeline(str(model))
    with pytest.raises(ValueError, match="not the same on all machines"):
        Annotator(path, origin._replace(digest="0"), tmp_path, Format.jsonl, False)


COMMAND = [sys.executable, "-m", "spacy", "mslm", "annotate"]


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_killed_at_any_moment_it_goes_on(model, notes, whole, tmp_path, jobs):
    generator = random.Random(int(jobs))
    command = [*COMMAND, str(model), str(notes), str(tmp_path / "out"), "--chunk", "4"]
    command += ["--jobs", jobs]
    killed = 0
    for _ in range(3):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        enough = len(list(tmp_path.rglob("*.jsonl"))) + generator.randint(1, 2)
        while process.poll() is None and len(list(tmp_path.rglob("*.jsonl"))) < enough:
            time.sleep(0.002)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            killed += 1
        process.communicate()
    result = run_spacy(*command[3:])
    assert result.returncode == 0, result.stderr
    assert killed and contents(tmp_path / "out") == contents(whole)


def test_words_are_freed_after_each_chunk_but_the_first(model, tmp_path):
    from spacy_mslm.engine.chunks import Chunk
    from spacy_mslm.tasks.annotation.source import Document
    from spacy_mslm.tasks.annotation.work import Annotator, find_pipeline

    annotator = Annotator(*find_pipeline(str(model)), tmp_path, Format.jsonl, False)
    (tmp_path / "done").mkdir()
    for number in range(3):
        annotator(Chunk(number, [Document("n0", f"asthma and newword{number} .")]))
    strings = annotator.nlp.vocab.strings
    assert [f"newword{number}" in strings for number in range(3)] == [True, False, False]


# ---- failures ----


class Fussy:
    def __call__(self, doc: Doc) -> Doc:
        if "cisplatin" in doc.text:
            raise RuntimeError(doc.text)
        return doc


@pytest.fixture
def fussy(make_nlp, tmp_path) -> Path:
    """A pipeline that fails on documents with a word."""
    Language.component("fussy", func=Fussy())
    nlp = make_nlp(**NO_MASKS)
    nlp.add_pipe("fussy", last=True)
    nlp.to_disk(tmp_path / "fussy")
    return tmp_path / "fussy"


def test_documents_that_fail_are_listed_and_stop_nothing(fussy, tmp_path):
    documents = {**DOCUMENTS, "surrogate": "no \ud800 asthma", "long": "asthma " * 1_500_000}
    notes = write_jsonl(tmp_path / "notes.jsonl", documents)
    failing = {id_ for id_, text in DOCUMENTS.items() if "cisplatin" in text}
    assert 3 < len(failing) < 20
    found = annotate(str(fussy), notes, tmp_path / "out.jsonl", chunk=21)
    errors = {row["id"]: row["reason"] for row in read_rows(tmp_path / "out.jsonl.errors.jsonl")}
    assert found.errors == tmp_path / "out.jsonl.errors.jsonl"
    assert errors == {
        **dict.fromkeys(failing, "RuntimeError"),
        "surrogate": "text is not valid Unicode",
        "long": "text is longer than 1,000,000 characters",
    }
    ids = [row["id"] for row in read_rows(tmp_path / "out.jsonl")]
    assert ids == [id_ for id_ in documents if id_ not in errors]
    assert found.failed == len(errors) and found.documents == len(documents)


def test_a_pipeline_that_always_fails_stops_the_work(fussy, tmp_path):
    texts = {f"n{i}": "SECRET cisplatin" for i in range(12)}
    notes = write_jsonl(tmp_path / "notes.jsonl", texts)
    with pytest.raises(ValueError, match=r"all 12 documents .* n0 with RuntimeError") as error:
        annotate(str(fussy), notes, tmp_path / "out.jsonl")
    assert "SECRET" not in str(error.value)
    assert not (tmp_path / "out.jsonl").exists()


def test_the_command_says_what_was_found_and_what_failed(model, tmp_path):
    notes = tmp_path / "notes.jsonl"
    lines = [json.dumps({"text": text}) for text in DOCUMENTS.values()]
    notes.write_text("\n".join(lines) + "\n")
    result = run_spacy("mslm", "annotate", model, notes, tmp_path / "out.parquet")
    told = result.stdout + result.stderr
    assert result.returncode == 0, told
    assert "40 documents have no id: they are named by file and line" in told
    assert "entities of 40 documents to" in told
    ids = parquet.read_table(tmp_path / "out.parquet")["id"].to_pylist()
    assert ids[:2] == ["notes.jsonl:1", "notes.jsonl:2"]
    with notes.open("a") as file:
        file.write('{"text": "SECRET \\ud800"}\n')
    result = run_spacy("mslm", "annotate", model, notes, tmp_path / "out.jsonl")
    told = " ".join((result.stdout + result.stderr).split())
    assert result.returncode == 1
    assert "1 of 41 documents failed:" in told and "SECRET" not in told
    (error,) = read_rows(tmp_path / "out.jsonl.errors.jsonl")
    assert error == {"id": "notes.jsonl:41", "reason": "text is not valid Unicode"}


def test_bad_input_is_told_before_anything_is_written(model, tmp_path):
    double = tmp_path / "double.jsonl"
    double.write_text('{"id": 1, "text": "a"}\n{"id": 2, "text": "b"}\n{"id": 1, "text": "c"}\n')
    undecodable = tmp_path / "bytes.jsonl"
    undecodable.write_bytes(b'{"id": 1, "text": "a"}\n{"id": 2, "text": "\xff"}\n')
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    good = write_jsonl(tmp_path / "good.jsonl", {"n0": "asthma"})
    jsonl = tmp_path / "out.jsonl"
    for path, output, settings_, message in (
        (double, jsonl, {}, "several documents have the same id: 1. Nothing was annotated"),
        (undecodable, jsonl, {}, "line 2: not valid UTF-8"),
        (empty, jsonl, {}, "holds no documents"),
        (tmp_path / "none.jsonl", jsonl, {}, "there is no such file"),
        (good, tmp_path / "out.spacy", {}, "hold the text of the documents. Give --text"),
        (good, jsonl, {"format": Format.parquet}, "is a file of the format jsonl, not parquet"),
        (good, good, {}, "already exists"),
        (good, tmp_path / "out.csv", {}, r"ends with \.csv, which is not a format"),
        (good, jsonl, {"address": "h:1"}, "settings of Ray"),
        (good, jsonl, {"engine": Engine.ray, "gpu_id": 0}, "--gpus"),
    ):
        with pytest.raises(ValueError, match=message):
            annotate(str(model), path, output, **settings_)
    with pytest.raises(ValueError, match="There is no pipeline"):
        annotate(str(tmp_path / "nothing"), good, jsonl)
    assert not jsonl.exists() and not (tmp_path / "out.jsonl.parts").exists()
