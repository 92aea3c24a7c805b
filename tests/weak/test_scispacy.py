"""scispaCy's linker as an annotator: real scispaCy with a small knowledge base."""

import gzip
import json
import os
import pickle
import shutil
import socket
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import spacy
import srsly
from spacy.language import Language
from spacy.tokens import Doc
from thinc.api import Config

from spacy_mslm.pipeline.saving import safe_save
from spacy_mslm.tasks import verify
from spacy_mslm.util.manifest import write_manifest
from spacy_mslm.weak.annotators import scispacy_index
from spacy_mslm.weak.annotators.scispacy_index import read_knowledge_base
from spacy_mslm.weak.annotators.scispacy_linker import ScispacyLinker
from spacy_mslm.weak.clusters import UMLS_TYPES
from spacy_mslm.weak.concepts import Concept

from ..commands import run_python

ROOT = Path(__file__).parents[2]

needs_scispacy = pytest.mark.skipif(
    find_spec("scispacy") is None,
    reason='scispaCy is not installed (pip install "spacy-mslm[weak]")',
)

CONCEPTS = [
    ("C0035078", "Kidney Failure", ["renal failure", "failure of the kidney"], ["T047"]),
    ("C0022660", "Kidney Failure, Acute", ["acute renal failure"], ["T047"]),
    ("C0004096", "Asthma", ["bronchial asthma"], ["T047"]),
    (
        "C0024117",
        "Chronic Obstructive Airway Disease",
        ["chronic obstructive lung disease"],
        ["T047"],
    ),
    ("C0027051", "Myocardial Infarction", ["heart attack"], ["T047"]),
    ("C0004057", "aspirin", ["acetylsalicylic acid"], ["T109", "T121"]),
    ("C0009443", "Common Cold", ["cold"], ["T047"]),
    ("C0009264", "cold temperature", ["cold"], ["T070"]),
    ("C0020538", "Hypertensive disease", ["hypertension"], ["T047"]),
]


def record(concept: str, name: str, aliases: list[str], types: list[str]) -> dict[str, Any]:
    return {
        "concept_id": concept,
        "canonical_name": name,
        "aliases": aliases,
        "types": types,
        "definition": None,
    }


def write_kb(path: Path, concepts: list[dict[str, Any]] | None = None) -> Path:
    records = [record(*each) for each in CONCEPTS] if concepts is None else concepts
    path.write_text("".join(json.dumps(each) + "\n" for each in records), encoding="utf8")
    return path


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_kb(tmp_path_factory.mktemp("kb") / "kb.jsonl")


@pytest.fixture(scope="module")
def linker(kb: Path) -> ScispacyLinker:
    return loaded(str(kb))


@pytest.fixture(scope="module")
def nlp() -> Language:
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    return nlp


def loaded(*arguments: str, **settings: Any) -> ScispacyLinker:
    linker = ScispacyLinker(*arguments, **settings)
    linker.load()
    return linker


def found(linker: ScispacyLinker, doc: Doc) -> list[tuple[str, str, str]]:
    """Return the text, the id and the type of each concept."""
    (concepts,) = linker([doc])
    return [(doc.text[c.start : c.end], c.concept, c.semantic_type) for c in concepts]


# ---- linking ----


@needs_scispacy
def test_names_are_found_whatever_their_case_and_the_longest_stays(linker, nlp):
    doc = nlp("The patient has ACUTE Renal Failure. No bronchial asthma, and renal failure before.")
    assert found(linker, doc) == [
        ("ACUTE Renal Failure", "C0022660", "T047"),
        ("bronchial asthma", "C0004096", "T047"),
        ("renal failure", "C0035078", "T047"),
    ]


@needs_scispacy
def test_names_that_differ_a_little_are_found_with_their_similarity(kb, nlp):
    doc = nlp("Known chronic obstructive lung diseases.")
    ((concept,),) = loaded(str(kb), threshold=0.8)([doc])
    assert concept[:4] == (6, 39, "C0024117", "T047")
    assert 0.8 <= concept.score < 1


@needs_scispacy
def test_every_type_and_every_best_concept_is_given(linker, nlp):
    assert found(linker, nlp("Takes aspirin for a cold.")) == [
        ("aspirin", "C0004057", "T109"),
        ("aspirin", "C0004057", "T121"),
        ("cold", "C0009264", "T070"),
        ("cold", "C0009443", "T047"),
    ]


@needs_scispacy
def test_words_that_no_name_has_do_not_make_a_mention_longer(linker, nlp):
    # The vectorizer ignores them, so scispaCy's own similarity would be 1.
    (candidates,) = linker._generator(["qxz asthma"], 3)
    assert max(max(c.similarities) for c in candidates) == pytest.approx(1, abs=1e-3)
    assert found(linker, nlp("Seen for qxz asthma zzyx today.")) == [("asthma", "C0004096", "T047")]


@needs_scispacy
def test_sentences_are_not_crossed(linker, nlp):
    assert found(linker, nlp("This is renal. Failure of treatment.")) == []


@needs_scispacy
def test_names_over_a_line_break_are_found(linker, nlp):
    assert found(linker, nlp("It was renal\nfailure again.")) == [
        ("renal\nfailure", "C0035078", "T047")
    ]


@needs_scispacy
def test_ngrams_have_a_greatest_length(kb, nlp):
    doc = nlp("Known failure of the kidney.")
    assert found(loaded(str(kb), max_tokens=4), doc) == [
        ("failure of the kidney", "C0035078", "T047")
    ]
    assert found(loaded(str(kb), max_tokens=3), doc) == []


@needs_scispacy
def test_documents_keep_their_order_and_are_not_changed(linker, nlp):
    docs = [
        nlp("asthma"),
        nlp(""),
        nlp(" \n "),
        nlp("..."),
        nlp("the of 12 34"),
        nlp("a heart attack (HA) HA"),
    ]
    before = [doc.to_bytes() for doc in docs]
    results = list(linker(docs))
    assert [len(concepts) for concepts in results] == [1, 0, 0, 0, 0, 3]
    assert results[0] == [Concept(0, 6, "C0004096", "T047", pytest.approx(1, abs=1e-3))]
    assert [doc.to_bytes() for doc in docs] == before
    assert list(linker([])) == []


# ---- abbreviations ----


@needs_scispacy
def test_a_short_form_gets_the_concept_of_its_long_form(linker, nlp):
    doc = nlp("He had a myocardial infarction (MI). After the MI he was well.")
    assert found(linker, doc) == [
        ("myocardial infarction", "C0027051", "T047"),
        ("MI", "C0027051", "T047"),
        ("MI", "C0027051", "T047"),
    ]
    # It does not apply to another note.
    assert found(linker, nlp("After the MI he was well.")) == []


@needs_scispacy
@pytest.mark.filterwarnings("error")
def test_what_is_in_brackets_need_not_be_a_short_form(linker, nlp):
    doc = nlp("Has asthma (mild) and (severe pain).")
    assert found(linker, doc) == [("asthma", "C0004096", "T047")]


@needs_scispacy
def test_abbreviations_are_an_option(kb, nlp):
    linker = loaded(str(kb), abbreviations=False)
    doc = nlp("He had a myocardial infarction (MI).")
    assert [text for text, *_ in found(linker, doc)] == ["myocardial infarction"]


@needs_scispacy
def test_brackets_cost_time_in_proportion_to_their_number(linker, nlp):
    # scispaCy's own matcher compares all pairs of brackets, 16 million here.
    doc = nlp("He had (x) pain. " * 4000 + "A heart attack (HA).")
    assert [text for text, *_ in found(linker, doc)] == ["heart attack", "HA"]


# ---- candidates of a pipeline ----


def save_ruler(folder: Path) -> str:
    """A pipeline with one entity, which has more words than the name of the concept."""
    nlp = spacy.blank("en")
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "E", "pattern": "the asthma ,"}])
    nlp.to_disk(folder)
    return str(folder)


@Language.component("test_one_noun_phrase")
def one_noun_phrase(doc: Doc) -> Doc:
    """Parses a text as one noun phrase."""
    for token in doc:
        token.head, token.dep_, token.pos_ = doc[-1], "amod", "ADJ"
    doc[-1].head, doc[-1].dep_, doc[-1].pos_ = doc[-1], "ROOT", "NOUN"
    return doc


@needs_scispacy
def test_entities_of_a_pipeline_are_candidates(kb, nlp, tmp_path):
    linker = loaded(str(kb), model=save_ruler(tmp_path / "model"))
    doc = nlp("No aspirin. It was the asthma , and asthma.")
    assert found(linker, doc) == [("asthma", "C0004096", "T047")]
    ((concept,),) = linker([doc])
    assert concept.start == 23


@needs_scispacy
def test_noun_chunks_of_a_pipeline_are_candidates(kb, nlp, tmp_path):
    model = spacy.blank("en")
    model.add_pipe("test_one_noun_phrase")
    model.to_disk(tmp_path / "model")
    linker = loaded(str(kb), model=str(tmp_path / "model"))
    assert found(linker, nlp("the acute renal failure")) == [
        ("acute renal failure", "C0022660", "T047")
    ]


@needs_scispacy
def test_the_vocabulary_of_a_pipeline_does_not_grow(kb, nlp, tmp_path):
    linker = loaded(str(kb), model=save_ruler(tmp_path / "model"))
    sizes = []
    for number in range(3):
        doc = nlp(f"word{number} the heart attack number{number} (HAN{number}) again.")
        list(linker([doc]))
        sizes.append([len(own.vocab.strings) for own in (linker._model, linker._blank)])
    assert sizes[0] == sizes[1] == sizes[2]


@needs_scispacy
def test_a_pipeline_that_is_not_there_is_named(kb):
    with pytest.raises(ValueError, match="'no_such_pipeline' cannot be loaded"):
        loaded(str(kb), model="no_such_pipeline")


# ---- the index ----


@needs_scispacy
def test_the_index_is_built_once_for_the_same_contents(tmp_path):
    kb = write_kb(tmp_path / "kb.jsonl")
    index = tmp_path / "index"
    loaded(str(kb), index=str(index))
    (first,) = index.iterdir()
    times = {path.name: path.stat().st_mtime_ns for path in first.iterdir()}
    # The same contents under another name.
    kb = kb.rename(tmp_path / "other.jsonl")
    loaded(str(kb), index=str(index))
    assert {path.name: path.stat().st_mtime_ns for path in first.iterdir()} == times
    write_kb(kb, [record(*each) for each in CONCEPTS[:3]])
    loaded(str(kb), index=str(index))
    assert len(list(index.iterdir())) == 2
    assert not list(tmp_path.glob("*.index"))


@needs_scispacy
def test_an_index_that_lacks_a_file_is_built_again(tmp_path, nlp):
    kb = write_kb(tmp_path / "kb.jsonl")
    loaded(str(kb))
    (folder,) = (tmp_path / "kb.jsonl.index").iterdir()
    (folder / "nmslib.bin").unlink()
    assert found(loaded(str(kb)), nlp("asthma")) == [("asthma", "C0004096", "T047")]
    assert (folder / "nmslib.bin").is_file()


@needs_scispacy
def test_a_file_needs_no_network(tmp_path, nlp, monkeypatch):
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    linker = loaded(str(write_kb(tmp_path / "kb.jsonl")))
    assert found(linker, nlp("asthma")) == [("asthma", "C0004096", "T047")]


@needs_scispacy
def test_a_knowledge_base_of_one_name_will_do(tmp_path, nlp):
    kb = write_kb(tmp_path / "kb.jsonl", [record("X1", "asthma", [], ["disease"])])
    assert found(loaded(str(kb)), nlp("mild asthma")) == [("asthma", "X1", "disease")]


def test_the_vectorizer_is_stored_without_pickle(tmp_path):
    """And gives the same vectors."""
    pytest.importorskip("sklearn")
    names = [name.lower() for _, first, others, _ in CONCEPTS for name in (first, *others)]
    vectorizer = scispacy_index.make_vectorizer()
    vectorizer.fit(names)
    scispacy_index.write_vectorizer(vectorizer, tmp_path)
    (path,) = tmp_path.iterdir()
    assert json.loads(path.read_text())["trigrams"]
    again = scispacy_index.read_vectorizer(tmp_path)
    texts = [*names, "chronic failure of a heart", "xqz", ""]
    assert again.vocabulary_ == vectorizer.vocabulary_
    assert (again.transform(texts) != vectorizer.transform(texts)).nnz == 0


class Planted:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return Path.touch, (self.path,)


def plant(index: Path, ran: Path) -> None:
    """Put pickles where scispaCy's own releases have them, and in place of our vectors, and sign
    the folder again, as an attacker can."""
    import joblib
    import numpy as np

    joblib.dump(Planted(ran), index / "tfidf_vectorizer.joblib")
    (index / "vectorizer.pkl").write_bytes(pickle.dumps(Planted(ran)))
    with np.load(index / scispacy_index.VECTORS) as stored:
        arrays = dict(stored)
    arrays["format"] = np.array([Planted(ran)], dtype=object)
    np.savez(index / scispacy_index.VECTORS, **arrays)
    write_manifest(index)


@needs_scispacy
def test_pickles_in_an_index_are_not_run(kb, tmp_path, nlp):
    settings = {"kb": str(kb), "index": str(tmp_path)}
    loaded(**settings)
    (index,) = tmp_path.iterdir()
    plant(index, tmp_path / "ran")
    with pytest.raises(ValueError, match="allow_pickle=False"):
        loaded(**settings)
    # Without those in place of our vectors, the others are not looked at.
    shutil.rmtree(index)
    loaded(**settings)
    joblib = pytest.importorskip("joblib")
    joblib.dump(Planted(tmp_path / "ran"), index / "tfidf_vectorizer.joblib")
    write_manifest(index)
    assert found(loaded(**settings), nlp("asthma")) == [("asthma", "C0004096", "T047")]
    assert not (tmp_path / "ran").exists()


@needs_scispacy
@pytest.mark.parametrize("place", ["masking", "mask_weights"])
def test_a_crafted_pipeline_that_names_the_linker_runs_nothing(place, kb, make_nlp, tmp_path):
    """The attack: a config that names the linker, and pickles in the index beside its `kb`."""
    settings = {"kb": str(kb), "index": str(tmp_path / "index")}
    loaded(**settings)
    (index,) = (tmp_path / "index").iterdir()
    plant(index, tmp_path / "ran")
    make_nlp().to_disk(tmp_path / "nlp")
    config = Config().from_disk(tmp_path / "nlp" / "config.cfg")
    forged = {"@misc": "spacy_mslm.scispacy_linker.v1", **settings}
    config["components"]["mslm"][place] = forged
    config.to_disk(tmp_path / "nlp" / "config.cfg")
    with pytest.raises(ValueError, match=f"The setting {place} of the mslm pipe is 'Scispacy"):
        spacy.load(tmp_path / "nlp")
    assert not (tmp_path / "ran").exists()


@needs_scispacy
def test_a_pipeline_with_a_pipe_of_scispacy_is_saved_verified_and_loaded(train_once, tmp_path):
    from scispacy.abbreviation import AbbreviationDetector  # noqa: F401 registers its factory

    nlp = train_once(60, masking={"@misc": "spacy_mslm.NoMasking.v1"})
    nlp.add_pipe("abbreviation_detector", last=True)
    safe_save(nlp, tmp_path / "nlp")
    assert not verify(str(tmp_path / "nlp")).faults
    text = "the patient had acute renal failure ( ARF ) after cisplatin ."
    docs = [pipeline(text) for pipeline in (nlp, spacy.load(tmp_path / "nlp"))]
    ents = [[(ent.text, ent.label_) for ent in doc.ents] for doc in docs]
    assert ents[0] == ents[1] and ents[0]
    assert [str(span) for span in docs[1]._.abbreviations] == ["ARF"]


# ---- bad input ----


BAD = {
    "no concept_id": ({"concept_id": None}, "concept_id"),
    "no name": ({"canonical_name": " "}, "canonical_name"),
    "aliases are a text": ({"aliases": "asthma"}, "aliases"),
    "types are numbers": ({"types": [47]}, "types"),
    "types are empty": ({"types": []}, "types"),
    "same id": ({"concept_id": "C0035078"}, "concept_id"),
}


@needs_scispacy
@pytest.mark.parametrize("field", ["concept_id", "canonical_name", "aliases", "types"])
def test_a_missing_field_is_named_with_file_and_line(tmp_path, field):
    bad = record("X1", "asthma", [], ["T047"])
    del bad[field]
    path = write_kb(tmp_path / "kb.jsonl", [record(*CONCEPTS[0]), bad])
    with pytest.raises(ValueError, match=rf"kb\.jsonl, line 2: the field {field} is missing"):
        loaded(str(path))
    assert list(tmp_path.iterdir()) == [path]


@needs_scispacy
@pytest.mark.parametrize("case", BAD)
def test_a_wrong_field_is_named_with_file_and_line(tmp_path, case):
    changes, field = BAD[case]
    bad = {**record("X1", "asthma", [], ["T047"]), **changes}
    path = write_kb(tmp_path / "kb.jsonl", [record(*CONCEPTS[0]), bad])
    with pytest.raises(ValueError, match=rf"kb\.jsonl, line 2: the field {field} is"):
        read_knowledge_base(path)


@needs_scispacy
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "holds no concept"),
        (b"\n\n", "holds no concept"),
        (b'{"concept_id": \n', "line 1: a JSON record"),
        (b"[]\n", "line 1: a JSON record"),
        (b"\n\xff\n", "line 2: not valid UTF-8"),
    ],
)
def test_a_broken_file_is_named(tmp_path, data, message):
    path = tmp_path / "kb.jsonl"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=message):
        loaded(str(path))


@needs_scispacy
def test_a_compressed_file_is_read(tmp_path):
    plain = write_kb(tmp_path / "kb.jsonl")
    path = tmp_path / "kb.jsonl.gz"
    path.write_bytes(gzip.compress(plain.read_bytes()))
    assert read_knowledge_base(path) == read_knowledge_base(plain)
    assert [entity.concept_id for entity in read_knowledge_base(path)] == [c[0] for c in CONCEPTS]


@needs_scispacy
def test_a_file_that_is_not_there_is_named():
    with pytest.raises(ValueError, match=r"no-such\.jsonl is neither a file nor .* umls"):
        loaded("no-such.jsonl")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"threshold": 1.2}, "threshold is 1.2"),
        ({"threshold": -1}, "threshold is -1"),
        ({"max_tokens": 0}, "max_tokens is 0"),
    ],
)
def test_settings_out_of_range_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        ScispacyLinker("kb.jsonl", **settings)


# ---- the extra ----


def test_scispacy_is_not_imported_before_it_is_needed():
    code = (
        "import sys, spacy_mslm.weak.annotators.scispacy_linker\n"
        "assert not {'scispacy', 'nmslib', 'sklearn'} & set(sys.modules)"
    )
    done = run_python("-c", code, fresh=True)
    assert done.returncode == 0, done.stderr


def test_what_to_install_is_said_where_scispacy_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "scispacy.abbreviation", None)
    with pytest.raises(ImportError, match=r'pip install "spacy-mslm\[weak\]"'):
        loaded("kb.jsonl")


@needs_scispacy
def test_the_clusters_have_the_types_and_names_of_scispacys_tree():
    """Uses the tree in SPACY_MSLM_UMLS_TREE, or else scispaCy's own, cached or downloaded."""
    from scispacy.linking_utils import DEFAULT_UMLS_TYPES_PATH
    from scispacy.umls_semantic_type_tree import construct_umls_tree_from_tsv

    path = os.environ.get("SPACY_MSLM_UMLS_TREE", DEFAULT_UMLS_TYPES_PATH)
    try:
        nodes = construct_umls_tree_from_tsv(path).flat_nodes
    except OSError:  # that of requests is one, too
        pytest.skip("scispaCy's tree cannot be reached, and SPACY_MSLM_UMLS_TREE names no file")
    names = {node.type_id: node.full_name for node in nodes if node.type_id != "UnknownType"}
    assert set(names) == UMLS_TYPES
    for types in srsly.read_yaml(ROOT / "assets" / "semantic_types.yml").values():
        assert {type_: names[type_] for type_ in types} == types
