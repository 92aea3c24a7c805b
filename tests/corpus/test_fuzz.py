"""Parsers of files that others made: whatever is in a file, it is read, or one of our errors that
quotes no text. Valid files are cut, spliced and changed byte by byte."""

import json
import time
import tracemalloc
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
import safetensors.torch
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab

from spacy_mslm.corpus.formats.bioc import read_bioc
from spacy_mslm.corpus.formats.bioc_json import read_bioc_json
from spacy_mslm.corpus.formats.brat import read_brat
from spacy_mslm.corpus.formats.detection import detect_format
from spacy_mslm.corpus.formats.iob import read_iob
from spacy_mslm.corpus.formats.jsonl import read_jsonl
from spacy_mslm.corpus.formats.pubtator import read_pubtator
from spacy_mslm.corpus.readers import read_gold
from spacy_mslm.masking.collocations import read_collocations
from spacy_mslm.model.weights import read_tensors
from spacy_mslm.text.terminology import read_terms
from spacy_mslm.weak.note_files import read_notes

CANARY = "qxsecretname"
TEXT = f"Mr {CANARY} has asthma."
AT = TEXT.index("asthma")
ROW = "C1|ENG|P|L1|PF|S1|Y|A1||||MTH|PN|1|asthma|0|N||"
XML = f"""<collection><document><id>1</id><passage><offset>0</offset><text>{TEXT}</text>
<annotation id="1"><infon key="type">Disease</infon><location offset="{AT}" length="6"/>
<text>asthma</text></annotation></passage></document></collection>"""
MENTION = {"id": "1", "infons": {"type": "Disease"}, "text": "asthma"}
MENTION["locations"] = [{"offset": AT, "length": 6}]
PASSAGE: dict[str, Any] = {"offset": 0, "text": TEXT, "annotations": [MENTION]}
SPAN = {"start": AT, "end": AT + 6, "label": "Disease"}


def spacy_file() -> bytes:
    doc = Doc(Vocab(), words=TEXT.split())
    doc.user_data["id"] = "1"
    return DocBin(docs=[doc], store_user_data=True).to_bytes()


class Parser(NamedTuple):
    """A valid file by its name, other files beside it, and the function that reads it."""

    name: str
    content: bytes
    read: Callable[[Path], Iterable[object]]
    others: Mapping[str, bytes] = MappingProxyType({})


PARSERS = {
    "iob": Parser("a.tsv", f"Mr\tO\n{CANARY}\tO\nasthma\tB-Disease\n\n".encode(), read_iob),
    "brat": Parser(
        "a.ann",
        f"T1\tDisease {AT} {AT + 6}\tasthma\n".encode(),
        lambda path: read_brat(path.parent),
        {"a.txt": TEXT.encode()},
    ),
    "pubtator": Parser(
        "a.txt",
        f"1|t|{TEXT}\n1|a|\n1\t{AT}\t{AT + 6}\tasthma\tDisease\tD1\n\n".encode(),
        read_pubtator,
    ),
    "bioc": Parser("a.xml", XML.encode(), read_bioc),
    "bioc_json": Parser(
        "a.json",
        json.dumps({"documents": [{"id": "1", "passages": [PASSAGE]}]}).encode(),
        read_bioc_json,
    ),
    "jsonl": Parser(
        "a.jsonl", json.dumps({"id": "1", "text": TEXT, "spans": [SPAN]}).encode(), read_jsonl
    ),
    "detection": Parser("a.json", XML.encode(), lambda path: [detect_format(path)]),
    "csv": Parser(
        "notes.csv",
        f'ROW_ID,SUBJECT_ID,TEXT\n1,2,"{TEXT}\nmore"\n'.encode(),
        lambda path: read_notes(path, "auto"),
    ),
    "notes": Parser(
        "notes.jsonl",
        json.dumps({"text": TEXT, "row_id": 1}).encode(),
        lambda path: read_notes(path, "auto"),
    ),
    "terms": Parser("terms.tsv", b"term\tid\tsemantic_type\nasthma\tC1\tT047\n", read_terms),
    "terms.csv": Parser("terms.csv", b'term,id,semantic_type\n"asthma",C1,T047\n', read_terms),
    "umls": Parser(
        "MRCONSO.RRF",
        f"{ROW}\n{ROW}\n".encode(),
        lambda path: read_terms(path.parent),
        {"MRSTY.RRF": b"C1|T047|A|Disease|AT1||\n"},
    ),
    "pmi": Parser("pmi.txt", b"# PMI\n1.5\t3\trenal failure\n", read_collocations),
    "spacy": Parser("a.spacy", spacy_file(), lambda path: read_gold(path, Vocab())),
}
INSERTED = [b"\x00", b"\xff", b"\xed\xa0\x80", b"\t", b"\n", b"\r", b'"', b"|", b"-1", b"9" * 30]
INSERTED += [b"[" * 3000, b"{", b"}", b"null", b"1e999", b"NaN", b"<", b"&x;", b"\xe2\x80\xa8"]
INSERTED += [b"B-", b"I-", b"\xf0\x9f\x98\x80", b"\x1f\x8b", b"PK\x03\x04", b"\\ud800", b'"a":']

changes = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 12), st.sampled_from([b"", *INSERTED])),
    min_size=1,
    max_size=4,
)


def changed(data: bytes, edits: list[tuple[float, int, bytes]]) -> bytes:
    """Replace some bytes at each place, given as a share of the length."""
    for where, removed, inserted in edits:
        start = int(where * len(data))
        data = data[:start] + inserted + data[start + removed :]
    return data


@pytest.mark.parametrize("name", PARSERS)
def test_the_samples_are_valid(name, tmp_path):
    parser = PARSERS[name]
    for other, content in {**parser.others, parser.name: parser.content}.items():
        (tmp_path / other).write_bytes(content)
    assert list(parser.read(tmp_path / parser.name))


@pytest.mark.parametrize("name", PARSERS)
@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(edits=changes)
def test_changed_files_are_read_or_refused(name, edits, tmp_path):
    parser = PARSERS[name]
    content = changed(parser.content, edits)
    for other, kept in {**parser.others, parser.name: content}.items():
        (tmp_path / other).write_bytes(kept)
    try:
        n = sum(1 for _ in parser.read(tmp_path / parser.name))
    except ValueError as err:
        assert type(err) is ValueError  # ours, and not one of its subclasses
        assert CANARY not in str(err) and str(tmp_path) in str(err)
    else:
        assert n <= 10 + content.count(b"\n")


# Bytes of a file that is made of one thing; seconds of CPU and bytes of memory to read it.
# Something quadratic would need 10 billion steps or bytes.
LONG = 100_000
SECONDS, MEMORY = 30, 100 << 20


@pytest.mark.parametrize("name", PARSERS)
def test_long_runs_of_anything_take_bounded_time_and_memory(name, tmp_path):
    parser = PARSERS[name]
    middle = len(parser.content) // 2
    lines = [line + b"\n" for line in parser.content.split(b"\n") if line]
    for part in {*INSERTED, *lines, b"a", b" ", b"O\n"}:
        run = part * (LONG // len(part))
        for content in (run, parser.content[:middle] + run + parser.content[middle:]):
            for other, kept in {**parser.others, parser.name: content}.items():
                (tmp_path / other).write_bytes(kept)
            tracemalloc.start()
            start = time.process_time()
            try:
                for _ in parser.read(tmp_path / parser.name):
                    pass
            except ValueError as err:
                assert type(err) is ValueError and len(str(err)) < 2000, part
            seconds, (_, peak) = time.process_time() - start, tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert seconds < SECONDS and peak < MEMORY, (part, seconds, peak)


@settings(max_examples=200, deadline=None)
@given(edits=changes)
def test_changed_safetensors_are_read_or_refused(edits):
    """Those errors that `build_network` converts, and no more memory than the file has."""
    data = safetensors.torch.save({"a": torch.zeros(4), "b": torch.ones(2, 2)})
    try:
        tensors = read_tensors(changed(data, edits))
    except (ValueError, LookupError, TypeError, AttributeError, RuntimeError, OverflowError):
        return
    assert sum(tensor.numel() for tensor in tensors.values()) <= len(data) + 40_000
