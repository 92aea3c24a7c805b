"""`convert --split` and `--dedup`: disjoint and complete splits, and what is removed from which."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.vocab import Vocab

from spacy_mslm.corpus.duplicates import text_key
from spacy_mslm.corpus.formats.records import Document
from spacy_mslm.corpus.partition import parse_shares, partition, remove_duplicates
from spacy_mslm.corpus.readers import read_docs
from spacy_mslm.tasks.conversion import convert, split_warnings

SHARES = {"train": 0.5, "dev": 0.25, "test": 0.25}


def documents(texts, groups=()):
    groups = groups or [""] * len(texts)
    pairs = zip(texts, groups, strict=True)
    return [Document(str(i), text, [], 1, group=group) for i, (text, group) in enumerate(pairs)]


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abcdefghij"), st.sampled_from(["", *"klmnop"]))),
    st.integers(0, 9),
)
def test_splits_are_disjoint_and_complete(rows, seed):
    items = documents([text for text, _ in rows], [group for _, group in rows])
    try:
        splits = partition(items, SHARES, seed)
    except ValueError as err:
        assert "leaves nothing for" in str(err)
        return
    assert sorted(d.id for part in splits.values() for d in part) == sorted(d.id for d in items)
    assert all(part == sorted(part, key=lambda d: int(d.id)) for part in splits.values())
    for values in (
        [{d.group for d in part if d.group} for part in splits.values()],
        [{d.text for d in part} for part in splits.values()],
    ):
        assert sum(map(len, values)) == len(set().union(*values))
    assert splits == partition(items, SHARES, seed)


def test_shares_are_exact_without_groups_and_depend_on_the_seed():
    items = documents([str(i) for i in range(40)])
    draws = [partition(items, SHARES, seed) for seed in range(5)]
    assert {tuple(map(len, draw.values())) for draw in draws} == {(20, 10, 10)}
    assert len({str(draw) for draw in draws}) == 5


@pytest.mark.parametrize("text", ["", "0.8", "0.8,0.3", "1,0", "a,b", "0.4,0.3,0.2,0.1"])
def test_shares_that_are_none(text):
    with pytest.raises(ValueError, match="not a list of shares"):
        parse_shares(text)


@settings(deadline=None)
@given(*(st.lists(st.sampled_from(["a", "b ", "b", "c", "d", " "]), min_size=1),) * 3)
def test_duplicates_leave_the_split_of_lower_precedence(train, dev, test):
    splits = {n: documents(t) for n, t in (("train", train), ("dev", dev), ("test", test))}
    try:
        kept, removed = remove_duplicates(splits)
    except ValueError as err:
        assert "leaves nothing of" in str(err)
        return
    assert kept["test"] == splits["test"]
    keys = {n: {text_key(d.text) for d in docs} - {b""} for n, docs in kept.items()}
    assert not keys["train"] & keys["dev"] and not (keys["train"] | keys["dev"]) & keys["test"]
    for name, docs in splits.items():
        assert len(kept[name]) + len(removed[name]) == len(docs)
    assert set().union(*keys.values()) == {text_key(t) for t in train + dev + test} - {b""}


@pytest.fixture
def notes(tmp_path):
    path = tmp_path / "notes.jsonl"
    records = [
        {"id": i, "text": f"note {i}", "spans": [[0, 4, f"L{i % 3}"]], "meta": {"patient": i // 2}}
        for i in range(20)
    ]
    path.write_text("\n".join(map(json.dumps, records)), encoding="utf8")
    return path


def test_split_by_group_writes_a_folder(notes, tmp_path):
    out = tmp_path / "out"
    conversion = convert(notes, out, split="0.5,0.3,0.2", group="patient", seed=3)
    assert [split.source.name for split in conversion.splits] == ["train", "dev", "test"]
    patients = [
        {int(doc.user_data["id"]) // 2 for doc in read_docs(out / f"{name}.spacy", Vocab())}
        for name in ("train", "dev", "test")
    ]
    assert [len(found) for found in patients] == [5, 3, 2] and len(set.union(*patients)) == 10
    assert conversion.statistics["documents"] == {"train": 10, "dev": 6, "test": 4}
    with pytest.raises(ValueError, match=r"line 1: .*'ward' of --group is missing; .*'meta'"):
        convert(notes, out, split="0.5,0.5", group="ward")
    with pytest.raises(ValueError, match="has splits already: train, dev, test"):
        convert(out, tmp_path / "again", split="0.5,0.5")
    with pytest.raises(ValueError, match="Give --split, too"):
        convert(notes, tmp_path / "a.spacy", group="patient")
    with pytest.raises(ValueError, match="Add --split"):
        convert(notes, tmp_path / "a.spacy", dedup=True)


def test_sentences_of_an_article_stay_together(tmp_path):
    path = tmp_path / "a.tsv"
    articles = ["".join(f"w{a}.{i}\tB-D\n\n" for i in range(5)) for a in range(4)]
    path.write_text("-DOCSTART-\tO\n\n" + "-DOCSTART-\tO\n\n".join(articles), encoding="utf8")
    train, dev = convert(path, tmp_path / "out", split="0.5,0.5").splits
    found = [{text[:2] for _, text in split.texts} for split in (train, dev)]
    assert [len(articles) for articles in found] == [2, 2] and not found[0] & found[1]


def test_dedup_leaves_no_warning_and_counts(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for name, words in (("train", "abcd"), ("dev", "bce"), ("test", "cf")):
        content = "".join(f"{word}\tB-D\n\n" for word in words)
        (folder / f"{name}.tsv").write_text(content, encoding="utf8")
    assert len(split_warnings(convert(folder, tmp_path / "with").splits)) == 2
    conversion = convert(folder, tmp_path / "without", dedup=True)
    assert conversion.removed == {
        "train": ["train.tsv:3", "train.tsv:5"],
        "dev": ["dev.tsv:3"],
        "test": [],
    }
    assert split_warnings(conversion.splits) == []
    assert conversion.statistics["removed_duplicates"] == conversion.removed
