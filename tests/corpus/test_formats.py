"""Formats of annotated files: round trips, and errors of broken files, which name the file and line
but hold no text."""

import gzip
import json
import logging
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spacy_mslm.corpus.formats.bioc import read_bioc
from spacy_mslm.corpus.formats.brat import read_brat
from spacy_mslm.corpus.formats.detection import detect_format
from spacy_mslm.corpus.formats.jsonl import read_jsonl
from spacy_mslm.corpus.formats.pubtator import read_pubtator
from spacy_mslm.corpus.formats.records import Document

# ---- round trips ----


class Passages(NamedTuple):
    """A text as parts with one character between them, and mentions inside the parts."""

    parts: list[str]
    mentions: list[tuple[int, int, str]]

    @property
    def text(self) -> str:
        return "\n".join(self.parts)


@st.composite
def passages(draw: st.DrawFn, exclude: str = "", count: int | None = None) -> Passages:
    characters = st.characters(exclude_categories=["Cs"], exclude_characters=exclude)
    part = st.text(characters, max_size=30) | st.sampled_from(
        ["Na\u0308ve 😀\u200d👩 β-TG", "a  b "]
    )
    sizes = {"min_size": count or 1, "max_size": count or 3}
    parts = draw(st.lists(part, **sizes))
    mentions = []
    offset = 0
    for text in parts:
        for _ in range(draw(st.integers(0, 3)) if text else 0):
            start = draw(st.integers(0, len(text) - 1))
            end = draw(st.integers(start + 1, len(text)))
            label = draw(st.sampled_from(["Disease", "Chemical", "β"]))
            mentions.append((offset + start, offset + end, label))
        offset += len(text) + 1
    return Passages(parts, mentions)


def round_trip(**options):
    """Run a test on many small documents, written to the same folder."""
    checks = [HealthCheck.function_scoped_fixture]
    chosen = settings(max_examples=60, deadline=None, suppress_health_check=checks)
    return lambda test: chosen(given(document=passages(**options))(test))


@round_trip()
def test_brat_round_trip(tmp_path, document):
    (tmp_path / "7.txt").write_bytes(document.text.encode("utf8"))
    lines = [
        f"T{i}\t{label} {start} {end}\t{document.text[start:end]}".replace("\n", " ")
        for i, (start, end, label) in enumerate(document.mentions)
    ]
    (tmp_path / "7.ann").write_text("\n".join(lines), encoding="utf8", newline="\n")
    assert list(read_brat(tmp_path)) == [Document("7", document.text, document.mentions, 1)]


@round_trip(exclude="\r\n\t", count=2)
def test_pubtator_round_trip(tmp_path, document):
    path = tmp_path / "set.pubtator"
    lines = [f"1|t|{document.parts[0]}", f"1|a|{document.parts[1]}"]
    lines += [f"1\t{s}\t{e}\t{document.text[s:e]}\t{n}\tD01" for s, e, n in document.mentions]
    lines += ["1\tCID\tD01\tD02", "", "2|t|x", "2|a|"]
    path.write_text("\n".join(lines), encoding="utf8", newline="\n")
    first, second = read_pubtator(path)
    assert first == Document("1", document.text, document.mentions, 1)
    assert second == Document("2", "x\n", [], len(lines) - 1)


XML_FORBIDS = "".join(map(chr, range(32))) + "\ufffe\uffff"


def bioc(document: Passages) -> str:
    def quote(text: str) -> str:
        return escape(text)

    parts = []
    offset = 0
    for part in document.parts:
        inside = [m for m in document.mentions if offset <= m[0] < offset + len(part)]
        annotations = "".join(
            f'<annotation id="{i}"><infon key="id">D1</infon><infon key="type">{label}</infon>'
            f'<location offset="{s}" length="{e - s}"/><text>{quote(document.text[s:e])}</text>'
            "</annotation>\n"
            for i, (s, e, label) in enumerate(inside)
        )
        parts.append(
            f'<passage><infon key="type">title</infon><offset>{offset}</offset>'
            f"<text>{quote(part)}</text>\n{annotations}</passage>"
        )
        offset += len(part) + 1
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE collection SYSTEM "BioC.dtd">\n'
        f"<collection><source>x</source>\n<document><id>7</id>{''.join(parts)}"
        '<relation id="R"><infon key="type">CID</infon><node refid="1" role="x"/></relation>'
        "</document></collection>"
    )


@round_trip(exclude=XML_FORBIDS)
def test_bioc_round_trip(tmp_path, document):
    path = tmp_path / "set.xml"
    path.write_text(bioc(document), encoding="utf8", newline="\n")
    (read,) = read_bioc(path)
    assert (read.id, read.text, read.line) == ("7", document.text, 4)
    assert read.mentions == document.mentions
    packed = tmp_path / "set.xml.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert list(read_bioc(packed)) == [read]
    packed.write_bytes(packed.read_bytes()[:-9])
    with pytest.raises(ValueError, match="truncated or damaged"):
        list(read_bioc(packed))


@round_trip()
@pytest.mark.parametrize("shape", ["entities", "label", "doccano", "prodigy"])
def test_jsonl_round_trip(tmp_path, shape, document):
    path = tmp_path / "set.jsonl"
    names = {
        "doccano": ("start_offset", "end_offset", "label"),
        "prodigy": ("start", "end", "label"),
    }
    items = [
        dict(zip(names[shape], mention, strict=True)) if shape in names else list(mention)
        for mention in document.mentions
    ]
    key = {"doccano": "entities", "prodigy": "spans"}.get(shape, shape)
    record = {"text": document.text, key: items, "meta": {"x": 1}}
    lines = [json.dumps(record), "", json.dumps({**record, "id": 9}, ensure_ascii=False)]
    path.write_text("\n".join(lines), encoding="utf8", newline="\n")
    assert list(read_jsonl(path)) == [
        Document("set.jsonl:1", document.text, document.mentions, 1),
        Document("9", document.text, document.mentions, 3),
    ]


# ---- particulars ----


def test_brat_parts_other_lines_and_order(tmp_path):
    text = "acute renal\nfailure, liver"
    (tmp_path / "b.txt").write_text(text, encoding="utf8", newline="\n")
    (tmp_path / "a.txt").write_text("", encoding="utf8")
    (tmp_path / "a.ann").write_text("", encoding="utf8")
    (tmp_path / "annotation.conf").write_text("[entities]", encoding="utf8")
    (tmp_path / "b.ann").write_text(
        "T1\tD 0 5;12 19\tacute failure\n"
        "T3\tD 21 26;0 5\tliver acute\n"
        "T2\tD 6 11;12 19\trenal failure\n"  # brat cuts at a line break
        "R1\tOf Arg1:T1 Arg2:T2\nE1\tX:T1\nA1\tNegated T1\n#1\tNote T1\tsecret\n*\tEquiv T1 T2\n"
        "N1\tReference T1 MESH:1\tx\n\n",
        encoding="utf8",
    )
    first, second = read_brat(tmp_path)
    assert (first.id, first.text, first.mentions) == ("a", "", [])
    assert second.mentions == [(6, 19, "D")]
    assert second.in_parts == ((((0, 5), (12, 19)), "D"), (((21, 26), (0, 5)), "D"))


def test_bioc_sentences_gaps_and_parts(tmp_path):
    path = tmp_path / "set.xml"
    path.write_text(
        "<collection><document><id>a</id>"
        "<passage><offset>100</offset>"
        "<sentence><offset>100</offset><text>No ataxia.</text></sentence>"
        "<sentence><offset>115</offset><text>Renal failure.</text></sentence>"
        "<annotation><infon key='type'>D</infon><location offset='103' length='6'/>"
        "<text>ataxia</text></annotation>"
        "<annotation><infon key='type'>D</infon><location offset='115' length='13'/>"
        "<text>Renal failure</text></annotation>"
        "<annotation><infon key='type'>D</infon><location offset='103' length='6'/>"
        "<location offset='121' length='7'/><text>ataxia failure</text></annotation>"
        "</passage></document><document><id>b</id></document></collection>",
        encoding="utf8",
    )
    first, second = read_bioc(path)
    assert first.text == "No ataxia.\nRenal failure."
    assert first.mentions == [(3, 9, "D"), (11, 24, "D")]
    assert first.in_parts == ((((3, 9), (17, 24)), "D"),)
    assert (second.id, second.text) == ("b", "")


def test_bioc_across_chunks(tmp_path):
    path = tmp_path / "big.xml"
    text = "β" * 100_000
    path.write_text(bioc(Passages([text, text], [(5, 9, "X"), (100_001, 200_001, "Y")])), "utf8")
    (document,) = read_bioc(path)
    assert document.mentions == [(5, 9, "X"), (100_001, 200_001, "Y")]


def test_records_that_were_not_accepted_are_left_out_and_counted(tmp_path, caplog):
    path = tmp_path / "p.jsonl"
    answers = ["accept", "reject", "ignore", None]
    records = [{"text": "secret", "spans": [], **({"answer": a} if a else {})} for a in answers]
    path.write_text("\n".join(map(json.dumps, records)), encoding="utf8")
    with caplog.at_level(logging.WARNING, logger="spacy_mslm"):
        assert [document.line for document in read_jsonl(path)] == [1, 4]
    (record,) = caplog.records
    assert "2 records" in record.getMessage() and "lines 2, 3" in record.getMessage()
    assert "secret" not in record.getMessage()


# ---- what is broken ----


def refused(read, path: Path, message: str, place: Path) -> None:
    with pytest.raises(ValueError, match=message) as err:
        list(read(path))
    assert str(place) in str(err.value)
    # pytest's folder is named after the test's parameters.
    assert "secret" not in str(err.value).replace(str(place.parent), "")
    # A chained cause would show the text in the traceback.
    assert err.value.__cause__ is None
    assert err.value.__suppress_context__ or err.value.__context__ is None


@pytest.mark.parametrize(
    "annotation, message",
    [
        (b"T1\tD 0 6\tsecret\nT2\tD 7", "line 2: the file does not follow its format"),
        (b"T1\tD 0 6\tsecret\nT2\tD 7 11\tno", "line 2: the text of the mention"),
        (b"T1\tD 0 6\n", "line 1: the file does not follow its format"),
        (b"T1\tD x 6\tsecret\n", "line 1: the file does not follow its format"),
        (b"secret\n", "line 1: the file does not follow its format"),
        (b"T1\tD 0 60\tsecret\n", "line 1: the mention from 0 to 60 .* has 11 characters"),
        (b"T1\tD 6 6\t\n", "line 1: the mention from 6 to 6"),
        (b"T1\tD 6 0\tsecret\n", "line 1: the mention from 6 to 0"),
        (b"\nT1\t 0 6\tsecret\n", "line 2: the mention's label is empty"),
        (b"T1\tD 0 6\tsecret\n#1\t\xff\n", "line 2: not valid UTF-8"),
        (b"T1\tD 1 7\tsecret\n", "line 1: the text of the mention"),
        (b"T1\tD " + b"9" * 5000 + b" 6\tsecret\n", "line 1: the file does not follow its format"),
    ],
)
def test_broken_brat(tmp_path, annotation, message):
    (tmp_path / "1.txt").write_text("secret text", encoding="utf8")
    (tmp_path / "1.ann").write_bytes(annotation)
    refused(read_brat, tmp_path, message, tmp_path / "1.ann")


def test_brat_files_without_their_partner(tmp_path):
    refused(read_brat, tmp_path, "holds no document", tmp_path)
    (tmp_path / "1.txt").write_bytes(b"a\nb\n\xff\n")
    refused(read_brat, tmp_path, r"is missing, but 1\.txt needs it", tmp_path / "1.ann")
    (tmp_path / "1.ann").touch()
    refused(read_brat, tmp_path, "line 3: not valid UTF-8", tmp_path / "1.txt")
    (tmp_path / "2.ann").touch()
    refused(read_brat, tmp_path, r"is missing, but 2\.ann needs it", tmp_path / "2.txt")


@pytest.mark.parametrize(
    "data, message",
    [
        (b"1|t|secret\n", "line 1: .* abstract"),
        (b"1|t|secret\n\n1|a|x\n", "line 2: .* abstract"),
        (b"1|t|secret\n2|a|x\n", "line 2: .* abstract"),
        (b"1|a|secret\n", "line 1: .* title"),
        (b"1|t|secret\n1|a|x\n\n1\t0\t6\tsecret\tD\n", "line 4: .* title"),
        (b"1|t|secret\n1|a|x\n2\t0\t6\tsecret\tD\n", "line 3: .* start, end"),
        (b"1|t|secret\n1|a|x\n1\t0\t6\tsecret\n", "line 3: .* start, end"),
        (b"1|t|secret\n1|a|x\n1\t0\t6x\tsecret\tD\n", "line 3: .* start, end"),
        (b"1|t|secret\n1|a|x\n1\t-1\t6\tsecret\tD\n", "line 3: .* start, end"),
        (b"1|t|secret\n1|a|x\n1\t0\t6\tsecre\tD\n", "line 3: the text of the mention"),
        (b"1|t|secret\n1|a|x\n1\t0\t9\tsecret\tD\n", "line 3: the mention from 0 to 9"),
        (b"1|t|secret\n1|a|x\n1\t3\t3\t\tD\n", "line 3: the mention from 3 to 3"),
        (b"1|t|secret\n1|a|x\n1\t0\t6\tsecret\t\n", "line 3: the mention's label"),
        (b"1|t|secret\n1|a|x\xff\n", "line 2: not valid UTF-8"),
        (b"1|t|secret\n1|a|x\n\n1|t|secret\n1|a|x\n", "line 4: the document 1 .* line 1"),
        (b"\n\n", "holds no document"),
    ],
)
def test_broken_pubtator(tmp_path, data, message):
    path = tmp_path / "bad.pubtator"
    path.write_bytes(data)
    refused(read_pubtator, path, message, path)


def annotation(**changes: str) -> str:
    values = {
        "key": "type",
        "label": "D",
        "offset": "0",
        "length": "6",
        "text": "secret",
        **changes,
    }
    return (
        "<annotation>\n<infon key='{key}'>{label}</infon>"
        "<location offset='{offset}' length='{length}'/><text>{text}</text></annotation>"
    ).format(**values)


def collection(inner: str, start: str = "<id>1</id><passage><offset>0</offset>") -> str:
    return (
        f"<collection>\n<document>{start}\n<text>secret text</text>\n{inner}</passage></document>\n"
        "</collection>"
    )


@pytest.mark.parametrize(
    "data, message",
    [
        (collection("")[:-30], "line 4: .* XML ends too early"),
        (collection("<secret>"), "line 4: .* XML ends too early"),
        (collection("&secret;"), "line 4: .* XML ends too early"),
        (collection("").encode().replace(b"text<", b"\xff<"), "line 3: .* XML ends too early"),
        ("<html><secret/></html>", "line 1: .* <collection>"),
        ("<collection><passage/></collection>", "line 1: .* <collection>"),
        (collection(annotation(offset="60")), "line 4: the mention from 60 to 66 .* 11 char"),
        (collection(annotation(length="60")), "line 4: the mention from 0 to 60"),
        (collection(annotation(length="0")), "line 4: the mention from 0 to 0"),
        (collection(annotation(offset="-1")), "line 5: .* whole numbers as offset"),
        (collection("<annotation/>"), "line 4: .* <location>"),
        (collection(annotation(label=" ")), "line 4: the mention's label is empty"),
        (collection(annotation(key="kind")), "line 4: the mention's label is empty"),
        (collection(annotation(offset="1")), "line 4: the text of the mention"),
        (collection(annotation(text="")), "line 4: the text of the mention"),
        (collection("", "<passage><offset>0</offset>"), "line 4: .* <id>"),
        (collection("", "<id>1</id><passage>"), "line 3: .* <offset>"),
        (collection("", "<id>1</id><passage><offset>x</offset>"), "line 3: .* <offset>"),
        (
            collection("</passage><passage><offset>5</offset>\n<text>secret</text>"),
            "line 5: .* do not overlap",
        ),
        (
            collection("</passage></document>\n<document><id>1</id><passage>"),
            "line 5: the document 1 .* line 2",
        ),
        ("<collection/>", "holds no document"),
        ("", "line 1: .* XML ends too early"),
        ("<?xml version='1.0' encoding='secret'?><collection/>", "line 1: .* XML ends too early"),
    ],
)
def test_broken_bioc(tmp_path, data, message):
    path = tmp_path / "bad.xml"
    path.write_bytes(data if isinstance(data, bytes) else data.encode("utf8"))
    refused(read_bioc, path, message, path)


GOOD = '{"text": "secret text", "entities": [[0, 6, "D"]]}\n'


@pytest.mark.parametrize(
    "line, message",
    [
        (GOOD[:-8], "line 2: .* JSON object"),
        ("[1]", "line 2: .* JSON object"),
        ("[" * 100_000, "line 2: .* JSON object"),
        ('{"entities": []}', "line 2: .* 'text'"),
        ('{"text": 7, "entities": []}', "line 2: .* 'text'"),
        ('{"text": "secret \\ud800", "entities": []}', "line 2: .* surrogate"),
        ('{"text": "secret"}', "line 2: .* 'label', 'labels' is a list"),
        ('{"text": "secret", "label": "D"}', "line 2: .* is a list"),
        ('{"text": "a", "spans": [[0, 1, "D"]], "label": [[0, 1, "E"]]}', "line 2: .* one of"),
        ('{"text": "secret", "spans": [[0, 6]]}', "line 2: .* a mention is"),
        ('{"text": "secret", "spans": [["0", "6", "D"]]}', "line 2: .* a mention is"),
        ('{"text": "secret", "spans": [[false, true, "D"]]}', "line 2: .* a mention is"),
        ('{"text": "secret", "spans": [{"start": 0, "label": "D"}]}', "line 2: .* a mention is"),
        ('{"text": "secret", "spans": ["secret"]}', "line 2: .* a mention is"),
        ('{"text": "secret", "spans": [[0, 60, "D"]]}', "line 2: the mention from 0 to 60"),
        ('{"text": "secret", "spans": [[-3, 6, "D"]]}', "line 2: the mention from -3 to 6"),
        ('{"text": "secret", "spans": [[6, 6, "D"]]}', "line 2: the mention from 6 to 6"),
        ('{"text": "secret", "spans": [[0, 6, ""]]}', "line 2: the mention's label is empty"),
        ('{"id": [1], "text": "secret", "spans": []}', "line 2: .* 'id'"),
        ('{"id": 1, "text": "secret", "spans": []}\n' * 2, "line 3: the document 1 .* line 2"),
    ],
)
def test_broken_jsonl(tmp_path, line, message):
    path = tmp_path / "bad.jsonl"
    path.write_text(GOOD + line, encoding="utf8")
    refused(read_jsonl, path, message, path)


def test_jsonl_that_is_empty_or_not_utf8(tmp_path):
    path = tmp_path / "bad.jsonl"
    path.write_bytes(b"\n")
    refused(read_jsonl, path, "holds no document", path)
    path.write_bytes(GOOD.encode() + b'{"text": "secret\xff"}')
    refused(read_jsonl, path, "line 2: not valid UTF-8", path)


# ---- detection ----


@pytest.mark.parametrize(
    "data, expected",
    [
        ("a\tO\n", "iob"),
        ("\n\n{ O\n", "iob"),
        ("<\tB-D\n", "iob"),
        ("-DOCSTART-\n", "iob"),
        ("a NN S-x\n", "iob"),
        ("\ufeff12|t|Title B-D\n", "pubtator"),
        (' { "text": "hepatitis B-positive"}\n', "jsonl"),
        ('{"text": "cut', "jsonl"),
        ("<?xml version='1.0'?><collection>", "bioc"),
        ("\n<collection><source/>", "bioc"),
    ],
)
def test_formats_are_told_apart_by_their_first_line(tmp_path, data, expected):
    path = tmp_path / "file.txt"
    path.write_text(data, encoding="utf8")
    assert detect_format(path) == expected
    assert detect_format(tmp_path / "file.spacy") == "spacy"


@pytest.mark.parametrize(
    "data, line", [("", 1), ("\n\nsecret text\n", 3), ("<html>secret", 1), ("secret\n", 1)]
)
def test_an_unclear_file_is_an_error_that_names_the_formats(tmp_path, data, line):
    path = tmp_path / "file.txt"
    path.write_text(data, encoding="utf8")
    with pytest.raises(ValueError, match=f"line {line}: .*iob, brat, pubtator, bioc") as err:
        detect_format(path)
    assert "secret" not in str(err.value).replace(str(tmp_path), "")
