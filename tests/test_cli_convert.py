"""`spacy mslm convert`: what it writes, what it tells, and that it never leaves half a file."""

import os
import subprocess
import sys

import pytest
import spacy
from spacy.tokens import DocBin
from spacy.vocab import Vocab

from spacy_mslm.cli.convert import convert, split_warnings
from spacy_mslm.readers import make_corpus, make_iob_reader

TRAIN = "A\tO\nB\tB-D\nC\tI-D\n\nD\tB-D\nE\tB-D\n\nF\tO\n\n"
DEV = "D\tO\nE\tO\n\nG\tB-C\n"


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "in"
    path.mkdir()
    (path / "train.tsv").write_text(TRAIN, encoding="utf8")
    (path / "devel.txt").write_text(DEV, encoding="utf8")
    (path / "test.conll").write_text("Z\tB-D\n", encoding="utf8")
    return path


def read(path):
    return list(DocBin().from_disk(path).get_docs(Vocab()))


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "spacy", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "NO_COLOR": "1", "PYTHONIOENCODING": "utf8"},
    )


def test_command_converts_a_folder(folder, tmp_path):
    out = tmp_path / "out" / "deep"
    result = run("mslm", "convert", folder, out)
    assert result.returncode == 0, result.stdout + result.stderr
    assert sorted(os.listdir(out)) == ["dev.spacy", "test.spacy", "train.spacy"]
    told = " ".join(result.stdout.split())
    assert "train 3 6 3 D" in told
    assert "dev 2 3 1 C" in told
    assert "1 of the 2 texts of dev are also in train" in told and "devel.txt:1" in told
    assert "labels differ" in told and "train: D; dev: C; test: D" in told


def test_command_refuses_bad_input_without_traceback(folder, tmp_path):
    (folder / "test.conll").write_text("a\tO\nsecret\n", encoding="utf8")
    result = run("mslm", "convert", folder, tmp_path / "out")
    assert result.returncode == 1
    told = " ".join((result.stdout + result.stderr).split())
    assert "test.conll, line 2: one column only" in told
    assert "Traceback" not in told and "secret" not in told
    assert not (tmp_path / "out").exists()


def test_help_imports_nothing_heavy_through_us():
    code = (
        "import sys, spacy.cli\n"
        "before = set(sys.modules)\n"
        "import spacy_mslm.cli\n"
        "new = {name.split('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(new))\n"
        "heavy = {'torch', 'transformers', 'spacy_transformers', 'tokenizers', 'matplotlib'}\n"
        "assert not new & heavy\n"
        "assert 'spacy_mslm.readers' not in sys.modules\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "convert" in run("mslm", "--help").stdout


def test_a_file_gives_what_the_reader_gives(folder, tmp_path):
    nlp = spacy.blank("en")
    source, target = folder / "train.tsv", tmp_path / "t.spacy"
    (split,) = convert(source, target, limit=2, seed=1)
    assert (split.docs, split.labels) == (2, {"D"})
    direct = list(make_iob_reader(source, limit=2, seed=1)(nlp))
    through = list(make_corpus(target)(nlp))
    assert len(direct) == len(through) == 2
    for a, b in zip(direct, through, strict=True):
        assert a.reference.user_data["id"] == b.reference.user_data["id"]
        for left, right in ((a.predicted, b.predicted), (a.reference, b.reference)):
            assert [(t.text, t.ent_iob, t.ent_type_) for t in left] == [
                (t.text, t.ent_iob, t.ent_type_) for t in right
            ]


def test_limit_and_seed_of_a_folder_concern_train_only(folder, tmp_path):
    train, dev, _ = convert(folder, tmp_path / "out", limit=1, seed=0)
    assert (train.docs, dev.docs) == (1, 2)
    assert [doc.user_data["id"] for doc in read(dev.output)] == ["devel.txt:1", "devel.txt:4"]


def test_joined_sentences_keep_starts_and_mentions(folder, tmp_path):
    (split,) = convert(folder / "train.tsv", tmp_path / "t.spacy", n_sents=2)
    assert (split.docs, split.tokens, split.mentions) == (2, 6, 3)
    first, second = read(split.output)
    assert [len(sent) for sent in first.sents] == [3, 2]
    ents = [(ent.start, ent.end, ent.label_) for ent in first.ents]
    assert ents == [(1, 3, "D"), (3, 4, "D"), (4, 5, "D")]
    assert [doc.user_data["id"] for doc in (first, second)] == ["train.tsv:1", "train.tsv:8"]


def test_same_labels_and_texts_once_give_no_warning(folder, tmp_path):
    (folder / "devel.txt").unlink()
    assert split_warnings(convert(folder, tmp_path / "out")) == []


def test_bad_arguments(folder, tmp_path):
    out = tmp_path / "out"
    file = folder / "train.tsv"
    empty = tmp_path / "empty"
    empty.mkdir()
    for source, target, message in [
        (tmp_path / "none", out, "no such file"),
        (file, out, "does not fit"),
        (folder, tmp_path / "x.spacy", "does not fit"),
        (folder, file, "does not fit"),
        (empty, out, "none of the files"),
    ]:
        with pytest.raises(ValueError, match=message):
            convert(source, target)
    (folder / "dev.tsv").write_text(DEV, encoding="utf8")
    with pytest.raises(ValueError, match=r"dev split: devel\.txt, dev\.tsv"):
        convert(folder, out)
    assert not out.exists() and not (tmp_path / "x.spacy").exists()


def test_a_failed_write_leaves_the_old_file(folder, tmp_path, monkeypatch):
    target = tmp_path / "out" / "t.spacy"
    convert(folder / "train.tsv", target)
    old = target.read_bytes()

    def fail(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        convert(folder / "devel.txt", target)
    assert target.read_bytes() == old
    assert os.listdir(target.parent) == ["t.spacy"]


def test_the_same_input_gives_the_same_bytes(folder, tmp_path):
    paths = [tmp_path / "a.spacy", tmp_path / "b.spacy"]
    for path in paths:
        convert(folder / "train.tsv", path)
    assert paths[0].read_bytes() == paths[1].read_bytes()
