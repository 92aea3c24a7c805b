"""Reading and selection of clinical notes, and the documents made of them."""

import csv
import gzip
import io
import json
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_mslm.weak.documents import (
    Documents,
    make_pysbd_sentences,
    make_rule_sentences,
    marks,
)
from spacy_mslm.weak.note_files import Record, read_notes
from spacy_mslm.weak.notes import Note, Notes

HEADER = ["ROW_ID", "SUBJECT_ID", "CATEGORY", "ISERROR", "TEXT"]
ROWS = [
    ["1", "10", "Discharge summary", "", 'He said "no".\n\nPlan: aspirin, daily'],
    ["2", "10", "Physician ", "1", "Entered by mistake."],
    ["3", "11", "Physician ", "", "Fever.\r\nCough."],
    ["4", "12", "Nursing", "", " \n "],
]


def write_csv(path: Path, rows: list[list[str]] = ROWS, header: list[str] = HEADER) -> Path:
    file = io.StringIO()
    csv.writer(file).writerows([header, *rows])
    data = file.getvalue().encode("utf8")
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def chosen(notes: Notes) -> list[Note]:
    return list(notes.read(notes.survey()))


# ---- files ----


@pytest.mark.parametrize("name", ["NOTEEVENTS.csv", "NOTEEVENTS.csv.gz"])
def test_a_table_is_read_as_it_is(tmp_path, name):
    records = list(read_notes(write_csv(tmp_path / name)))
    assert [record.text for record in records] == [row[-1] for row in ROWS]
    assert records[1] == Record("2", "10", "Physician", True, "Entered by mistake.")


def test_columns_of_mimic_iv_and_other_orders(tmp_path):
    header = ["note_id", "subject_id", "hadm_id", "note_type", "note_seq", "charttime", "text"]
    path = write_csv(tmp_path / "discharge.csv", [["n1", "7", "", "DS", "2", "", "Text."]], header)
    assert list(read_notes(path)) == [Record("n1", "7", "DS", False, "Text.")]


def test_fields_may_be_long(tmp_path):
    text = "word " * 400_000  # two million characters
    path = write_csv(tmp_path / "notes.csv", [["1", "1", "", "", text]])
    assert next(read_notes(path)).text == text


def test_json_lines_folders_and_parquet(tmp_path):
    jsonl = tmp_path / "notes.jsonl"
    rows = [{"id": 5, "text": "A.", "subject_id": 3}, {"text": "B."}]
    jsonl.write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    assert list(read_notes(jsonl)) == [
        Record("5", "3", "", False, "A."),
        Record("notes.jsonl:2", "", "", False, "B."),
    ]
    folder = tmp_path / "texts"
    (folder / "ward").mkdir(parents=True)
    (folder / "ward" / "b.txt").write_text("B.")
    (folder / "a.txt").write_bytes(b"\xef\xbb\xbfA.")
    assert list(read_notes(folder)) == [
        Record("a.txt", "", "", False, "A."),
        Record("ward/b.txt", "", "ward", False, "B."),
    ]


def test_parquet(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "notes.parquet"
    columns = {"NOTE_ID": [1, 2], "TEXT": ["A.", None], "other": [0.5, 0.5]}
    parquet.write_table(pyarrow.table(columns), path)
    assert [record.text for record in read_notes(path)] == ["A.", ""]
    assert chosen(Notes(str(path))) == [Note("1", "note:1", "A.")]
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(ValueError, match=r"notes\.parquet is damaged"):
        list(read_notes(path))


QUOTED = '1,10,,,"first"\n2,11,,,"second{fault}SECRET{end}\n3,12,,,"third"\n'


@pytest.mark.parametrize(("fault", "end"), [(' a " b ', '"'), ("", "")])
def test_a_broken_quote_names_the_record_and_no_text(tmp_path, fault, end):
    path = tmp_path / "notes.csv"
    path.write_text(",".join(HEADER) + "\n" + QUOTED.format(fault=fault, end=end))
    with pytest.raises(ValueError, match=r"record that begins on line 3\b") as caught:
        list(read_notes(path))
    assert "SECRET" not in str(caught.value)


def test_a_quote_that_never_closes(tmp_path):
    path = tmp_path / "notes.csv"
    path.write_text(",".join(HEADER) + '\n1,10,,,"first\nand more\n')
    with pytest.raises(ValueError, match="begins on line 2"):
        list(read_notes(path))


def test_missing_columns_and_fields(tmp_path):
    path = write_csv(tmp_path / "notes.csv", [["1", "x"]], ["ROW_ID", "BODY"])
    with pytest.raises(ValueError, match="no column `text`"):
        list(read_notes(path))
    path.write_text("ROW_ID,TEXT\n1,a\n2,b,c\n")
    with pytest.raises(ValueError, match="line 3 has 3 columns, but the header has 2"):
        list(read_notes(path))


def test_a_truncated_archive_is_an_error(tmp_path):
    path = write_csv(tmp_path / "notes.csv.gz", [[str(i), "1", "", "", "x" * i] for i in range(99)])
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ValueError, match="truncated or damaged"):
        list(read_notes(path))


def test_unknown_files_and_json(tmp_path):
    with pytest.raises(ValueError, match="there is no such file"):
        list(read_notes(tmp_path / "none.csv"))
    (tmp_path / "notes.doc").write_text("x")
    with pytest.raises(ValueError, match=r"Unknown format of notes '\.doc'"):
        list(read_notes(tmp_path / "notes.doc"))
    (tmp_path / "notes.jsonl").write_text('{"text": "a"}\n{"text": \n')
    with pytest.raises(ValueError, match="line 2: a JSON record"):
        list(read_notes(tmp_path / "notes.jsonl"))


# ---- which notes ----


def test_records_that_are_no_notes_are_counted(tmp_path):
    path = write_csv(tmp_path / "notes.csv", [*ROWS, ["5", "12", "Nursing", "", "Garbage"]])
    path.write_bytes(path.read_bytes().replace(b"Garbage", b"Gar\xff\xfebage"))
    notes = Notes(str(path), categories=["PHYSICIAN", "nursing"])
    survey = notes.survey()
    assert survey.records == 5 and survey.chosen == 1 and survey.numbers is None
    assert survey.left_out == {
        "of another category": 1,
        "marked as an error": 1,
        "empty": 1,
        "not valid UTF-8": 1,
    }
    assert survey.unusable == {"empty": ["4"], "not valid UTF-8": ["5"]}
    assert list(notes.read(survey)) == [Note("3", "11", "Fever.\r\nCough.")]


def test_nothing_to_label_is_an_error(tmp_path):
    path = write_csv(tmp_path / "notes.csv")
    with pytest.raises(ValueError, match=r"None of the 4 records .* of another category: 3"):
        Notes(str(path), categories=["Radiology"]).survey()
    with pytest.raises(ValueError, match="No path to the notes is set"):
        Notes("")


@settings(deadline=None, max_examples=25)
@given(total=st.integers(1, 40), size=st.integers(1, 50), seed=st.integers(0, 5))
def test_a_sample_has_its_size_and_the_order_of_the_file(tmp_path_factory, total, size, seed):
    path = tmp_path_factory.mktemp("notes") / "notes.jsonl"
    path.write_text("".join(json.dumps({"id": i, "text": "x"}) + "\n" for i in range(total)))
    notes = Notes(str(path), sample=size, seed=seed)
    ids = [int(note.id) for note in chosen(notes)]
    assert ids == sorted(set(ids)) and len(ids) == min(size, total)
    assert ids == [int(note.id) for note in chosen(notes)]


def test_each_note_is_as_likely_in_the_sample(tmp_path):
    path = tmp_path / "notes.jsonl"
    path.write_text("".join(json.dumps({"id": i, "text": "x"}) + "\n" for i in range(10)))
    drawn = [0] * 10
    for seed in range(400):
        for note in chosen(Notes(str(path), sample=3, seed=seed)):
            drawn[int(note.id)] += 1
    # 120 times each are expected, with a standard deviation of 9.
    assert sum(drawn) == 1200 and all(80 < n < 160 for n in drawn)


# ---- documents ----

MARKED = "Seen by Dr. [**Last Name (STitle) 1. Who? Asthma**] on [**2101-1-3**] . He is well."


def test_marks_of_deidentification():
    found = marks(MARKED + " [**" + "x" * 500 + " asthma. **] [** open")
    assert [MARKED[start:end] for start, end in found] == [
        "[**Last Name (STitle) 1. Who? Asthma**]",
        "[**2101-1-3**]",
    ]


@pytest.mark.parametrize("make", [make_rule_sentences, make_pysbd_sentences])
def test_sentences_are_not_cut_inside_of_marks(make):
    if make is make_pysbd_sentences:
        pytest.importorskip("pysbd")
    doc = Documents("en", make())(Note("7", "1", MARKED))
    assert doc.user_data["id"] == "7"
    assert doc.text == MARKED
    for start, end in marks(MARKED):
        inside = [t for t in doc if start < t.idx < end]
        assert inside and not any(t.is_sent_start for t in inside)
    assert [sent.text for sent in doc.sents][-1] == "He is well."


def test_sentences_of_pysbd_with_paragraphs():
    pytest.importorskip("pysbd")
    text = "Seen by Dr. Who at 5 p.m. today. No fever.\n\n  PLAN:\naspirin vs. placebo. Go home.\n"
    doc = Documents("en", make_pysbd_sentences())(Note("1", "1", text))
    assert [sent.text.strip() for sent in doc.sents if sent.text.strip()] == [
        "Seen by Dr. Who at 5 p.m. today.",
        "No fever.",
        "PLAN:",
        "aspirin vs. placebo.",
        "Go home.",
    ]


def test_pysbd_missing_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "pysbd", None)
    with pytest.raises(ImportError, match=r"spacy-mslm\[weak\]"):
        make_pysbd_sentences()


def test_pyarrow_missing_is_told(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = tmp_path / "notes.parquet"
    path.touch()
    # With the reason that Python or pyarrow gives: it may be installed and not fit the numpy.
    with pytest.raises(ImportError, match=r'halted.*pip install "spacy-mslm\[parquet\]"'):
        list(read_notes(path))
