"""Confidences belong to a span and its label, and are kept where spaCy keeps user data."""

import pytest
import spacy
from spacy.tokens import Doc, DocBin, Span

from ..commands import run_spacy
from ..conftest import TEXTS

TEXT = TEXTS[0][0]


@pytest.fixture(scope="module")
def trained(train_once):
    return train_once(90, drop=0.1)


@pytest.fixture
def doc(trained) -> Doc:
    doc = trained.make_doc(TEXT)
    doc.user_data["id"] = "note-7"
    doc = trained(doc)
    assert [ent.label_ for ent in doc.ents] == ["Disease", "Chemical"]
    return doc


def told(doc: Doc) -> list[tuple[str, str, float]]:
    return [(ent.text, ent.label_, ent._.confidence) for ent in doc.ents]


def test_an_entity_of_a_ruler_has_no_confidence_of_ours(trained, tmp_path):
    trained.to_disk(tmp_path / "model")
    nlp = spacy.load(tmp_path / "model")
    ours = told(nlp(TEXT))
    ruler = nlp.add_pipe("entity_ruler", config={"overwrite_ents": True})
    ruler.add_patterns([{"label": "Drug", "pattern": "cisplatin"}])
    assert told(nlp(TEXT)) == [ours[0], ("cisplatin", "Drug", None)]


def test_two_labels_of_the_same_words():
    doc = Doc(spacy.blank("en").vocab, words=["a", "b"])
    one, other = Span(doc, 0, 1, label="A"), Span(doc, 0, 1, label="B")
    one._.confidence, other._.confidence = 0.25, 0.75
    assert (one._.confidence, other._.confidence) == (0.25, 0.75)
    assert Span(doc, 0, 1, label="C")._.confidence is None
    assert Span(doc, 1, 2, label="A")._.confidence is None
    one._.confidence = None
    assert (one._.confidence, other._.confidence) == (None, 0.75)


def test_a_file_of_an_earlier_version_has_a_number(doc):
    start, end = doc.ents[0].start_char, doc.ents[0].end_char
    doc.user_data["._.", "confidence", start, end] = 0.5
    assert doc.ents[0]._.confidence == 0.5


def test_copies_keep_confidences_and_the_id(doc, trained):
    expected = told(doc)
    stored = DocBin(store_user_data=True, docs=[doc]).to_bytes()
    (read,) = DocBin().from_bytes(stored).get_docs(trained.vocab)
    copies = [doc.copy(), Doc(trained.vocab).from_bytes(doc.to_bytes()), read]
    copies.append(doc[:].as_doc(copy_user_data=True))
    for copy in copies:
        assert told(copy) == expected and copy.user_data["id"] == "note-7"
    json_ = doc.to_json(underscore=["confidence"])
    assert told(Doc(trained.vocab).from_json(json_)) == expected


def test_a_part_of_a_document_keeps_those_of_its_mentions(doc):
    part = doc[doc.ents[1].start - 1 :].as_doc(copy_user_data=True)
    assert told(part) == told(doc)[1:]
    merged = Doc.from_docs([part, doc])
    assert told(merged) == told(part) + told(doc)


def test_what_spacy_does_not_copy_is_unknown_and_not_that_of_other_words(doc):
    """By default, `Span.as_doc` copies no user data, and its offsets begin at 0."""
    part = doc[doc.ents[1].start :].as_doc()
    assert [(ent.text, ent._.confidence) for ent in part.ents] == [("cisplatin", None)]
    assert not part.user_data


def test_spacy_apply_keeps_confidences_and_ids(trained, doc, tmp_path):
    trained.to_disk(tmp_path / "model")
    plain = trained.make_doc(TEXT)
    plain.user_data["id"] = "note-7"
    DocBin(store_user_data=True, docs=[plain]).to_disk(tmp_path / "in.spacy")
    result = run_spacy("apply", tmp_path / "model", tmp_path / "in.spacy", tmp_path / "out.spacy")
    assert result.returncode == 0, result.stderr
    (found,) = DocBin().from_disk(tmp_path / "out.spacy").get_docs(spacy.blank("en").vocab)
    assert [entry[:2] for entry in told(found)] == [entry[:2] for entry in told(doc)]
    values = [value for *_, value in told(doc)]
    assert [value for *_, value in told(found)] == pytest.approx(values)
    assert found.user_data["id"] == "note-7"
