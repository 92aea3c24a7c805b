"""MedCAT as an annotator: its exports, the process that runs it, and real MedCAT in its own
environment.

SPACY_MSLM_MEDCAT names an environment that `medcat-setup` has made; without it the tests make one,
which takes about a minute, and are skipped where PyPI cannot be reached.
"""

import json
import os
import signal
import socket
import subprocess
import time
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest
import spacy
from spacy.tokens import Doc

from benchmarks.weak_annotators import MAKE_PACK
from spacy_mslm.weak.annotators.medcat import MedcatAnnotator
from spacy_mslm.weak.concepts import Concept
from spacy_mslm.weak.medcat_setup import (
    MARKER,
    MEDCAT_VERSION,
    environment_python,
    is_ready,
    setup_medcat,
)

from ..commands import run_python

NLP = spacy.blank("en")
NOTE = "Acute renal failure and asthma, on Aspirin."
SECRET = "Zebulon"


def make_doc(text: str, name: str | None) -> Doc:
    doc = NLP(text)
    if name is not None:
        doc.user_data["id"] = name
    return doc


def write(path: Path, export: Any) -> str:
    path.write_text(json.dumps(export), encoding="utf8")
    return str(path)


def entity(start: int, end: int, cui: str, types: list[str], acc: float = 1.0) -> dict[str, Any]:
    return {"start": start, "end": end, "cui": cui, "type_ids": types, "acc": acc}


# ---- exports ----


ENTITIES = {
    "entities": {
        "0": entity(0, 19, "C0022660", ["T047"]),
        "3": entity(35, 42, "C0004057", ["T109", "T121"], 0.4),
    },
    "tokens": [],
}
FOUND = [
    Concept(0, 19, "C0022660", "T047", 1.0),
    Concept(35, 42, "C0004057", "T109", 0.4),
    Concept(35, 42, "C0004057", "T121", 0.4),
]


def trainer(*documents: dict[str, Any]) -> dict[str, Any]:
    return {"projects": [{"name": "p", "id": 1, "cuis": "", "documents": list(documents)}]}


def document(name: str, number: int, annotations: list[dict], text: str = NOTE) -> dict[str, Any]:
    return {"name": name, "id": number, "text": text, "annotations": annotations}


def annotation(start: int, end: int, cui: str, **more: Any) -> dict[str, Any]:
    return {"start": start, "end": end, "cui": cui, "value": NOTE[start:end], **more}


@pytest.fixture
def types(tmp_path: Path) -> str:
    path = tmp_path / "concepts.csv"
    path.write_text("cui,name,type_ids\nC0022660,ARF,T047\nC0004057,aspirin,T109|T121\n")
    return str(path)


@pytest.mark.parametrize(
    "export",
    [
        {"7": ENTITIES, "8": {}},
        [["7", ENTITIES], ["8", {}]],
        [[7, {**ENTITIES, "text": NOTE}], [8, {}]],
    ],
)
def test_entities_of_several_texts_are_read(tmp_path, export):
    annotator = MedcatAnnotator(export=write(tmp_path / "out.json", export))
    docs = [make_doc("", "8"), make_doc(NOTE, "7")]
    assert list(annotator(docs)) == [[], FOUND]


def test_entities_of_one_text_belong_to_the_note_that_the_file_is_named_after(tmp_path):
    write(tmp_path / "7.json", ENTITIES)
    write(tmp_path / "8.json", {"entities": {}})
    annotator = MedcatAnnotator(export=str(tmp_path))
    assert list(annotator([make_doc("x", "8"), make_doc(NOTE, "7")])) == [[], FOUND]


def test_concepts_of_a_low_score_are_left_out(tmp_path):
    export = write(tmp_path / "out.json", {"7": ENTITIES})
    (concepts,) = MedcatAnnotator(export=export, min_score=0.5)([make_doc(NOTE, "7")])
    assert concepts == FOUND[:1]


def test_an_export_of_medcattrainer_is_read(tmp_path, types):
    kept = [annotation(0, 19, "C0022660", correct=True), annotation(35, 42, "c0004057")]
    gone = [
        annotation(0, 5, "C0022660", **{flag: True}) for flag in ("deleted", "killed", "irrelevant")
    ]
    # Names take precedence over ids: here the name of each document is the id of the other.
    export = trainer(document("a", 1, [*kept, *gone]), document("1", 2, [kept[0]]))
    annotator = MedcatAnnotator(export=write(tmp_path / "out.json", export), types=types)
    first, second, third = annotator([make_doc(NOTE, name) for name in ("a", "1", "2")])
    assert [(c.start, c.end, c.semantic_type) for c in first] == [
        (0, 19, "T047"),
        (35, 42, "T109"),
        (35, 42, "T121"),
    ]
    assert second == third == [Concept(0, 19, "C0022660", "T047", 1.0)]


def test_a_document_of_several_projects_has_the_annotations_of_all(tmp_path, types):
    one = document("a", 1, [annotation(0, 19, "C0022660")])
    two = document("a", 9, [annotation(0, 19, "C0022660"), annotation(35, 42, "C0004057")])
    export = {"projects": [*trainer(one)["projects"], *trainer(two)["projects"]]}
    annotator = MedcatAnnotator(export=write(tmp_path / "out.json", export), types=types)
    (concepts,) = annotator([make_doc(NOTE, "a")])
    assert [c.semantic_type for c in concepts] == ["T047", "T109", "T121"]


def test_annotations_without_a_type_need_a_table(tmp_path):
    export = write(tmp_path / "out.json", trainer(document("a", 1, [annotation(0, 19, "C1")])))
    with pytest.raises(ValueError, match=r"out\.json has annotations without a semantic type"):
        MedcatAnnotator(export=export).load()


def test_concepts_that_the_table_does_not_have_are_counted(tmp_path, types, caplog):
    annotations = [annotation(0, 19, "C1"), annotation(35, 42, "C1"), annotation(0, 5, "C0022660")]
    export = write(tmp_path / "out.json", trainer(document("a", 1, annotations)))
    annotator = MedcatAnnotator(export=export, types=types)
    annotator.load()
    assert "2 annotations are left out" in caplog.text and "C1" in caplog.text
    assert list(annotator([make_doc(NOTE, "a")])) == [[Concept(0, 5, "C0022660", "T047", 1.0)]]


def test_notes_that_are_not_in_the_export_are_named(tmp_path, caplog):
    annotator = MedcatAnnotator(export=write(tmp_path / "out.json", {"7": ENTITIES}))
    docs = [make_doc(SECRET, "x1"), make_doc(NOTE, "7"), make_doc(SECRET, None)]
    assert list(annotator(docs)) == [[], FOUND, []]
    assert "2 of 3 notes are not in" in caplog.text and "x1, #2" in caplog.text
    assert SECRET not in caplog.text


@pytest.mark.parametrize("text", [SECRET, NOTE + "."])
def test_a_note_of_another_text_is_an_error_that_names_it(tmp_path, text):
    export = write(tmp_path / "out.json", [["7", {**ENTITIES, "text": NOTE}]])
    with pytest.raises(ValueError, match="text of document 7 differs from the note") as info:
        list(MedcatAnnotator(export=export)([make_doc(text, "7")]))
    assert SECRET not in str(info.value)


def test_offsets_beyond_a_note_are_an_error_where_the_export_has_no_text(tmp_path):
    export = write(tmp_path / "out.json", {"7": ENTITIES})
    with pytest.raises(ValueError, match="text of document 7 differs from the note"):
        list(MedcatAnnotator(export=export)([make_doc(NOTE[:30], "7")]))


def test_a_document_that_is_there_twice_with_other_texts_is_an_error(tmp_path):
    export = trainer(document("a", 1, []), document("a", 2, [], text=SECRET))
    with pytest.raises(ValueError, match="text of document a differs") as info:
        MedcatAnnotator(export=write(tmp_path / "out.json", export)).load()
    assert SECRET not in str(info.value)


BAD_ENTITIES = {
    "only_cui": "C1",
    "no start": {"end": 3, "cui": "C1", "type_ids": ["T1"]},
    "empty": entity(3, 3, "C1", ["T1"]),
    "negative": entity(-1, 3, "C1", ["T1"]),
    "no cui": {"start": 0, "end": 3, "type_ids": ["T1"], "source_value": SECRET},
}


@pytest.mark.parametrize("case", BAD_ENTITIES)
def test_a_bad_annotation_is_named_by_document_and_number(tmp_path, case):
    entities = {"0": entity(0, 5, "C1", ["T1"]), "1": BAD_ENTITIES[case]}
    export = write(tmp_path / "out.json", {"7": {"entities": entities}})
    with pytest.raises(ValueError, match=r"document 7: annotation 2 (is not a|has no) ") as info:
        MedcatAnnotator(export=export).load()
    assert SECRET not in str(info.value)


@pytest.mark.parametrize(
    "export", [SECRET, [], {}, [1], {"a": SECRET}, {"projects": [{}]}, {"projects": SECRET}, None]
)
def test_another_shape_is_an_error(tmp_path, export):
    with pytest.raises(ValueError, match=r"out\.json is not a MedCAT export") as info:
        MedcatAnnotator(export=write(tmp_path / "out.json", export)).load()
    assert SECRET not in str(info.value)


def test_broken_json_is_an_error(tmp_path):
    (tmp_path / "out.json").write_text(f'{{"a": "{SECRET}')
    with pytest.raises(ValueError, match="it is not JSON") as info:
        MedcatAnnotator(export=str(tmp_path / "out.json")).load()
    assert SECRET not in str(info.value) and info.value.__cause__ is None


def test_a_table_without_its_columns_is_an_error(tmp_path):
    (tmp_path / "types.csv").write_text("cui,name\nC1,x\n")
    with pytest.raises(ValueError, match="no column type_ids"):
        MedcatAnnotator(export="out.json", types=str(tmp_path / "types.csv")).load()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "neither is set"),
        ({"model": "m", "environment": "e", "export": "x"}, "both are set"),
        ({"model": "m"}, "the environment is not set"),
        ({"export": "x", "min_score": 2}, "min_score is 2"),
        ({"export": "x", "timeout": 0}, "timeout is 0"),
        ({"export": "no-such.json"}, "no-such.json: there is no such file"),
        ({"export": "x", "types": "no-such.csv"}, "no-such.csv: there is no such file"),
        ({"model": "m", "environment": "no-such"}, "no-such is not a finished environment"),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        MedcatAnnotator(**settings).load()


# ---- the process ----

# Stands in for MedCAT in the real worker, and fails in the ways that MedCAT could.
FAULTY = """
import os, signal, sys, time
from types import SimpleNamespace

print("noise on stdout")

class CAT:
    config = SimpleNamespace(general=SimpleNamespace(usage_monitor=SimpleNamespace(enabled=True)))

    @classmethod
    def load_model_pack(cls, pack, keep_addons_of_types=None):
        os.chdir(pack)
        if os.path.exists("unloadable"):
            raise ValueError("no model in here")
        if os.path.exists("dies"):
            os._exit(3)
        if os.path.exists("hangs"):
            time.sleep(1000)
        open("starts", "a").write("x")
        return cls()

    def get_entities(self, text):
        print("more noise", text)
        print(text, file=sys.stderr)
        if "raise" in text:
            raise ValueError(text)
        if "kill" in text or ("once" in text and not os.path.exists("died")):
            open("died", "w")
            os.kill(os.getpid(), signal.SIGKILL)
        if "hang" in text:
            time.sleep(1000)
        if "exit" in text:
            sys.exit(4)
        return {"entities": {0: {"start": 0, "end": len(text), "cui": "C1", "type_ids": ["T1"],
                                 "acc": 1, "source_value": text}}}
"""


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("faulty") / "environment"
    venv.create(folder, with_pip=False, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "medcat").mkdir()
    (site / "medcat" / "__init__.py").write_text("")
    (site / "medcat" / "cat.py").write_text(FAULTY)
    (folder / MARKER).write_text(json.dumps({"medcat": "0", "extras": []}))
    return folder


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    (tmp_path / "pack").mkdir()
    return tmp_path / "pack"


def starts(pack: Path) -> int:
    return len((pack / "starts").read_text())


posix = pytest.mark.skipif(os.name != "posix", reason="signals are those of POSIX")


@posix
def test_the_process_starts_with_the_first_note_and_stays(faulty, pack):
    annotator = MedcatAnnotator(model=str(pack), environment=str(faulty))
    assert list(annotator([])) == []
    assert not (pack / "starts").exists()
    assert list(annotator([make_doc("ab", "1"), make_doc("abc", "2")])) == [
        [Concept(0, 2, "C1", "T1", 1.0)],
        [Concept(0, 3, "C1", "T1", 1.0)],
    ]
    list(annotator([make_doc("x", "3")]))
    assert starts(pack) == 1


@posix
def test_text_of_any_kind_gets_there(faulty, pack):
    annotator = MedcatAnnotator(model=str(pack), environment=str(faulty))
    texts = ["a\nb\r\n\u2028\x85", "ÄÖ\U0001f600", '"\\', "x" * 3_000_000]
    docs = [Doc(NLP.vocab, words=[text], spaces=[False]) for text in texts]
    assert [c.end for (c,) in annotator(docs)] == [len(text) for text in texts]


@posix
def test_a_process_that_was_killed_is_replaced_and_the_note_retried(faulty, pack):
    annotator = MedcatAnnotator(model=str(pack), environment=str(faulty))
    results = annotator([make_doc("ab", "1"), make_doc("once", "2"), make_doc("abc", "3")])
    assert [[c.end for c in concepts] for concepts in results] == [[2], [4], [3]]
    assert starts(pack) == 2


@posix
@pytest.mark.parametrize(
    ("text", "timeout", "reason"),
    [
        ("kill", 60, "ended with exit code -9"),
        ("exit", 60, "ended with exit code 4"),
        ("hang", 5, "did not answer within 5 seconds"),
    ],
)
def test_a_note_that_fails_twice_is_an_error_that_names_it(
    faulty, pack, text, timeout, reason, caplog
):
    annotator = MedcatAnnotator(model=str(pack), environment=str(faulty), timeout=timeout)
    docs = [make_doc("ab", "note-1"), make_doc(f"{SECRET} {text}", "note-2")]
    results = annotator(docs)
    assert len(next(iter(results))) == 1
    with pytest.raises(RuntimeError, match=f"{reason}. It was at the note note-2") as info:
        list(results)
    assert starts(pack) == 2
    assert SECRET not in str(info.value) + caplog.text
    assert info.value.__suppress_context__
    # The annotator still works.
    assert len(list(annotator(docs[:1]))) == 1


@posix
def test_a_note_that_medcat_cannot_read_costs_no_other(faulty, pack, caplog):
    annotator = MedcatAnnotator(model=str(pack), environment=str(faulty))
    docs = [make_doc("ab", "1"), make_doc(f"{SECRET} raise", "note-2"), make_doc("abc", "3")]
    assert [len(concepts) for concepts in annotator(docs)] == [1, 0, 1]
    assert "failed on the note note-2 with ValueError" in caplog.text
    assert SECRET not in caplog.text
    assert starts(pack) == 1


@posix
def test_what_medcat_prints_reaches_nobody(faulty, pack, capfd):
    annotator = MedcatAnnotator(model=str(pack), environment=str(faulty))
    assert len(list(annotator([make_doc(SECRET, "1")]))) == 1
    assert capfd.readouterr() == ("", "")


@posix
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("unloadable", r"cannot load the model pack .*pack \(ValueError: no model in here\)"),
        ("dies", "ended with exit code 3. It was loading the model"),
        ("hangs", "did not answer within 5 seconds. It was loading the model"),
    ],
)
def test_a_pack_that_does_not_load_is_an_error(faulty, pack, fault, message):
    (pack / fault).touch()
    annotator = MedcatAnnotator(model=str(pack), environment=str(faulty), timeout=5)
    with pytest.raises(RuntimeError, match=message):
        list(annotator([make_doc("ab", "1")]))


@posix
def test_the_process_ends_with_its_annotator_and_with_us(faulty, pack):
    annotator = MedcatAnnotator(model=str(pack), environment=str(faulty))
    list(annotator([make_doc("ab", "1")]))
    pid = annotator._source._process._popen.pid
    del annotator
    assert not is_alive(pid)
    code = (
        "import os, signal, spacy\n"
        "from spacy_mslm.weak.annotators.medcat import MedcatAnnotator\n"
        f"annotator = MedcatAnnotator(model={str(pack)!r}, environment={str(faulty)!r})\n"
        "list(annotator([spacy.blank('en')('ab')]))\n"
        "print(annotator._source._process._popen.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = run_python("-c", code)
    assert done.returncode == -signal.SIGKILL
    while is_alive(int(done.stdout)):  # until the time limit of all tests
        time.sleep(0.1)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # An orphaned process may remain a zombie if init does not reap it.
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize("at", [0, 40, -30])
def test_a_damaged_archive_is_an_error(at, faulty, tmp_path):
    with zipfile.ZipFile(tmp_path / "pack.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("cdb/x", "some content " * 20)
    data = bytearray((tmp_path / "pack.zip").read_bytes())
    data[at : at + 8] = b"\xff" * 8
    (tmp_path / "pack.zip").write_bytes(data)
    with pytest.raises(ValueError, match=r"pack\.zip cannot be unpacked"):
        MedcatAnnotator(model=str(tmp_path / "pack.zip"), environment=str(faulty)).load()
    assert [path.name for path in tmp_path.iterdir()] == ["pack.zip"]


@posix
def test_an_archive_reaches_nothing_outside_its_folder(faulty, tmp_path):
    (tmp_path / "models").mkdir()
    with zipfile.ZipFile(tmp_path / "models" / "pack.zip", "w") as archive:
        for name in ("cdb/x", "../evil", "cdb/../../../evil", str(tmp_path / "evil")):
            archive.writestr(name, "1")
        link = zipfile.ZipInfo("cdb/link")
        link.external_attr = 0o120777 << 16  # a symbolic link
        archive.writestr(link, "/etc/passwd")
    model = str(tmp_path / "models" / "pack.zip")
    list(MedcatAnnotator(model=model, environment=str(faulty))([make_doc("ab", "1")]))
    assert not list(tmp_path.glob("evil")) and not list(tmp_path.glob("models/evil"))
    assert not any(path.is_symlink() for path in tmp_path.rglob("*"))


@posix
def test_an_archive_is_unpacked_once(faulty, tmp_path):
    with zipfile.ZipFile(tmp_path / "pack.zip", "w") as archive:
        archive.writestr("cdb/x", "1")
    for _ in range(2):
        annotator = MedcatAnnotator(model=str(tmp_path / "pack.zip"), environment=str(faulty))
        assert [len(c) for c in annotator([make_doc("ab", "1")])] == [1]
    assert starts(tmp_path / "pack") == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pack", "pack.zip"]


# ---- set-up ----


def test_a_folder_of_others_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(ValueError, match="was not made by medcat-setup"):
        setup_medcat(tmp_path)
    with pytest.raises(ValueError, match="was not made by medcat-setup"):
        setup_medcat(tmp_path / "thesis.tex")
    assert (tmp_path / "thesis.tex").read_text() == "x"


@pytest.mark.slow
def test_an_installation_that_fails_leaves_no_environment_that_is_taken_for_one(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    folder = tmp_path / "environment"
    for _ in range(2):  # the second begins anew
        with pytest.raises(RuntimeError, match=r"could not be installed in .*ERROR: No matching"):
            setup_medcat(folder)
        assert not is_ready(folder)
    with pytest.raises(ValueError, match="is not a finished environment"):
        MedcatAnnotator(model=str(tmp_path), environment=str(folder)).load()


# ---- real MedCAT ----

TERMS = """cui,name,type_ids
C0022660,acute renal failure,T047
C0035078,renal failure|kidney failure,T047
C0004096,asthma,T047
C0004057,aspirin,T109|T121
"""
EXPORT = """
import json, sys
from medcat.cat import CAT

texts = map(tuple, json.load(sys.stdin))
cat = CAT.load_model_pack(sys.argv[1])
json.dump(list(cat.get_entities_multi_texts(texts)), open(sys.argv[2], "w"))
"""
OFFLINE = {**os.environ, "MEDCAT_DISABLE_VERSION_CHECK": "true"}


def pypi_is_there() -> bool:
    try:
        socket.create_connection(("pypi.org", 443), timeout=10).close()
    except OSError:
        return False
    return True


@pytest.fixture(scope="session")
def medcat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The environment."""
    if "SPACY_MSLM_MEDCAT" in os.environ:
        folder = Path(os.environ["SPACY_MSLM_MEDCAT"])
        assert is_ready(folder)
        return folder
    if not pypi_is_there():
        pytest.skip("PyPI cannot be reached, and SPACY_MSLM_MEDCAT names no environment")
    # The pack below uses MedCAT's regex tokenizer, which does not need spaCy.
    return setup_medcat(tmp_path_factory.mktemp("medcat") / "environment", extras=())


@pytest.fixture(scope="session")
def real_pack(medcat: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model pack of a few terms, as an archive."""
    folder = tmp_path_factory.mktemp("pack")
    (folder / "terms.csv").write_text(TERMS)
    run(medcat, MAKE_PACK, str(folder / "terms.csv"), str(folder))
    return folder / "pack.zip"


def run(environment: Path, code: str, *arguments: str, text: str = "") -> None:
    command = [str(environment_python(environment)), "-I", "-c", code, *arguments]
    subprocess.run(command, input=text, text=True, check=True, env=OFFLINE)


REAL_FOUND = [
    Concept(0, 19, "C0022660", "T047", 1.0),
    Concept(24, 30, "C0004096", "T047", 1.0),
    Concept(35, 42, "C0004057", "T109", 1.0),
    Concept(35, 42, "C0004057", "T121", 1.0),
]


@pytest.fixture
def annotator(medcat: Path, real_pack: Path) -> MedcatAnnotator:
    return MedcatAnnotator(model=str(real_pack), environment=str(medcat))


@pytest.mark.slow
def test_medcat_finds_our_terms(annotator, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    docs = [make_doc(NOTE, "1"), make_doc("", "2"), make_doc("Well.\n\nKidney  failure?", "3")]
    first, second, third = annotator(docs)
    assert first == REAL_FOUND
    assert second == []
    assert third == [Concept(7, 22, "C0035078", "T047", 1.0)]
    assert list(tmp_path.iterdir()) == []  # it leaves nothing behind


@pytest.mark.slow
@posix
def test_medcat_that_is_killed_is_started_again(annotator):
    docs = [make_doc(NOTE, str(number)) for number in range(3)]
    results = annotator(docs)
    found = [next(results)]
    process = annotator._source._process
    os.kill(process._popen.pid, signal.SIGKILL)
    found += results
    assert found == [REAL_FOUND] * 3
    assert annotator._source._process is not process


@pytest.mark.slow
def test_what_medcat_exports_is_what_it_finds(medcat, real_pack, tmp_path, annotator):
    texts = [("1", NOTE), ("2", ""), ("3", "No asthma.")]
    pack = MedcatAnnotator(model=str(real_pack), environment=str(medcat))._source.pack
    run(medcat, EXPORT, str(pack), str(tmp_path / "out.json"), text=json.dumps(texts))
    docs = [make_doc(text, name) for name, text in texts]
    exported = list(MedcatAnnotator(export=str(tmp_path / "out.json"))(docs))
    assert exported == list(annotator(docs))
    assert [len(concepts) for concepts in exported] == [4, 0, 1]


@pytest.mark.slow
def test_a_folder_that_is_no_pack_is_an_error(medcat, tmp_path):
    annotator = MedcatAnnotator(model=str(tmp_path), environment=str(medcat))
    with pytest.raises(RuntimeError, match="MedCAT cannot load the model pack"):
        list(annotator([make_doc(NOTE, "1")]))


@pytest.mark.slow
def test_an_environment_that_is_ready_stays(medcat):
    done = json.loads((medcat / MARKER).read_text())
    before = (medcat / MARKER).stat().st_mtime_ns
    assert done["medcat"] == MEDCAT_VERSION
    assert setup_medcat(medcat, extras=done["extras"]) == medcat.absolute()
    assert (medcat / MARKER).stat().st_mtime_ns == before
    assert is_ready(medcat)
