"""Parsers of files that others made: whatever is in a file, it is read, or one of our errors that
quotes no text. Valid files are cut, spliced and changed byte by byte."""

import gzip
import io
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
from spacy_mslm.corpus.formats.ebm_nlp import read_ebm_nlp
from spacy_mslm.corpus.formats.gliner import read_gliner
from spacy_mslm.corpus.formats.hugging_face import read_hugging_face
from spacy_mslm.corpus.formats.iob import read_iob
from spacy_mslm.corpus.formats.jsonl import read_jsonl
from spacy_mslm.corpus.formats.label_studio import read_label_studio
from spacy_mslm.corpus.formats.pubtator import read_pubtator
from spacy_mslm.corpus.readers import read_gold
from spacy_mslm.masking.collocations import read_collocations
from spacy_mslm.model.weights import read_tensors
from spacy_mslm.tasks.comparison.tables import read_results
from spacy_mslm.tasks.configs import read_config
from spacy_mslm.text.plain_texts import read_texts
from spacy_mslm.text.terminology import read_blocklist, read_terms
from spacy_mslm.weak.annotators.medcat_export import MedcatExport
from spacy_mslm.weak.clusters import Clusters
from spacy_mslm.weak.note_files import read_notes
from spacy_mslm.weak.review import read_review

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
WORDS = TEXT[:-1].split()
TAGS = ["O"] * (len(WORDS) - 1) + ["B-Disease"]
TASK = {"value": {"start": AT, "end": AT + 6, "text": "asthma", "labels": ["Disease"]}}
OUTCOMES = "annotations/aggregated/{}/outcomes/test/gold/1.AGGREGATED.ann"
CONFIG = b"""[vars]
size = "tiny"
[pretraining]
@misc = "spacy_mslm.Pretraining.v1"
steps = 5
text = ${vars.size}
"""
CONCEPT = {"start": AT, "end": AT + 6, "cui": "C1", "type_ids": ["T047"], "acc": 0.9}


def table(kind: str) -> bytes:
    """A Hugging Face dataset, or a table of notes."""
    pa = pytest.importorskip("pyarrow")
    columns = {"tokens": [WORDS], "ner_tags": [TAGS], "text": [TEXT], "row_id": ["1"]}
    names = {"ner_tags": {"feature": {"names": ["O", "B-Disease"]}}}
    about = {b"huggingface": json.dumps({"info": {"features": names}}).encode()}
    rows = pa.table(columns).replace_schema_metadata(about)
    file = io.BytesIO()
    if kind == "parquet":
        pytest.importorskip("pyarrow.parquet").write_table(rows, file)
    else:
        with pa.ipc.new_stream(file, rows.schema) as writer:
            writer.write_table(rows)
    return file.getvalue()


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

    def write(self, folder: Path, content: bytes) -> Path:
        """Write all files, one of which has another content."""
        for name, data in {**self.others, self.name: content}.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        return folder / self.name


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
    "gliner": Parser(
        "a.json",
        json.dumps([{"tokenized_text": WORDS, "ner": [[3, 3, "Disease"]]}]).encode(),
        read_gliner,
    ),
    "label_studio": Parser(
        "a.json",
        json.dumps(
            [{"id": 1, "data": {"text": TEXT}, "annotations": [{"result": [TASK]}]}]
        ).encode(),
        read_label_studio,
    ),
    "hugging_face": Parser(
        "a.jsonl", json.dumps({"tokens": WORDS, "ner_tags": TAGS}).encode(), read_hugging_face
    ),
    "dataset_info": Parser(
        "dataset_info.json",
        json.dumps({"features": {"ner_tags": {"feature": {"names": ["O", "B-D"]}}}}).encode(),
        lambda path: read_hugging_face(path.with_name("a.jsonl")),
        {"a.jsonl": json.dumps({"tokens": WORDS, "ner_tags": [0, 0, 0, 1]}).encode()},
    ),
    "dataset.parquet": Parser("a.parquet", table("parquet"), read_hugging_face),
    "dataset.arrow": Parser("a.arrow", table("arrow"), read_hugging_face),
    "ebm_nlp": Parser(
        OUTCOMES.format("hierarchical_labels"),
        b"0,0,0,1\n",
        lambda path: read_ebm_nlp(path.parents[6], "test"),
        {
            OUTCOMES.format("starting_spans"): b"0,0,0,1\n",
            "documents/1.tokens": "\n".join(WORDS).encode(),
        },
    ),
    "notes.parquet": Parser(
        "notes.parquet", table("parquet"), lambda path: read_notes(path, "auto")
    ),
    "notes.txt": Parser("a.txt", TEXT.encode(), lambda path: read_notes(path, "auto")),
    "notes.csv.gz": Parser(
        "notes.csv.gz",
        gzip.compress(f'ROW_ID,TEXT\n1,"{TEXT}"\n'.encode(), mtime=0),
        lambda path: read_notes(path, "auto"),
    ),
    "texts": Parser("a.txt", f"{TEXT}\n".encode(), lambda path: read_texts([path])),
    "texts.jsonl.gz": Parser(
        "a.jsonl.gz",
        gzip.compress(json.dumps({"text": TEXT}).encode(), mtime=0),
        lambda path: read_texts([path]),
    ),
    "review": Parser(
        "a.jsonl",
        json.dumps({"text": TEXT, "spans": [SPAN], "answer": "accept"}).encode(),
        lambda path: [read_review(path.with_name("sample.jsonl"), path)],
        {"sample.jsonl": json.dumps({"id": "1", "text": TEXT, "spans": [SPAN]}).encode()},
    ),
    "medcat": Parser(
        "a.json",
        json.dumps({"1": {"entities": {"0": CONCEPT}}}).encode(),
        lambda path: [MedcatExport(path, None)],
    ),
    "clusters": Parser(
        "types.yml",
        b"Disease:\n  T047: Disease or Syndrome\nSymptom:\n  T184: Sign or Symptom\n",
        lambda path: Clusters(str(path)).labels,
    ),
    "blocklist": Parser("block.txt", b"# common\nskin\ndate\n", read_blocklist),
    "config": Parser("a.cfg", CONFIG, lambda path: [read_config(path, None, block="pretraining")]),
    "results": Parser(
        "set/vanilla.json",
        json.dumps({"scores": {"ents_f": 0.5, "ents_per_type": {"D": {"f": 0.5}}}}).encode(),
        lambda path: read_results(path.parents[1], "vanilla"),
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
    assert list(parser.read(parser.write(tmp_path, parser.content)))


@pytest.mark.parametrize("name", PARSERS)
@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(edits=changes)
def test_changed_files_are_read_or_refused(name, edits, tmp_path):
    parser = PARSERS[name]
    content = changed(parser.content, edits)
    path = parser.write(tmp_path, content)
    try:
        n = sum(1 for _ in parser.read(path))
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
            path = parser.write(tmp_path, content)
            tracemalloc.start()
            start = time.process_time()
            try:
                for _ in parser.read(path):
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
