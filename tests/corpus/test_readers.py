"""Corpora of IOB and .spacy files; every damaged file raises one clear error."""

import logging
import random
import zlib
from pathlib import Path

import numpy
import pytest
import spacy
import srsly
from spacy.attrs import ENT_IOB, ENT_TYPE
from spacy.tokens import Doc, DocBin, Span
from spacy.util import registry

from spacy_mslm.corpus.duplicates import make_duplicate_report
from spacy_mslm.corpus.formats.iob import read_iob
from spacy_mslm.corpus.readers import make_corpus

BLURB = Path(__file__).parents[3] / "shared" / "blurb"

SMALL = "The\tO\nbreast\tB-D\ncancer\tI-D\nataxia\tB-D\n\nNo\tO\n\nHeparin\tB-C\n"


@pytest.fixture(scope="module")
def nlp():
    return spacy.blank("en")


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.tsv"
    path.write_text(SMALL, encoding="utf8")
    return path


def write_docs(path, docs):
    DocBin(docs=docs, store_user_data=True).to_disk(path)
    return path


def entities(doc):
    return [(ent.start, ent.end, ent.label_) for ent in doc.ents]


# ---- read_iob ----


def test_sentences_mentions_and_lines(small):
    assert list(read_iob(small)) == [
        (
            "small.tsv:1",
            ["The", "breast", "cancer", "ataxia"],
            [(1, 3, "D"), (3, 4, "D")],
            1,
            (),
            (),
            "",
        ),
        ("small.tsv:6", ["No"], [], 6, (), (), ""),
        ("small.tsv:8", ["Heparin"], [(0, 1, "C")], 8, (), (), ""),
    ]


@pytest.mark.parametrize(
    "data",
    [
        SMALL.replace("\n", "\r\n").encode(),
        b"\xef\xbb\xbf" + SMALL.encode(),
        SMALL.replace("\t", " ").encode(),
        SMALL.replace("\t", "   ").encode(),
        SMALL.replace("\t", "\tNN\t_\t").encode(),
        SMALL.replace("\t", " NN _ ").encode(),
        SMALL.strip().encode(),
        SMALL.replace("\n\n", "\n \t\n").encode(),
        SMALL.encode() + b"\n\n\n",
    ],
    ids=[
        "crlf",
        "bom",
        "space",
        "spaces",
        "columns",
        "space columns",
        "no newline",
        "white",
        "end",
    ],
)
def test_forms_of_the_same_file(tmp_path, data):
    path = tmp_path / "form.iob"
    path.write_bytes(data)
    sentences = list(read_iob(path))
    assert [s.mentions for s in sentences] == [[(1, 3, "D"), (3, 4, "D")], [], [(0, 1, "C")]]
    assert [s.line for s in sentences] == [1, 6, 8]
    assert sentences[0].words == ["The", "breast", "cancer", "ataxia"]


def test_docstart_lines_end_a_sentence_and_are_skipped(tmp_path):
    path = tmp_path / "doc.tsv"
    path.write_text("-DOCSTART-\tO\n\na\tB-X\n-DOCSTART- -X- O O\nb\tB-X\n", encoding="utf8")
    assert [(s.words, s.line) for s in read_iob(path)] == [(["a"], 3), (["b"], 5)]


def test_unusual_characters_stay_inside_their_token(tmp_path):
    path = tmp_path / "odd.tsv"
    words = ["a\u2028b", "5\u00a0mg", "x\x85y", "é\u0301", "New York"]
    path.write_text("".join(f"{word}\tO\n" for word in words), encoding="utf8", newline="\n")
    assert next(read_iob(path)).words == words


@pytest.mark.parametrize(
    "data, message",
    [
        (b"a\tO\nsecret\n", "line 2: one column"),
        (b"a\tO\nsecret\t", "line 2: one column"),
        (b"a\tO\nsecret\tB-D\nsecr", "line 3: one column"),
        (b"a\tO\n\tO\n", "line 2: the token is empty"),
        (b"a\tO\n\nsecret\tQ-D\n", "line 3: this is not an entity tag"),
        (b"a\tO\n\nsecret\tB-\n", "line 3: the tag has an empty label"),
        (b"a\tO\nb\tB-D\n\nsecret\tI-D\n", "line 4: this I- tag begins"),
        (b"a\tB-D\nsecret\tO\nb\tE-D\n", "line 2: this tag is not legal here in BIOES"),
        (b"a\tO\nsecret\xff\tO\n", "line 2: not valid UTF-8"),
        (b"", "holds no sentence"),
        (b"\n \n-DOCSTART-\tO\n\n", "holds no sentence"),
    ],
)
def test_bad_files_are_refused_by_line_without_text(tmp_path, data, message):
    path = tmp_path / "bad.tsv"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=message) as err:
        list(read_iob(path))
    assert str(path) in str(err.value)
    assert "secret" not in str(err.value)
    # A chained cause would show the bytes in the traceback.
    assert err.value.__cause__ is None
    assert err.value.__suppress_context__ or err.value.__context__ is None


def test_missing_file_folder_and_unknown_scheme(tmp_path, small):
    with pytest.raises(ValueError, match="no such file"):
        list(read_iob(tmp_path / "none.tsv"))
    with pytest.raises(ValueError, match="is a folder"):
        list(read_iob(tmp_path))
    with pytest.raises(ValueError, match="auto, iob1, iob2, bioes"):
        list(read_iob(small, scheme="iobes"))
    with pytest.raises(ValueError, match=r"line 2: .*IOB1"):
        list(read_iob(small, scheme="iob1"))


@pytest.mark.shared
@pytest.mark.skipif(not BLURB.is_dir(), reason="needs ../shared/blurb")
@pytest.mark.parametrize(
    "name, sentences, mentions",
    [
        # Mentions as in Table 9 of the paper, but for the test splits of NCBI-disease and BC2GM,
        # whose figures there (1,960 and 1,632) are not those of the public files.
        ("ncbi_disease", (5424, 923, 940), (5134, 787, 960)),
        ("bc5cdr_chem", (4560, 4581, 4797), (5203, 5347, 5385)),
        ("bc5cdr_disease", (4560, 4581, 4797), (4182, 4246, 4424)),
        ("bc5cdr", (4560, 4581, 4797), (9385, 9593, 9809)),
        ("bc2gm", (12574, 2519, 5038), (15197, 3061, 6325)),
        # Not the paper's versions of these corpora: counts of B- tags of the files themselves.
        ("jnlpba", (16807, 1739, 3856), (46750, 4551, 8662)),
    ],
)
def test_counts_of_the_public_corpora(name, sentences, mentions):
    splits = [list(read_iob(BLURB / name / f"{s}.tsv")) for s in ("train", "devel", "test")]
    assert tuple(len(split) for split in splits) == sentences
    assert tuple(sum(len(s.mentions) for s in split) for split in splits) == mentions


# ---- Corpus of an IOB file ----


def test_iob_examples(nlp, small):
    examples = list(make_corpus(str(small))(nlp))
    assert [eg.reference.user_data["id"] for eg in examples] == [
        f"small.tsv:{n}" for n in (1, 6, 8)
    ]
    first = examples[0]
    assert [t.text for t in first.predicted] == [t.text for t in first.reference]
    assert [t.text for t in first.predicted] == ["The", "breast", "cancer", "ataxia"]
    assert entities(first.reference) == [(1, 3, "D"), (3, 4, "D")]
    assert [t.ent_iob_ for t in first.reference] == ["O", "B", "I", "B"]
    assert [t.ent_iob_ for t in examples[1].reference] == ["O"]
    assert first.predicted.user_data["id"] == "small.tsv:1"
    assert not first.predicted.has_annotation("ENT_IOB")


@pytest.mark.parametrize(
    "tags",
    [
        "O I-D I-D B-D I-C",
        "O B-D I-D B-D B-C",
        "O B-D E-D S-D S-C",
        "O B-D L-D U-D U-C",
    ],
    ids=["iob1", "iob2", "bioes", "bilou"],
)
def test_every_scheme_is_detected(nlp, tmp_path, tags):
    path = tmp_path / "scheme.tsv"
    path.write_text("".join(f"w\t{tag}\n" for tag in tags.split()), encoding="utf8")
    (example,) = make_corpus(path)(nlp)
    assert entities(example.reference) == [(1, 3, "D"), (3, 4, "D"), (4, 5, "C")]


def test_seed_and_limit_are_those_of_the_recipe(nlp, tmp_path):
    path = tmp_path / "many.tsv"
    path.write_text("".join(f"w{i}\tO\n\n" for i in range(50)), encoding="utf8")
    expected = [f"w{i}" for i in range(50)]

    def words(**options):
        return [eg.reference[0].text for eg in make_corpus(path, **options)(nlp)]

    assert words() == expected
    assert words(limit=7) == expected[:7]
    random.Random(0).shuffle(expected)
    assert words(seed=0) == expected
    assert words(seed=0, limit=20) == expected[:20]
    assert words(seed=1) != expected


def test_readers_are_registered_and_can_be_called_again(nlp, small):
    config = {
        "a": {"@readers": "spacy_mslm.Corpus.v1", "path": str(small), "seed": 0, "limit": 2},
        "b": {"@readers": "spacy_mslm.Corpus.v1", "path": str(small)},
        "c": {"@callbacks": "spacy_mslm.report_duplicates.v1", "train": None, "dev": None},
    }
    resolved = registry.resolve(config)
    for _ in range(2):
        assert len(list(resolved["a"](nlp))) == 2
        assert len(list(resolved["b"](nlp))) == 3
    assert resolved["c"](nlp) is nlp


def test_no_path_says_what_to_give():
    with pytest.raises(ValueError, match=r"--paths\.train"):
        make_corpus(None)


# ---- Corpus ----


def test_docbin_file_folder_and_ids(nlp, tmp_path):
    docs = [nlp.make_doc(f"Text number {i}.") for i in range(3)]
    docs[1].user_data["id"] = "note-7"
    docs[2].set_ents([Span(docs[2], 0, 2, "X")])
    write_docs(tmp_path / "a.spacy", docs)
    (tmp_path / "sub").mkdir()
    write_docs(tmp_path / "sub" / "b.spacy", docs[:1])
    write_docs(tmp_path / ".hidden.spacy", docs)
    examples = list(make_corpus(tmp_path / "a.spacy")(nlp))
    ids = ["a.spacy:0", "note-7", "a.spacy:2"]
    assert [eg.reference.user_data["id"] for eg in examples] == ids
    assert [eg.predicted.user_data["id"] for eg in examples] == ids
    assert entities(examples[2].reference) == [(0, 2, "X")]
    # The spaces are known: the text is tokenised as it will be at run time.
    assert [t.text for t in examples[0].predicted] == ["Text", "number", "0", "."]
    folder = list(make_corpus(tmp_path)(nlp))
    assert [eg.reference.user_data["id"] for eg in folder] == [*ids, "sub/b.spacy:0"]
    assert len(list(make_corpus(tmp_path, limit=2, seed=3)(nlp))) == 2


def test_docs_without_tokens_are_left_out_but_counted_in_ids(nlp, tmp_path):
    docs = [Doc(nlp.vocab), nlp.make_doc("a"), nlp.make_doc("  ")]
    examples = list(make_corpus(write_docs(tmp_path / "e.spacy", docs))(nlp))
    assert [eg.reference.user_data["id"] for eg in examples] == ["e.spacy:1", "e.spacy:2"]


def damage(data):
    yield "empty", b""
    yield "cut", data[: len(data) // 2]
    yield "cut by a byte", data[:-1]
    yield "other file", b"not a docbin"
    yield "zlib of something", zlib.compress(b"\xc1secret")
    yield "other msgpack", zlib.compress(srsly.msgpack_dumps({"secret": 1}))
    yield "list", zlib.compress(srsly.msgpack_dumps([1]))
    content = srsly.msgpack_loads(zlib.decompress(data))
    content["tokens"] = content["tokens"][:-8]
    yield "tokens missing", zlib.compress(srsly.msgpack_dumps(content))


def test_damaged_docbins_name_the_file_and_the_remedy(nlp, tmp_path):
    good = write_docs(tmp_path / "good.spacy", [nlp.make_doc("a secret text")]).read_bytes()
    for name, data in damage(good):
        path = tmp_path / f"{name}.spacy"
        path.write_bytes(data)
        with pytest.raises(ValueError, match=r"mslm\s+convert") as err:
            list(make_corpus(path)(nlp))
        assert str(path) in str(err.value), name
        assert "secret" not in str(err.value), name
        assert err.value.__suppress_context__, name


def test_every_flipped_bit_is_found(nlp, tmp_path):
    """Or the content is the same: nothing reads the last bits of the compressed data, and where a
    part occurs twice, a changed distance can lead to its other copy."""
    path = write_docs(tmp_path / "flip.spacy", [nlp.make_doc(f"Text {i}.") for i in range(5)])
    good = path.read_bytes()
    content, same = zlib.decompress(good), 0
    for bit in range(8 * len(good)):
        data = bytearray(good)
        data[bit // 8] ^= 1 << bit % 8
        try:
            assert zlib.decompress(data) == content
            same += 1
        except zlib.error:
            path.write_bytes(data)
            with pytest.raises(ValueError, match=r"flip\.spacy is damaged"):
                list(make_corpus(path)(nlp))
    assert same < len(good) // 10


def test_missing_file_and_folder_without_files(nlp, tmp_path):
    with pytest.raises(ValueError, match=r"none\.spacy: there is no such file"):
        list(make_corpus(tmp_path / "none.spacy")(nlp))
    with pytest.raises(ValueError, match=r"no \.spacy file"):
        list(make_corpus(tmp_path)(nlp))
    with pytest.raises(ValueError, match="holds no documents"):
        list(make_corpus(write_docs(tmp_path / "zero.spacy", []))(nlp))


def test_gold_spans_that_cannot_be_learned_are_listed_once(nlp, tmp_path, caplog):
    doc = nlp.make_doc("secret b c d e f")
    doc.spans["sc"] = [Span(doc, 1, 1, "X"), Span(doc, 1, 2, ""), Span(doc, 2, 3, "Y")]
    other = nlp.make_doc("secret b c d e f")
    # An entity B I without a type, on which spaCy raises an error that holds the tokens; and a
    # valid one.
    iob = [[2, 0], [3, 0], [1, 0], [2, 0], [3, nlp.vocab.strings.add("X")], [2, 0]]
    other.from_array([ENT_IOB, ENT_TYPE], numpy.array(iob, dtype="uint64"))
    path = write_docs(tmp_path / "g.spacy", [doc, other])
    corpus = make_corpus(path)
    with caplog.at_level(logging.WARNING, logger="spacy_mslm"):
        for _ in range(2):
            examples = list(corpus(nlp))
    assert entities(examples[1].reference) == [(4, 5, "X")]
    assert [t.ent_iob for t in examples[1].reference] == [2, 0, 0, 2, 3, 2]
    (record,) = caplog.records
    message = record.getMessage()
    assert "3 gold span(s)" in message
    for place in ("g.spacy:0 tokens 1-1", "g.spacy:0 tokens 1-2", "g.spacy:1 tokens 1-3"):
        assert place in message
    assert "secret" not in message


# ---- duplicates ----


def test_duplicates_are_reported_in_one_warning(nlp, tmp_path, caplog):
    train, dev = tmp_path / "train.tsv", tmp_path / "dev.tsv"
    train.write_text("".join(f"secret{i}\tO\nx\tO\n\n" for i in range(30)), encoding="utf8")
    dev.write_text("".join(f"secret{i}\tO\nx\tO\n\n" for i in range(15, 45)), encoding="utf8")
    report = registry.callbacks.get("spacy_mslm.report_duplicates.v1")(str(train), str(dev))
    words = len(nlp.vocab.strings)
    with caplog.at_level(logging.WARNING, logger="spacy_mslm"):
        assert report(nlp) is nlp
    assert len(nlp.vocab.strings) == words
    (record,) = caplog.records
    message = record.getMessage()
    assert "15 of the 30 texts" in message
    assert "dev.tsv:1, dev.tsv:4, " in message and "and 5 more" in message
    assert message.count("dev.tsv:") == 10
    assert "secret" not in message


def test_no_duplicates_no_warning(nlp, tmp_path, caplog):
    train = write_docs(tmp_path / "train.spacy", [nlp.make_doc("a b"), nlp.make_doc("  ")])
    dev = write_docs(tmp_path / "dev.spacy", [nlp.make_doc("a c"), nlp.make_doc(" ")])
    with caplog.at_level(logging.WARNING, logger="spacy_mslm"):
        make_duplicate_report(str(train), str(dev))(nlp)
        make_duplicate_report(str(train), None)(nlp)
    assert not caplog.records
