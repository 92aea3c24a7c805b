"""The `mslm_context` pipe: the contexts of entities, by the rules that `test_context` tests."""

from pathlib import Path

import spacy
from spacy.language import Language
from spacy.tokens import Doc, DocBin

from spacy_mslm.util.extensions import CONTEXTS

TEXT = (
    "Denies fever but has a cough. Rule out sepsis. Mother had asthma.\n"
    "[ ] diabetes\n\nFever again."
)
NAMES = ["fever", "cough", "sepsis", "asthma", "diabetes"]
EXPECTED = [["negated"], [], ["hypothetical"], ["family"], ["template"], []]


def make_nlp(spans_key: str | None = None) -> Language:
    nlp = spacy.blank("en")
    config = {
        "phrase_matcher_attr": "LOWER",
        "spans_key": spans_key,
        "annotate_ents": not spans_key,
    }
    ruler = nlp.add_pipe("span_ruler", config=config)
    ruler.add_patterns([{"label": "X", "pattern": name} for name in NAMES])
    nlp.add_pipe("mslm_context", config={"spans_key": spans_key})
    return nlp


def contexts(spans) -> list[list[str]]:
    values = [[getattr(span._, kind) for kind in CONTEXTS] for span in spans]
    assert all(type(value) is bool for own in values for value in own)
    return [[k for k, v in zip(CONTEXTS, own, strict=True) if v] for own in values]


def test_each_entity_gets_its_contexts() -> None:
    assert contexts(make_nlp()(TEXT).ents) == EXPECTED


def test_sentences_of_another_pipe_are_used() -> None:
    nlp = make_nlp()
    assert contexts(nlp("No pain. Fever.").ents) == [[]]
    nlp.add_pipe("sentencizer", first=True, config={"punct_chars": ["!"]})
    assert contexts(nlp("No pain. Fever.").ents) == [["negated"]]


def test_spans_of_a_key_are_read_in_place_of_entities() -> None:
    doc = make_nlp("terms")(TEXT)
    assert contexts(doc.spans["terms"]) == EXPECTED and not doc.ents
    assert make_nlp("terms")("").spans["terms"] is not None
    assert spacy.blank("en")("fever")[:1]._.negated is None  # that the pipe has not read


def test_contexts_and_pipe_are_kept(tmp_path: Path) -> None:
    nlp = make_nlp()
    nlp.to_disk(tmp_path)
    again = spacy.load(tmp_path)
    docs = list(again.pipe([TEXT, "", TEXT], n_process=1))
    assert [contexts(doc.ents) for doc in docs] == [EXPECTED, [], EXPECTED]
    stored = DocBin(docs=docs, store_user_data=True).to_bytes()
    first, *_ = DocBin().from_bytes(stored).get_docs(nlp.vocab)
    assert contexts(first.ents) == EXPECTED
    assert contexts(docs[0].copy().ents) == EXPECTED


def test_with_entities_of_mslm(train_once) -> None:
    """An entity has its confidence and its contexts."""
    nlp = train_once(steps=60)
    nlp.add_pipe("mslm_context")
    doc: Doc = nlp("no history of diabetes mellitus or asthma .")
    assert [(e.text, e._.negated, e._.family) for e in doc.ents] == [
        ("diabetes mellitus", True, False),
        ("asthma", True, False),
    ]
    assert all(0 < ent._.confidence <= 1 for ent in doc.ents)
