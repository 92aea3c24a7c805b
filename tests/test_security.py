"""What hostile files try: each attempt is an error of ours, and nothing of it happens."""

import json
from pathlib import Path
from typing import Any

import pytest
import srsly
from transformers import BertConfig

from spacy_mslm.corpus.formats.bioc import read_bioc
from spacy_mslm.model.fast.onnx_encoder import OnnxEncoder
from spacy_mslm.pieces.wordpieces import Wordpieces
from spacy_mslm.pipeline.component import MSLM
from spacy_mslm.tasks import build_pmi_vocabulary, convert
from spacy_mslm.util.manifest import add_manifest
from spacy_mslm.util.markdown import escape, table

from .commands import run_spacy

# ---- XML ----

PASSAGE = "<passage><offset>0</offset><text>{text}</text></passage>"
BIOC = "<collection><document><id>1</id>" + PASSAGE + "</document></collection>"


@pytest.mark.parametrize(
    "declaration",
    [
        '<!ENTITY x SYSTEM "file:///etc/hostname">',
        '<!ENTITY x SYSTEM "secret.txt">',
        '<!ENTITY % p SYSTEM "secret.dtd"> %p;',
        '<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;"><!ENTITY x "&b;&b;&b;&b;">',
    ],
)
def test_entities_of_xml_are_refused(declaration, tmp_path):
    """They do not vanish without a word either."""
    (tmp_path / "secret.txt").write_text("secret")
    path = tmp_path / "a.xml"
    path.write_text(f"<!DOCTYPE collection [{declaration}]>{BIOC.format(text='before &x; after')}")
    with pytest.raises(ValueError, match="no entities of its own") as error:
        list(read_bioc(path))
    assert "secret" not in str(error.value).replace(str(tmp_path), "")


def test_an_unknown_entity_of_an_external_dtd_is_refused(tmp_path):
    path = tmp_path / "a.xml"
    path.write_text(f'<!DOCTYPE collection SYSTEM "BioC.dtd">{BIOC.format(text="a &x; b")}')
    with pytest.raises(ValueError, match=r"a\.xml, line 1"):
        list(read_bioc(path))
    path.write_text(f'<!DOCTYPE collection SYSTEM "BioC.dtd">{BIOC.format(text="a &amp; b")}')
    assert [document.text for document in read_bioc(path)] == ["a & b"]


# ---- reports ----


def test_labels_are_text_in_markdown():
    label = "<img src=x onerror=alert(1)> [x](javascript:alert(1)) `a` | b\nc & d"
    shown = escape(label)
    assert "<" not in shown and "\n" not in shown and "[x]" not in shown.replace("\\[x\\]", "")
    assert shown.endswith("b c &amp; d") and "\\|" in shown
    assert table([["F1", "x"], [label, "1.0"]])[2] == f"| {shown} | 1.0 |"
    assert escape("EM seen, spans_found (%): 0.5") == "EM seen, spans_found (%): 0.5"


def test_the_report_holds_no_script(tmp_path):
    label = "<script>alert(1)</script>"
    of_type = {label: {"p": 1.0, "r": 1.0, "f": 1.0}}
    scores = {"ents_p": 1.0, "ents_r": 1.0, "ents_f": 1.0, "ents_per_type": of_type}
    (tmp_path / "metrics" / "set").mkdir(parents=True)
    (tmp_path / "metrics" / "set" / "vanilla.json").write_text(json.dumps(scores))
    done = run_spacy("mslm", "report", tmp_path / "metrics", tmp_path / "out", "--title", label)
    assert done.returncode == 0, done.stderr
    for name in ("report.md", "report.html"):
        text = (tmp_path / "out" / name).read_text(encoding="utf8")
        assert "<script" not in text and "&lt;script" in text


# ---- private sources ----


def test_the_collocations_of_private_text_are_private(tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text("renal\tO\nfailure\tO\n\n" * 6)
    for mode in (0o600, 0o644):
        path.chmod(mode)
        build_pmi_vocabulary(path, tmp_path / "pmi.txt")
        assert bool((tmp_path / "pmi.txt").stat().st_mode & 0o077) == bool(mode & 0o077)


def test_a_private_file_in_a_folder_makes_the_output_private(tmp_path):
    folder = tmp_path / "corpus"
    folder.mkdir(mode=0o755)
    for name in ("train", "dev", "test"):
        (folder / f"{name}.tsv").write_text("asthma\tB-Disease\n\n")
    (folder / "train.tsv").chmod(0o600)
    convert(folder, tmp_path / "out")
    assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "out").iterdir())


# ---- forged files with a valid manifest ----

FORGED: list[tuple[str, Any]] = [
    *(("cfg", data) for data in (b"\xff", b"[1]", b"[" * 100_000, b'{"labels": [1]}')),
    *(
        ("cfg", data)
        for data in (b'{"temperature": "x"}', b'{"step": -1}', b'{"transitions": "x"}')
    ),
    ("cfg", b'{"mask_weights": {"x": 1}}'),
    *((name, data) for name in ("encoder.json", "heads.json") for data in (b"\xff", b"[]", b"1")),
    *(("heads.json", data) for data in (b'{"k": "x"}', b'{"k": -1, "d": 1, "types": 1}')),
    *(("wordpieces.json", data) for data in (b"\xff", b"[]", b'{"tokenizer": 1}', b"[" * 100_000)),
    *(("weights.safetensors", data) for data in (b"", b"\xff" * 20, b"\x02" + b"\0" * 7 + b"[]")),
    ("weights.safetensors", b"\x10" + b"\0" * 7 + b'{"a": [1, 2, 3]}'),
    ("encoder.json", b'{"model_type": "bert", "hidden_size": "x"}'),
    ("encoder.onnx", b"weights at a location elsewhere"),
    ("encoder.onnx", b"nothing"),
]


@pytest.fixture(scope="module")
def pipe(make_nlp) -> MSLM:
    return make_nlp().get_pipe("mslm")


@pytest.mark.parametrize(("name", "data"), FORGED)
def test_forged_files_with_a_valid_manifest_are_our_own_errors(name, data, pipe, tmp_path):
    cfg, network = dict(pipe.cfg), pipe.shim.network
    files = {"cfg": b"{}", **pipe.shim.to_files(), name: data}
    for path, content in add_manifest(files).items():
        (tmp_path / path).write_bytes(content)
    with pytest.raises(ValueError, match=r"Could not read|does not hold|stored|no model_type"):
        pipe.from_disk(tmp_path)
    assert pipe.cfg == cfg and pipe.shim.network is network


def test_a_graph_reads_no_file_of_the_working_folder(tmp_path, monkeypatch):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret").write_bytes(b"16 secret bytes.")
    weights = onnx.TensorProto(name="w", data_type=1, dims=[4], data_location=1)  # EXTERNAL
    weights.external_data.add(key="location", value="secret")
    node = onnx.helper.make_node("Identity", ["w"], ["out"])
    out = onnx.helper.make_tensor_value_info("out", 1, [4])
    graph = onnx.helper.make_graph([node], "g", [], [out], [weights])
    opsets = [onnx.helper.make_opsetid("", 17)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)
    with pytest.raises(ValueError, match="weights in other files, which are not read"):
        OnnxEncoder(model.SerializeToString(), BertConfig())


@pytest.mark.parametrize("data", [b"", b"\xff", b"\xc1", srsly.msgpack_dumps([1]), b"x" * 100])
def test_bytes_that_are_no_pipe(data, pipe):
    with pytest.raises(ValueError, match=r"not a saved mslm pipe|manifest\.json is missing"):
        pipe.from_bytes(data)


def test_wordpieces_that_cannot_be_read():
    for text in (b"", b"\xff", b"null", b'{"tokenizer": "{}"}'):
        with pytest.raises(ValueError, match="Could not read the stored wordpieces"):
            Wordpieces.from_json(text)


# ---- no place to write ----


def test_an_output_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "in.tsv").write_text("renal\tO\nfailure\tO\n\n" * 6)
    (tmp_path / "file").write_text("a file, not a folder")
    done = run_spacy("mslm", "pmi", tmp_path / "in.tsv", tmp_path / "file" / "pmi.txt")
    said = " ".join(done.stdout.split())
    assert done.returncode == 1 and not done.stderr.count("Traceback")
    assert "Check the path, its permissions and the free disk space." in said
    assert Path(tmp_path / "file").read_text() == "a file, not a folder"
