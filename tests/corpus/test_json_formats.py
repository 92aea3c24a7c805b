"""Formats in JSON, Parquet and Arrow: what is read, how it is detected, and what messages name."""

import json
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spacy_mslm.corpus.formats.bioc_json import read_bioc_json
from spacy_mslm.corpus.formats.detection import detect_format
from spacy_mslm.corpus.formats.gliner import read_gliner
from spacy_mslm.corpus.formats.hugging_face import read_hugging_face
from spacy_mslm.corpus.formats.jsonl import read_jsonl
from spacy_mslm.corpus.formats.label_studio import read_label_studio
from spacy_mslm.tasks.annotation.formats import Parquet
from spacy_mslm.tasks.conversion import convert

TEXT = "No renal failure. 😀 Asthma."
WORDS = ["No", "renal", "failure", "."]
NAMES = ["O", "B-D", "I-D"]


def value(start, end, label="D", text=TEXT):
    return {"value": {"start": start, "end": end, "text": text, "labels": [label]}}


TASK = {
    "id": 7,
    "data": {"note": TEXT, "patient": 3},
    "annotations": [
        {"was_cancelled": True, "result": []},
        # Label Studio counts the emoji as two.
        {"result": [value(3, 16, text="renal failure"), value(21, 27, text="Asthma")]},
        {"result": []},
    ],
}
BIOC = {
    "id": "7",
    "passages": [
        {"offset": 0, "text": "No renal", "annotations": []},
        {
            "offset": 9,
            "text": "failure.",
            "annotations": [
                {
                    "infons": {"type": "D"},
                    "text": "renal failure",
                    "locations": [{"offset": 3, "length": 13}],
                },
                {
                    "infons": {"type": "E"},
                    "text": "No failure",
                    "locations": [{"offset": 0, "length": 2}, {"offset": 9, "length": 7}],
                },
            ],
        },
    ],
}


@pytest.mark.parametrize(
    "content, expected",
    [
        ({"tokenized_text": WORDS, "ner": []}, "gliner"),
        ({"tokens": WORDS, "ner_tags": [0, 1, 2, 0]}, "hugging_face"),
        ({"documents": [BIOC]}, "bioc_json"),
        (BIOC, "bioc_json"),
        (TASK, "label_studio"),
        ({"text": TEXT, "tokens": WORDS, "spans": []}, "jsonl"),
    ],
)
def test_json_is_told_apart_by_its_keys(tmp_path, content, expected):
    path = tmp_path / "a.json"
    for data in (
        json.dumps(content),
        json.dumps(content, indent=1),
        json.dumps([content]),
        json.dumps([content], indent=1),
    ):
        path.write_text(data, encoding="utf8")
        assert detect_format(path) == expected


def test_label_studio(tmp_path, caplog):
    path = tmp_path / "a.json"
    bare = {"id": 8, "data": {"text": "x"}, "annotations": []}
    path.write_text(json.dumps([TASK, bare], indent=1), encoding="utf8")
    (document,) = read_label_studio(path, group="patient")
    assert (document.id, document.text, document.group) == ("7", TEXT, "3")
    assert document.mentions == [(3, 16, "D"), (20, 26, "D")]
    assert "1 tasks have no annotation" in caplog.text
    assert "1 tasks have several annotations" in caplog.text
    # JSON-MIN
    path.write_text(json.dumps([{"text": TEXT, "label": [value(3, 16)["value"]]}]), "utf8")
    (document,) = read_jsonl(path)
    assert document.mentions == [(3, 16, "D")]


def test_doccano_with_relations_and_labels(tmp_path):
    path = tmp_path / "a.jsonl"
    entity = {"id": 1, "start_offset": 3, "end_offset": 16, "label": "D"}
    records = [
        {"id": 1, "text": TEXT, "entities": [entity], "relations": [], "Comments": []},
        {"id": 2, "text": TEXT, "labels": [[3, 16, "D"]]},
    ]
    path.write_text("\n".join(map(json.dumps, records)), encoding="utf8")
    assert [document.mentions for document in read_jsonl(path)] == [[(3, 16, "D")]] * 2


def test_gliner_keeps_overlapping_mentions(tmp_path):
    path = tmp_path / "a.json"
    record = {"tokenized_text": WORDS, "ner": [[2, 2, "E"], [1, 2, "D"], [1, 2, "D"]]}
    path.write_text(json.dumps([record]), encoding="utf8")
    (sentence,) = read_gliner(path)
    assert sentence.mentions == [(1, 3, "D")] and sentence.overlapping == ((2, 3, "E"),)
    (split,) = convert(path, tmp_path / "a.spacy").splits
    assert (split.kept, split.left_out) == (1, [("a.json:1", (9, 16, "it overlaps a longer one"))])


def test_bioc_json(tmp_path):
    path = tmp_path / "a.json"
    for content in ({"documents": [BIOC]}, {"PubTator3": [BIOC]}, BIOC):
        path.write_text(json.dumps(content, indent=1), encoding="utf8")
        (document,) = read_bioc_json(path)
        assert (document.id, document.text) == ("7", "No renal\nfailure.")
        assert document.mentions == [(3, 16, "D")]
        assert document.in_parts == ((((0, 2), (9, 16)), "E"),)


def arrow_table(nested):
    tags = {"feature": {"names": NAMES, "_type": "ClassLabel"}, "_type": "Sequence"}
    features = {"ner_tags": [tags["feature"]] if nested else tags}
    info = json.dumps({"info": {"features": features}}).encode()
    table = pa.table({"id": ["x"], "tokens": [WORDS], "ner_tags": [[0, 1, 2, 0]]})
    return table.replace_schema_metadata({"huggingface": info})


def test_hugging_face_in_json_parquet_and_arrow(tmp_path):
    expected = [(WORDS, [(1, 3, "D")])]

    def read(path, **options):
        return [(s.words, s.mentions) for s in read_hugging_face(path, **options)]

    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"tokens": WORDS, "tags": ["O", "B-D", "I-D", "O"]}), "utf8")
    assert read(path) == expected
    path.write_text(json.dumps({"tokens": WORDS, "ner_tags": [0, 1, 2, 0]}), "utf8")
    assert read(path, names=NAMES) == expected
    with pytest.raises(ValueError, match=r"line 1: the tags are numbers.*--tags"):
        read(path)
    with pytest.raises(ValueError, match="numbers from 0 to 1"):
        read(path, names=NAMES[:2])
    pq.write_table(arrow_table(True), tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet") == expected
    # What `Dataset.save_to_disk` writes; the names are in dataset_info.json, too.
    for split in ("train", "validation"):
        folder = tmp_path / "set" / split
        folder.mkdir(parents=True)
        table = arrow_table(False).replace_schema_metadata(None)
        path = str(folder / "data-00000-of-00001.arrow")
        with pa.OSFile(path, "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table)
        features = {"ner_tags": {"feature": {"names": NAMES}, "_type": "Sequence"}}
        (folder / "dataset_info.json").write_text(json.dumps({"features": features}), "utf8")
    (tmp_path / "set" / "dataset_dict.json").write_text('{"splits": []}', encoding="utf8")
    assert read(tmp_path / "set" / "train") == expected
    splits = convert(tmp_path / "set", tmp_path / "out").splits
    assert [(s.source.name, s.source.format, s.counts.mentions) for s in splits] == [
        ("train", "hugging_face", 1),
        ("dev", "hugging_face", 1),
    ]
    (split,) = convert(tmp_path / "set" / "train", tmp_path / "one.spacy").splits
    assert split.counts.labels == {"D": 1}
    (tmp_path / "a.parquet").write_bytes(b"PAR1 secret")
    with pytest.raises(ValueError, match="damaged, or not an Arrow or Parquet file") as err:
        read(tmp_path / "a.parquet")
    assert "secret" not in str(err.value)


@pytest.mark.parametrize(
    "read, record, message",
    [
        (read_jsonl, {"sentence": "secret", "spans": []}, "'text' is missing; .* 'sentence'"),
        (read_jsonl, {"text": "secret"}, "'labels' is a list.* here are 'text'"),
        (read_jsonl, {"secret note": 1}, "'text' is missing; the record has no keys"),
        (read_gliner, {"tokens": ["secret"], "ner": []}, "'tokenized_text' is missing; .*'ner'"),
        (read_gliner, {"tokenized_text": ["secret"], "ner": [[0, 1, "D"]]}, "1 tokens"),
        (read_gliner, {"tokenized_text": ["secret", " "], "ner": []}, "no empty token"),
        (read_hugging_face, {"tokens": ["secret"]}, "'ner_tags' or 'tags' is missing"),
        (read_hugging_face, {"tokens": ["secret"], "tags": []}, "one tag for each of the 1"),
        (read_hugging_face, {"tokens": ["secret"], "tags": ["Q-D"]}, "not an entity tag"),
        (read_label_studio, {"data": {"a": 1, "b": 2}}, "'data' has a 'text'.*'a', 'b'"),
        (read_label_studio, {"data": {"text": "secret"}}, "'annotations' is a list"),
        (read_bioc_json, {"id": "1", "text": "secret"}, "'passages' is missing"),
        (read_bioc_json, {"id": "1", "passages": [{"text": "secret"}]}, "<offset>"),
    ],
)
def test_messages_name_the_key_and_hold_no_text(tmp_path, read, record, message):
    path = tmp_path / "x.json"
    path.write_text(json.dumps(record), encoding="utf8")
    with pytest.raises(ValueError, match=f"line 1: .*{message}") as err:
        list(read(path))
    assert "secret" not in str(err.value).replace(str(tmp_path), "")


def test_why_pyarrow_cannot_be_imported_is_told(tmp_path, monkeypatch):
    """It may be installed and not fit the numpy."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(ImportError, match=r"needs pyarrow \(import of pyarrow"):
        list(read_hugging_face(tmp_path / "a.parquet"))
    with pytest.raises(ImportError, match=r"needs pyarrow \(import of pyarrow"):
        Parquet()
