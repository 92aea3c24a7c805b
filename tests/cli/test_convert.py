"""`spacy mslm convert`: what it writes, what it tells, and that it never leaves half a file."""

import json
import logging
import os

import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.tokens import Doc, DocBin, Span
from spacy.vocab import Vocab

from spacy_mslm.cli.convert import show_labels
from spacy_mslm.corpus.convert import fit_mentions, load_tokenizer
from spacy_mslm.corpus.formats.records import Document, LeftOut
from spacy_mslm.corpus.readers import make_corpus
from spacy_mslm.tasks.conversion import convert, split_warnings, tokenizer_hint
from spacy_mslm.text.sentences import sentence_starts

from ..commands import run_python, run_spacy

TRAIN = "A\tO\nB\tB-D\nC\tI-D\n\nD\tB-D\nE\tB-D\n\nF\tO\n\n"
DEV = "D\tO\nE\tO\n\nG\tB-D\n"
NLP = load_tokenizer("blank:en")
FILES = ["dev.spacy", "stats.json", "test.spacy", "train.spacy"]


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "in"
    path.mkdir()
    (path / "train.tsv").write_text(TRAIN, encoding="utf8")
    (path / "devel.txt").write_text(DEV, encoding="utf8")
    (path / "test.conll").write_text("Z\tO\n", encoding="utf8")
    return path


def read(path):
    return list(DocBin().from_disk(path).get_docs(NLP.vocab))


def convert_one(source, target, **options):
    (split,) = convert(source, target, **options).splits
    return split


def entities(doc):
    return [(ent.start_char, ent.end_char, ent.label_) for ent in doc.ents]


def test_command_converts_a_folder(folder, tmp_path):
    out = tmp_path / "out" / "deep"
    result = run_spacy("mslm", "convert", folder, out, fresh=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert sorted(os.listdir(out)) == FILES
    told = " ".join(result.stdout.split())
    assert "train iob 3 6 3" in told
    assert "dev iob 2 3 1" in told
    assert "label train dev test" in told and "D 3 1 0" in told
    assert "1 of the 2 texts of dev are also in train" in told and "devel.txt:1" in told
    assert "labels differ" in told and "train: D; dev: D; test: none" in told
    assert "mentions per sentence 1.00" in told and "paper" not in told
    assert "dev 1 1 100.00%" in told


def test_command_refuses_bad_input_without_traceback(folder, tmp_path):
    (folder / "test.conll").write_text("a\tO\nsecret\n", encoding="utf8")
    result = run_spacy("mslm", "convert", folder, tmp_path / "out")
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
        "assert 'spacy_mslm.corpus.readers' not in sys.modules\n"
    )
    result = run_python("-c", code, fresh=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "convert" in run_spacy("mslm", "--help").stdout


def test_a_file_gives_what_the_reader_gives(folder, tmp_path):
    nlp = spacy.blank("en")
    source, target = folder / "train.tsv", tmp_path / "t.spacy"
    split = convert_one(source, target, limit=2, seed=1)
    assert (split.counts.docs, set(split.counts.labels)) == (2, {"D"})
    direct = list(make_corpus(source, limit=2, seed=1)(nlp))
    through = list(make_corpus(target)(nlp))
    assert len(direct) == len(through) == 2
    for a, b in zip(direct, through, strict=True):
        assert a.reference.user_data["id"] == b.reference.user_data["id"]
        for left, right in ((a.predicted, b.predicted), (a.reference, b.reference)):
            assert [(t.text, t.ent_iob, t.ent_type_) for t in left] == [
                (t.text, t.ent_iob, t.ent_type_) for t in right
            ]


def test_limit_and_seed_of_a_folder_concern_train_only(folder, tmp_path):
    train, dev, _ = convert(folder, tmp_path / "out", limit=1, seed=0).splits
    assert (train.counts.docs, dev.counts.docs) == (1, 2)
    ids = [doc.user_data["id"] for doc in read(dev.source.output)]
    assert ids == ["devel.txt:1", "devel.txt:4"]


def test_joined_sentences_keep_starts_and_mentions(folder, tmp_path):
    split = convert_one(folder / "train.tsv", tmp_path / "t.spacy", n_sents=2)
    counts = split.counts
    assert (counts.docs, counts.sentences, counts.tokens, counts.mentions) == (2, 3, 6, 3)
    first, second = read(split.source.output)
    assert [len(sent) for sent in first.sents] == [3, 2]
    ents = [(ent.start, ent.end, ent.label_) for ent in first.ents]
    assert ents == [(1, 3, "D"), (3, 4, "D"), (4, 5, "D")]
    assert [doc.user_data["id"] for doc in (first, second)] == ["train.tsv:1", "train.tsv:8"]


def test_same_labels_and_texts_once_give_no_warning(folder, tmp_path):
    (folder / "devel.txt").unlink()
    (folder / "test.conll").write_text("Z\tB-D\n", encoding="utf8")
    assert split_warnings(convert(folder, tmp_path / "out").splits) == []


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
        (empty, out, "none of the splits"),
    ]:
        with pytest.raises(ValueError, match=message):
            convert(source, target)
    (folder / "dev.tsv").write_text(DEV, encoding="utf8")
    with pytest.raises(ValueError, match=r"dev split: dev\.tsv, devel\.txt"):
        convert(folder, out)
    assert not out.exists() and not (tmp_path / "x.spacy").exists()


def test_a_failed_write_leaves_the_old_file(folder, tmp_path, monkeypatch):
    target = tmp_path / "out" / "t.spacy"
    convert(folder / "train.tsv", target)
    old = target.read_bytes()

    def fail(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match=r"t\.spacy cannot be written \(No space"):
        convert(folder / "devel.txt", target)
    assert target.read_bytes() == old
    assert os.listdir(target.parent) == ["t.spacy"]
    with pytest.raises(OSError, match="Nothing was written"):
        convert(folder, tmp_path / "new" / "deep")
    assert not (tmp_path / "new").exists()


def test_a_full_disk_leaves_nothing_and_names_the_file(folder, tmp_path):
    (folder / "test.conll").write_text(
        "".join(f"word{i}\tO\n\n" for i in range(3000)), encoding="utf8"
    )
    out = tmp_path / "out"
    code = (
        "import resource, runpy; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)); "
        "runpy.run_module('spacy', run_name='__main__', alter_sys=True)"
    )
    result = run_python("-c", code, "mslm", "convert", folder, out / "deep")
    told = " ".join((result.stdout + result.stderr).split())
    assert result.returncode == 1 and "Traceback" not in told
    assert "test.spacy cannot be written (File too large)" in told
    assert not out.exists()


def test_the_same_input_gives_the_same_bytes(folder, tmp_path):
    paths = [tmp_path / "a.spacy", tmp_path / "b.spacy"]
    for path in paths:
        convert(folder / "train.tsv", path)
    assert paths[0].read_bytes() == paths[1].read_bytes()


# ---- other formats ----


BRAT = {
    # The third lies in the second, the fourth overlaps it, the fifth splits a token.
    "1": (
        "No acute renal failure. Naïve T-cells.",
        "T1\tD 3 22\tacute renal failure\nT2\tD 9 22\trenal failure\nT3\tD 0 8\tNo acute\n"
        "T4\tC 25 29\taïve\nT5\tD 3 8;15 22\tacute failure\nT6\tD 3 22\tacute renal failure\n",
    ),
    "2": ("Aspirin.\n\nSecond line", "T1\tC 0 7\tAspirin\n"),
}


@pytest.fixture
def brat(tmp_path):
    for split, count in (("train", 2), ("valid", 1), ("test", 1)):
        folder = tmp_path / "brat" / split
        folder.mkdir(parents=True)
        for name, (text, annotation) in list(BRAT.items())[-count:]:
            (folder / f"{name}.txt").write_text(text, encoding="utf8", newline="\n")
            (folder / f"{name}.ann").write_text(annotation, encoding="utf8", newline="\n")
    return tmp_path / "brat"


def test_command_converts_brat_folders_and_lists_what_is_left_out(brat, tmp_path):
    out = tmp_path / "out"
    result = run_spacy("mslm", "convert", brat, out)
    told = " ".join((result.stdout + result.stderr).split())
    assert result.returncode == 0, told
    assert sorted(os.listdir(out)) == FILES
    assert "train brat 2" in told
    assert "train: 2 gold mention(s) left out, each as it overlaps a longer one" in told
    assert "characters: 1 0:8, 1 9:22." in told
    assert "train: 1 gold mention(s) left out, each as it splits a token" in told
    assert "1 25:29" in told
    assert "train: 1 gold mention(s) left out, each as it is in several parts" in told
    assert "1 3:22" in told
    for text in ("renal", "Aspirin", "aïve"):
        assert text not in told
    first, second = read(out / "train.spacy")
    assert [doc.user_data["id"] for doc in (first, second)] == ["1", "2"]
    assert first.text == BRAT["1"][0] and second.text == BRAT["2"][0]
    assert entities(first) == [(3, 22, "D")] and entities(second) == [(0, 7, "C")]
    # What is left out is not annotated, unless a mention that is kept says otherwise.
    iob = {token.text: token.ent_iob_ for token in first}
    assert (iob["No"], iob["acute"], iob["failure"], iob["Naïve"]) == ("", "B", "I", "")
    assert [token.ent_iob_ for token in first[-2:]] == ["O", "O"]
    # Sentences are not known: they are found by rule where they are needed.
    assert not second.has_annotation("SENT_START") and len(sentence_starts(second)) > 1
    stats = json.loads((out / "stats.json").read_text(encoding="utf8"))
    assert stats["set"] == "out" and stats["paper"] is None and stats["detokenised"] == {}
    assert stats["sentences"] == {"train": 4, "dev": 2, "test": 2}
    assert stats["mentions"] == {"train": 2, "dev": 1, "test": 1}
    assert {"id": "1", "start": 9, "end": 22, "reason": "it overlaps a longer one"} in stats[
        "left_out"
    ]["train"]
    assert len(stats["left_out"]["train"]) == 4


def test_files_of_every_format_give_the_same_docs(brat, tmp_path):
    text = BRAT["2"][0].replace("\n\n", "\n")
    title, abstract = text.split("\n")
    files = {
        "a.jsonl": json.dumps({"id": 2, "text": text, "spans": [[0, 7, "C"]]}),
        "a.pubtator": f"2|t|{title}\n2|a|{abstract}\n2\t0\t7\tAspirin\tC\n",
        "a.xml": f"<collection><document><id>2</id><passage><offset>0</offset><text>{title}</text>"
        "<annotation><infon key='type'>C</infon><location offset='0' length='7'/><text>Aspirin"
        f"</text></annotation></passage><passage><offset>9</offset><text>{abstract}</text>"
        "</passage></document></collection>",
    }
    (brat / "test" / "2.txt").write_text(text, encoding="utf8", newline="\n")
    (tmp_path / "sources").mkdir()
    sources = [brat / "test"]
    for name, content in files.items():
        sources.append(tmp_path / "sources" / name)
        sources[-1].write_text(content, encoding="utf8", newline="\n")
    written = [tmp_path / f"{i}.spacy" for i in range(len(sources) + 1)]
    formats = [convert_one(s, w).source.format for s, w in zip(sources, written, strict=False)]
    formats.append(convert_one(written[0], written[-1]).source.format)
    assert formats == ["brat", "jsonl", "pubtator", "bioc", "spacy"]
    assert len({path.read_bytes() for path in written}) == 1
    (doc,) = read(written[0])
    assert (doc.user_data["id"], doc.text, entities(doc)) == ("2", text, [(0, 7, "C")])
    # By name, too; what it is not, it is not.
    convert(sources[1], written[0], format="jsonl")
    with pytest.raises(ValueError, match=r"a\.jsonl, line 1: the file does not follow its format"):
        convert(sources[1], written[0], format="pubtator")
    with pytest.raises(ValueError, match=r"Unknown format 'conll'.*auto, iob, brat"):
        convert(sources[1], written[0], format="conll")
    with pytest.raises(ValueError, match="--n-sents applies to IOB files only"):
        convert(sources[1], written[0], n_sents=2)
    with pytest.raises(ValueError, match="never onto itself"):
        convert(written[0], written[0])


def test_spacy_input_keeps_tokens_and_reports_what_cannot_be_learned(tmp_path, caplog):
    words = ["well-known", "B", "x"]
    doc = Doc(Vocab(), words=words, spaces=[True, False, False])
    doc.set_ents([Span(doc, 1, 2, "D")], missing=[doc[2:3]], default="outside")
    doc.spans["sc"] = [Span(doc, 0, 1, "")]
    DocBin(docs=[doc], store_user_data=True).to_disk(tmp_path / "in.spacy")
    with caplog.at_level(logging.WARNING, logger="spacy_mslm"):
        split = convert_one(tmp_path / "in.spacy", tmp_path / "out.spacy")
    assert "1 gold span(s) cannot be learned" in caplog.text
    (kept,) = read(split.source.output)
    assert [token.text for token in kept] == words and kept.text == "well-known Bx"
    assert [token.ent_iob_ for token in kept] == ["O", "B", ""]
    assert kept.user_data["id"] == "in.spacy:0"


def test_the_tokenizer_is_a_setting(tmp_path):
    source = tmp_path / "a.jsonl"
    record = {"text": "T-cells=naive", "spans": [[2, 7, "D"]]}
    source.write_text(json.dumps(record), encoding="utf8")
    assert len(convert_one(source, tmp_path / "a.spacy").left_out) == 0
    nlp = spacy.blank("en")
    nlp.tokenizer = spacy.tokenizer.Tokenizer(nlp.vocab)
    nlp.to_disk(tmp_path / "white")
    split = convert_one(source, tmp_path / "b.spacy", tokenizer=str(tmp_path / "white"))
    reason = "it splits a token"
    assert split.left_out == [("a.jsonl:1", LeftOut(2, 7, reason))]
    assert len(read(split.source.output)[0]) == 1
    for name in ("blank:qq", str(tmp_path / "none")):
        with pytest.raises((OSError, ImportError), match="E0"):
            convert(source, tmp_path / "c.spacy", tokenizer=name)


def test_nested_mentions_and_parts_are_kept_in_spans(brat, tmp_path):
    split = convert_one(brat / "train", tmp_path / "a.spacy")
    first, second = read(split.source.output)
    groups = {
        key: [(s.start_char, s.end_char, s.label_) for s in spans]
        for key, spans in first.spans.items()
    }
    assert groups["mentions"] == [(0, 8, "D"), (3, 22, "D"), (9, 22, "D")]
    assert groups["discontinuous"] == [(3, 8, "D"), (15, 22, "D")]
    assert len({span.id_ for span in first.spans["discontinuous"]}) == 1
    assert [span.text for span in second.spans["mentions"]] == ["Aspirin"]
    assert split.kept == 3
    (warning,) = [w for w in split_warnings([split]) if "doc.spans" in w]
    assert "3 of these are kept" in warning and "'mentions'" in warning


def test_the_biomedical_tokenizer_is_offered_with_its_gain(tmp_path):
    source = tmp_path / "a.jsonl"
    # IL-2R and CD4 are inside tokens of spaCy's rules, "seas" is inside a word for all.
    text = "IL-2R+ and CD8+/CD4- at 0.05 mg; disease"
    spans = [[0, 5, "G"], [16, 19, "G"], [35, 39, "D"], [24, 28, "N"]]
    source.write_text(json.dumps({"text": text, "spans": spans}), encoding="utf8")
    split = convert_one(source, tmp_path / "a.spacy")
    hint = tokenizer_hint([split])
    assert "3 of 4 mentions (75.0%)" in hint and "'--tokenizer biomedical:en', 2 of them" in hint
    split = convert_one(source, tmp_path / "b.spacy", tokenizer="biomedical:en")
    assert [left for _, left in split.left_out] == [LeftOut(35, 39, "it splits a token")]
    assert tokenizer_hint([split]) == ""
    # Training with the setting that the hint names gets the same tokens.
    tokenizer = {"@tokenizers": "spacy_mslm.Tokenizer.v1", "biomedical": True}
    nlp = spacy.blank("en", config={"nlp": {"tokenizer": tokenizer}})
    (example,) = make_corpus(tmp_path / "b.spacy")(nlp)
    assert [t.text for t in example.predicted] == [t.text for t in example.reference]


def test_long_label_lists_are_folded(tmp_path, capsys):
    source = tmp_path / "a.tsv"
    rows = [f"w\tB-L{i:02}\n" * (30 - i) for i in range(30)]
    source.write_text("\n".join(rows), encoding="utf8")
    show_labels([convert_one(source, tmp_path / "a.spacy")])
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert lines[0] == ["label", "a"] and lines[2] == ["L00", "30"]
    assert lines[-1] == ["10", "more", "labels", "55"] and len(lines) == 23


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_every_mention_is_kept_or_listed(data):
    text = data.draw(st.text(st.sampled_from("ab -.\n(β😀"), min_size=1, max_size=25))
    offsets = st.integers(0, len(text) - 1)
    spans = data.draw(st.lists(st.tuples(offsets, offsets, st.sampled_from("XY")), max_size=6))
    mentions = [(min(a, b), max(a, b) + 1, label) for a, b, label in spans]
    doc = NLP.tokenizer(text)
    left_out = fit_mentions(doc, Document("d", text, mentions, 1))
    kept = entities(doc)
    assert doc.text == text
    assert len(kept) + len(left_out) == len(set(mentions))
    assert sorted([m[:2] for m in set(mentions)]) == sorted(
        [m[:2] for m in kept] + [left[:2] for left in left_out]
    )
    assert set(kept) <= set(mentions)
    for start, end, reason in left_out:
        longer = [m for m in kept if m[0] < end and start < m[1] and m[1] - m[0] >= end - start]
        fits = doc.char_span(start, end) is not None
        assert fits == (reason == "it overlaps a longer one") and (longer or not fits)


# ---- labels ----


def test_a_label_that_train_has_not_is_an_error(folder, tmp_path):
    (folder / "devel.txt").write_text("G\tB-C\n", encoding="utf8")
    with pytest.raises(
        ValueError, match=r"devel\.txt has labels that are not in train.*: C\. Labels"
    ) as e:
        convert(folder, tmp_path / "out")
    assert "Rename these labels" in str(e.value)
    assert not (tmp_path / "out").exists()
    # With a limit it is train that is cut short, on purpose: a warning.
    warnings = split_warnings(convert(folder, tmp_path / "out", limit=2).splits)
    assert any("labels differ" in warning for warning in warnings)
    (folder / "train.tsv").unlink()
    convert(folder, tmp_path / "out")
