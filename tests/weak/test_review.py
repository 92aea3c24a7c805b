"""Samples for Prodigy and doccano, and the results of their review."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc, DocBin, Span
from spacy.vocab import Vocab

from spacy_mslm.corpus.formats.jsonl import read_jsonl
from spacy_mslm.weak.review import Precision, Review, export_review, read_review

Record = dict[str, Any]


def sentence(number: int, labelled: bool = True) -> Doc:
    """Sentence 7 is "7 has acute gout and fever ." with a Disease and a Symptom."""
    words = [str(number), "has", "acute", "gout", "and", "fever", "."]
    doc = Doc(Vocab(), words=words, spaces=[True] * 6 + [False])
    doc.user_data["id"] = f"note:{number}"
    ents = [Span(doc, 2, 4, "Disease"), Span(doc, 5, 6, "Symptom")] if labelled else []
    doc.set_ents(ents, default="outside")
    return doc


def write_shards(folder: Path, shards: list[list[Doc]]) -> Path:
    for number, docs in enumerate(shards):
        path = folder / "train" / f"{number:05}.spacy"
        path.parent.mkdir(parents=True, exist_ok=True)
        DocBin(store_user_data=True, docs=docs).to_disk(path)
    return folder


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """60 sentences in three shards, every second one labelled."""
    docs = [sentence(i, labelled=i % 2 == 0) for i in range(60)]
    return write_shards(tmp_path / "corpus", [docs[:20], docs[20:40], docs[40:]])


def read(path: Path) -> list[Record]:
    return [json.loads(line) for line in path.read_text("utf8").splitlines()]


def write(path: Path, records: list[Record]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf8")
    return path


# ---- out ----


def test_a_record_has_what_both_tools_need(corpus: Path, tmp_path: Path) -> None:
    output = tmp_path / "sample.jsonl"
    assert export_review(corpus, output, n=100, seed=0) == 30  # no more are labelled
    records = {record["id"]: record for record in read(output)}
    assert set(records) == {f"note:{i}" for i in range(0, 60, 2)}
    record = records["note:8"]
    text = "8 has acute gout and fever ."
    assert record["text"] == text
    assert record["meta"] == {"id": "note:8"}
    assert [text[t["start"] : t["end"]] for t in record["tokens"]] == text.split()
    assert [(t["id"], t["ws"]) for t in record["tokens"]] == [
        *((i, True) for i in range(6)),
        (6, False),
    ]
    spans = [
        {
            "start": 6, "end": 16, "start_offset": 6, "end_offset": 16,
            "token_start": 2, "token_end": 3, "label": "Disease",
        },
        {
            "start": 21, "end": 26, "start_offset": 21, "end_offset": 26,
            "token_start": 5, "token_end": 5, "label": "Symptom",
        },
    ]  # fmt: skip
    assert record["spans"] == spans


def test_the_package_reads_it_too(corpus: Path, tmp_path: Path) -> None:
    output = tmp_path / "sample.jsonl"
    export_review(corpus, output, n=5, seed=0)
    documents = list(read_jsonl(output))
    assert [document.id for document in documents] == [record["id"] for record in read(output)]
    size = {len(document.mentions) for document in documents}
    assert len(documents) == 5 and size == {2}


def test_it_is_the_owners_only(corpus: Path, tmp_path: Path) -> None:
    output = tmp_path / "sample.jsonl"
    output.write_text("old")
    output.chmod(0o644)
    export_review(corpus, output, n=3, seed=0)
    assert stat.S_IMODE(output.stat().st_mode) == 0o600
    assert sorted(p.name for p in tmp_path.iterdir()) == ["corpus", "sample.jsonl"]


def test_the_sample_is_the_seeds_and_of_all_shards(corpus: Path, tmp_path: Path) -> None:
    def ids(seed: int) -> list[str]:
        assert export_review(corpus, tmp_path / "out.jsonl", n=4, seed=seed) == 4
        return [record["id"] for record in read(tmp_path / "out.jsonl")]

    assert ids(1) == ids(1) != ids(2)
    drawn = [set(ids(seed)) for seed in range(150)]
    counts = [sum(f"note:{i}" in names for names in drawn) for i in range(0, 60, 2)]
    # 150 samples of 4 out of 30: 20 times each, give or take four standard deviations of 4.2.
    assert all(len(names) == 4 for names in drawn)
    assert min(counts) >= 3 and max(counts) <= 37


def test_one_file_is_a_corpus_as_well(corpus: Path, tmp_path: Path) -> None:
    assert export_review(corpus / "train/00001.spacy", tmp_path / "o.jsonl", n=99, seed=0) == 10


def test_bad_corpora_are_told(tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    empty = write_shards(tmp_path / "a", [[sentence(1, labelled=False)]])
    with pytest.raises(ValueError, match="no labelled sentence"):
        export_review(empty, output, n=1, seed=0)
    twice = write_shards(tmp_path / "b", [[sentence(1)], [sentence(1)]])
    with pytest.raises(ValueError, match="the id note:1 occurs more than once"):
        export_review(twice, output, n=2, seed=0)
    with pytest.raises(ValueError, match="at least 1 sentence, but 0"):
        export_review(twice, output, n=0, seed=0)
    (tmp_path / "c").mkdir()
    with pytest.raises(ValueError, match=r"holds no \.spacy file"):
        export_review(tmp_path / "c", output, n=1, seed=0)
    with pytest.raises(ValueError, match="no such file"):
        export_review(tmp_path / "d.spacy", output, n=1, seed=0)
    assert not output.exists()


# ---- back ----


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """note:0 to note:4, with a Disease and a Symptom each."""
    corpus = write_shards(tmp_path / "five", [[sentence(i) for i in range(5)]])
    export_review(corpus, tmp_path / "sample.jsonl", n=5, seed=0)
    return tmp_path / "sample.jsonl"


def by_id(path: Path) -> dict[str, Record]:
    return {record["id"]: record for record in read(path)}


def test_precision_from_prodigy(sample: Path, tmp_path: Path) -> None:
    records = by_id(sample)
    for record in records.values():
        record.update(answer="accept", _input_hash=1, _view_id="ner_manual")
    records["note:0"]["spans"].pop()  # the Symptom is wrong
    disease = records["note:1"]["spans"][0]
    disease.update(start=12, token_start=3)  # other boundaries: wrong, and nothing is added
    word = {"start": 2, "end": 5, "token_start": 1, "token_end": 1, "label": "Symptom"}
    records["note:1"]["spans"].append(word)  # added
    records["note:2"]["answer"] = "reject"  # two wrong
    records["note:3"]["answer"] = "ignore"
    review = read_review(sample, write(tmp_path / "back.jsonl", list(records.values())))
    assert review == Review(
        sentences=4,
        ignored=1,
        overall=Precision(4, 8),
        labels={"Disease": Precision(2, 4), "Symptom": Precision(2, 4)},
        added=1,
        missing=[],
        unknown=[],
    )


def as_doccano(record: Record, number: int) -> Record:
    """As doccano exports it: with its own id, all other columns, and mentions as tuples."""
    spans = [[span["start_offset"], span["end_offset"], span["label"]] for span in record["spans"]]
    rest = {"tokens": record["tokens"], "meta": record["meta"]}
    return {"id": number, "text": record["text"], **rest, "label": spans, "Comments": []}


def test_precision_from_doccano(sample: Path, tmp_path: Path) -> None:
    records = by_id(sample)
    back = [as_doccano(records[f"note:{i}"], 100 + i) for i in range(4)]
    back[0]["label"][1][2] = "Disease"  # another label
    back[1]["label"] = []
    back[2]["spans"] = records["note:2"]["spans"]  # sent back beside the answer, which counts
    back[2]["label"].pop(0)
    del back[3]["meta"]  # known by its text
    names = ("start_offset", "end_offset", "label")
    entities = [dict(zip(names, m, strict=True)) for m in back[3].pop("label")]
    back[3]["entities"] = [*entities, {"id": 1, "start_offset": 0, "end_offset": 1, "label": "New"}]
    review = read_review(sample, write(tmp_path / "back.jsonl", back))
    assert review == Review(
        sentences=4,
        ignored=0,
        overall=Precision(4, 8),
        labels={"Disease": Precision(2, 4), "Symptom": Precision(2, 4)},
        added=1,
        missing=["note:4"],
        unknown=[],
    )


def test_missing_and_unknown_are_told_by_id(sample: Path, tmp_path: Path) -> None:
    records = by_id(sample)
    changed = {**records["note:1"], "text": "Something else, of that length."}
    stray = {
        **records["note:2"],
        "id": "x",
        "meta": {"id": "other:9"},
        "text": "acute gout, fever or so",
    }
    stray["spans"] = []
    nameless = {"text": "No id", "label": []}
    path = write(tmp_path / "back.jsonl", [records["note:0"], changed, stray, nameless])
    review = read_review(sample, path)
    assert review.unknown == ["note:1", "other:9", "line 4"]
    assert sorted(review.missing) == ["note:1", "note:2", "note:3", "note:4"]
    assert review.sentences == 1 and review.overall == Precision(2, 2)


def test_a_text_that_is_there_twice(tmp_path: Path) -> None:
    docs = [sentence(1), sentence(1)]
    docs[1].user_data["id"] = "note:again"
    corpus = write_shards(tmp_path / "corpus", [docs])
    sample = tmp_path / "sample.jsonl"
    export_review(corpus, sample, n=2, seed=0)
    back = [{"text": record["text"], "label": []} for record in read(sample)]
    review = read_review(sample, write(tmp_path / "back.jsonl", back))
    assert (review.sentences, review.missing, review.unknown) == (2, [], [])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answer": "maybe"}, "line 2: the answer is not one of accept, reject, ignore"),
        ({"text": 5}, "line 2: the file does not follow its format"),
        ({"spans": None}, "one of 'label', 'entities' and 'spans' is a list"),
        ({"spans": [[0, 3]]}, "a mention is [start, end, label]"),
        (
            {"spans": [[0, 999, "Disease"]]},
            "the mention from 0 to 999 is empty, or extends beyond the text",
        ),
        ({"spans": [[0, 3, " "]]}, "the mention's label is empty"),
    ],
)
def test_bad_records_are_told_by_line_and_never_quoted(
    sample: Path, tmp_path: Path, change: Record, message: str
) -> None:
    first, second, *_ = read(sample)
    path = write(tmp_path / "back.jsonl", [first, {**second, **change}])
    with pytest.raises(ValueError, match=r"back\.jsonl") as caught:
        read_review(sample, path)
    assert message in str(caught.value) and "gout" not in str(caught.value)


def test_a_record_that_came_back_twice(sample: Path, tmp_path: Path) -> None:
    first = read(sample)[0]
    path = write(tmp_path / "back.jsonl", [first, first])
    with pytest.raises(ValueError, match=rf"line 2: the document {first['id']} .* on line 1"):
        read_review(sample, path)


def test_nothing_reviewed(sample: Path, tmp_path: Path) -> None:
    records = [{**record, "answer": "ignore"} for record in read(sample)]
    with pytest.raises(ValueError, match=r"no sentence of .* came back accepted or rejected"):
        read_review(sample, write(tmp_path / "back.jsonl", records))
    (tmp_path / "back.jsonl").write_text("{broken")
    with pytest.raises(ValueError, match="line 1: the file does not follow its format"):
        read_review(sample, tmp_path / "back.jsonl")


# ---- intervals ----


@pytest.mark.parametrize(
    ("right", "total", "low", "high"),
    [
        # By hand: (p + z²/2n ± z √(p(1-p)/n + z²/4n²)) / (1 + z²/n), z² = 3.8415.
        (8, 10, 0.4902, 0.9433),
        (50, 100, 0.4038, 0.5962),
        (0, 10, 0.0, 0.2775),
        (10, 10, 0.7225, 1.0),
    ],
)
def test_wilson(right: int, total: int, low: float, high: float) -> None:
    precision = Precision(right, total)
    assert precision.value == right / total
    assert precision.interval == pytest.approx((low, high), abs=1e-4)


@given(st.integers(1, 10_000), st.data())
def test_the_interval_holds_the_precision(total: int, data: st.DataObject) -> None:
    precision = Precision(data.draw(st.integers(0, total)), total)
    assert precision.interval is not None and precision.value is not None
    low, high = precision.interval
    assert 0 <= low <= precision.value + 1e-9 and precision.value - 1e-9 <= high <= 1


def test_no_mentions_no_precision() -> None:
    assert Precision(0, 0).value is None and Precision(0, 0).interval is None
