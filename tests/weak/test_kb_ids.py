"""scispaCy's abbreviation detector and linker behind the `mslm` pipe, and the ids of concepts."""

import importlib
from importlib.util import find_spec
from pathlib import Path

import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc, Span

from spacy_mslm.model.optimizer import make_adamw
from spacy_mslm.pipeline.saving import safe_save

from ..conftest import TEXTS, make_examples
from .test_scispacy import needs_scispacy, write_kb


def record(concept: str, name: str, aliases: list[str]) -> dict:
    record = {"concept_id": concept, "canonical_name": name, "aliases": aliases}
    return {**record, "types": ["T047"], "definition": None}


CONCEPTS = [
    record("C0022660", "Acute renal failure", ["acute kidney failure"]),
    record("C0011849", "Diabetes mellitus", []),
    record("C0004096", "Asthma", ["bronchial asthma"]),
    record("C0008838", "Cisplatin", ["platinum diamminodichloride"]),
    record("C0004057", "Aspirin", ["acetylsalicylic acid"]),
    record("C1", "Heparin", []),
    record("C2", "heparin sodium", ["heparin"]),
]


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_kb(tmp_path_factory.mktemp("kb") / "kb.jsonl", CONCEPTS)


@pytest.fixture
def linked(make_nlp, kb: Path) -> Language:
    nlp = make_nlp()
    optimizer = make_adamw(1e-3, 1e-2)
    for _ in range(60):
        nlp.update(make_examples(nlp), sgd=optimizer)
    add_linker(nlp, kb)
    return nlp


def add_linker(nlp: Language, kb: Path) -> None:
    # These register the pipes: scispaCy has no entry points.
    importlib.import_module("scispacy.abbreviation")
    importlib.import_module("scispacy.linking")
    nlp.add_pipe("abbreviation_detector")
    candidates = {"@misc": "spacy_mslm.LocalCandidates.v1", "kb": str(kb)}
    linker = {"candidate_generator": candidates, "filter_for_definitions": False}
    nlp.add_pipe("scispacy_linker", config=linker)
    nlp.add_pipe("mslm_kb_ids")


def ids(doc: Doc) -> list[tuple[str, str]]:
    return [(ent.text, ent.kb_id_) for ent in doc.ents]


EXPECTED = [
    [("acute renal failure", "C0022660"), ("cisplatin", "C0008838")],
    [("diabetes mellitus", "C0011849"), ("asthma", "C0004096")],
    # Two concepts have the name heparin.
    [("aspirin", "C0004057"), ("heparin", "")],
    [],
]


@needs_scispacy
def test_entities_get_the_ids_of_their_concepts(linked: Language, tmp_path: Path) -> None:
    docs = list(linked.pipe([text for text, _ in TEXTS]))
    assert [ids(doc) for doc in docs] == EXPECTED
    assert {concept for concept, _ in docs[2].ents[1]._.kb_ents} == {"C1", "C2"}
    for doc in docs:
        for ent in doc.ents:
            assert 0 < ent._.confidence <= 1 and ent.label_ in ("Chemical", "Disease")
    safe_save(linked, tmp_path / "model")
    loaded = spacy.load(tmp_path / "model")
    assert [ids(loaded(text)) for text, _ in TEXTS] == EXPECTED


@needs_scispacy
def test_an_abbreviation_gets_the_id_of_its_long_form(kb: Path) -> None:
    nlp = spacy.blank("en")
    ruler = nlp.add_pipe("entity_ruler")
    ruler.add_patterns([{"label": "Disease", "pattern": "ARF"}])
    add_linker(nlp, kb)
    doc = nlp("He had acute renal failure (ARF). Later the ARF was better. No BRF.")
    assert ids(doc) == [("ARF", "C0022660"), ("ARF", "C0022660")]
    assert ids(nlp("The ARF was better.")) == [("ARF", "")]


@needs_scispacy
def test_nothing_is_read_before_a_document_comes(tmp_path: Path) -> None:
    nlp = spacy.blank("en")
    add_linker(nlp, tmp_path / "none.jsonl")
    with pytest.raises(ValueError, match=r"none\.jsonl is neither a file nor a release"):
        nlp.add_pipe("entity_ruler", first=True).add_patterns([{"label": "X", "pattern": "x"}])
        nlp("x")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(find_spec("scispacy") is not None, reason="scispaCy is installed")
def test_the_message_without_scispacy() -> None:
    candidates = spacy.registry.misc.get("spacy_mslm.LocalCandidates.v1")
    with pytest.raises(ImportError, match=r'pip install "spacy-mslm\[weak\]"'):
        candidates("kb.jsonl")


# ---- without scispaCy: its attribute is enough ----


@pytest.fixture
def kb_ents():
    if not Span.has_extension("kb_ents"):
        Span.set_extension("kb_ents", default=[])
        yield
        Span.remove_extension("kb_ents")
    else:
        yield


def with_candidates(*candidates: tuple[str, float], threshold: float = 0.85) -> Span:
    nlp = spacy.blank("en")
    nlp.add_pipe("mslm_kb_ids", config={"threshold": threshold})
    doc = nlp.make_doc("a b c")
    doc.set_ents([Span(doc, 1, 3, "X", kb_id="old", span_id="id")])
    doc.ents[0]._.kb_ents = list(candidates)
    (ent,) = nlp(doc).ents
    assert (ent.start, ent.end, ent.label_, ent.id_) == (1, 3, "X", "id")
    return ent


def test_the_best_candidate_above_the_threshold(kb_ents) -> None:
    assert with_candidates(("C1", 0.86), ("C2", 0.9)).kb_id_ == "C2"
    assert with_candidates(("C1", 0.84)).kb_id_ == "old"
    assert with_candidates(("C1", 0.84), threshold=0.8).kb_id_ == "C1"
    assert with_candidates(("C1", 0.9), ("C2", 0.9)).kb_id_ == "old"
    assert with_candidates().kb_id_ == "old"


def test_a_pipeline_without_a_linker_is_an_error() -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("mslm_kb_ids")
    if not Span.has_extension("kb_ents"):
        with pytest.raises(ValueError, match="copies what a linker has found"):
            nlp("a b c")
    with pytest.raises(ValueError, match=r"mslm_kb_ids\.threshold is 2"):
        nlp.add_pipe("mslm_kb_ids", name="other", config={"threshold": 2})
