"""Lookup of the names of a terminology, and weakly labelled corpora."""

import gzip
import logging
import tempfile
from functools import cache
from pathlib import Path

import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.language import Language
from spacy.tokens import DocBin, Span

from spacy_mslm.corpus.weak_corpus import WeakCorpus
from spacy_mslm.text.terminology import Term, Terminology, canonical, read_terms

from ..helpers import write_terms

NLP = spacy.blank("en")
TERMS = [
    ("renal failure", "disease"),
    ("Acute Renal Failure", "disease"),
    ("asthma", "disease"),
    ("AIDS", "disease"),
    ("ALL", "disease"),
    ("aspirin", "drug"),
    ("of", "drug"),
    ("B6", "drug"),
    ("123", "drug"),
]


@pytest.fixture
def nlp() -> Language:
    return spacy.blank("en")


@pytest.fixture
def find(nlp: Language, tmp_path: Path):
    terminology = Terminology([write_terms(tmp_path / "terms.tsv", TERMS)], nlp.Defaults.stop_words)
    return lambda text: [(s.text, s.label_) for s in terminology(nlp.make_doc(text))]


def test_the_longest_name_is_taken_whatever_its_case(find):
    assert find("ACUTE renal failure, then Renal Failure.") == [
        ("ACUTE renal failure", "disease"),
        ("Renal Failure", "disease"),
    ]


def test_acronyms_are_found_as_they_are_written(find):
    assert find("it aids patients with AIDS") == [("AIDS", "disease")]


def test_names_that_mean_anything_are_not_looked_for(find):
    assert find("123 tablets of B6, ALL of them") == []


def test_names_are_not_found_inside_of_words(find):
    assert find("asthmatic, aspirinated") == []


def test_number_hyphens_possessives_and_line_breaks_do_not_matter(find):
    assert find("Aspirins for acute renal\n failures and renal-failure; his asthma's worse") == [
        ("Aspirins", "drug"),
        ("acute renal\n failures", "disease"),
        ("renal-failure", "disease"),
        ("asthma", "disease"),
    ]


def test_names_do_not_run_across_punctuation_and_paragraphs(find):
    assert find("acute renal, failure") == []
    assert find("renal. Failure to thrive. Renal\n\nFailure") == []


@pytest.mark.parametrize(
    ("singular", "plural"),
    [
        ("abscess", "abscesses"),
        ("disease", "diseases"),
        ("metastasis", "metastases"),
        ("biopsy", "biopsies"),
        ("carcinoma", "carcinomata"),
        ("arthritis", "arthritides"),
        ("reflex", "reflexes"),
        ("virus", "viruses"),
        ("drug", "drugs"),
    ],
)
def test_singular_and_plural_have_one_form(singular, plural):
    assert canonical(singular) == canonical(plural.upper())


def test_of_concepts_with_one_name_the_first_is_taken(tmp_path):
    path = tmp_path / "terms.csv"
    rows = 'term,id,semantic_type\n"cold, common",C1,T047\nCold common,C2,T184\nfevers,C3,T184\n'
    path.write_text(rows + "fever,C4,T047\n")
    terminology = Terminology([path])
    found = terminology.find("A common fever; cold, common; cold common.")
    assert [(f.concept, f.semantic_type) for f in found] == [
        ("C3", "T184"),
        ("C1", "T047"),
        ("C2", "T184"),
    ]
    assert len(terminology) == 3
    assert [f.concept for f in Terminology([path], types={"t047"}).find("cold common fever")] == [
        "C4"
    ]


def test_umls_is_read_from_its_tables(tmp_path):
    names = [
        ("C1", "ENG", "N", "Heart attack"),
        ("C1", "ENG", "N", "Myocardial infarction"),
        ("C1", "SPA", "N", "Infarto"),
        ("C1", "ENG", "O", "Old name"),
        ("C2", "ENG", "N", "Penicillins"),
        ("C3", "ENG", "N", "Untyped thing"),
    ]
    lines = [
        f"{cui}|{lang}|P|L|PF|S|Y|A||||MSH|MH|D|{name}|0|{suppress}|256|"
        for cui, lang, suppress, name in names
    ]
    (tmp_path / "MRCONSO.RRF").write_text("\n".join(lines) + "\n")
    types = ["C1|T047|B2|Disease or Syndrome|AT1|256|", "C2|T195|A1|Antibiotic|AT2|256|"]
    (tmp_path / "MRSTY.RRF").write_text("\n".join([*types, "C2|T121|A1|x|AT3|256|"]) + "\n")
    assert list(read_terms(tmp_path)) == [
        Term("Heart attack", "C1", "T047"),
        Term("Myocardial infarction", "C1", "T047"),
        Term("Penicillins", "C2", "T195"),
        Term("Penicillins", "C2", "T121"),
    ]
    (found,) = Terminology([tmp_path]).find("Given penicillin.")
    assert found == (6, 16, "C2", "T195")
    (tmp_path / "MRSTY.RRF").write_text("C1|T047|\nC2\n")
    with pytest.raises(ValueError, match=r"MRSTY\.RRF, line 2: fewer than the 2 columns"):
        list(read_terms(tmp_path))


@cache
def shared_terminology() -> Terminology:
    with tempfile.TemporaryDirectory() as folder:
        return Terminology(
            [write_terms(Path(folder) / "terms.tsv", TERMS)], NLP.Defaults.stop_words
        )


@settings(deadline=None)
@given(st.lists(st.sampled_from(["renal", "failure", "acute", "asthma", "x"]), max_size=12))
def test_spans_never_overlap_and_are_names(words):
    doc = NLP.make_doc(" ".join(words))
    spans = shared_terminology()(doc)
    tokens = [i for span in spans for i in range(span.start, span.end)]
    assert len(tokens) == len(set(tokens))
    names = {name.lower() for name, _ in TERMS}
    assert all(span.text.lower() in names for span in spans)
    assert {t for t, word in enumerate(words) if word == "asthma"} <= set(tokens)


def test_a_table_needs_its_columns(tmp_path):
    path = tmp_path / "terms.tsv"
    path.write_text("name\tsemantic_type\nasthma\tdisease\n")
    with pytest.raises(ValueError, match=r"terms\.tsv: the header has no column term\."):
        list(read_terms(path))
    with pytest.raises(ValueError, match=r"absent\.tsv: there is no such file"):
        list(read_terms(tmp_path / "absent.tsv"))


def test_broken_lines_are_named_and_left_out(tmp_path, caplog):
    path = write_terms(tmp_path / "terms.tsv", [("asthma", "disease")])
    path.write_text(path.read_text() + "secret = \taspirin\tX\tx\tdrug\n'quoted\tX\tx\tdrug\n")
    with caplog.at_level(logging.WARNING, "spacy_mslm"):
        assert list(read_terms(path)) == [
            Term("asthma", "X", "disease"),
            Term("'quoted", "X", "drug"),
        ]
    assert "1 lines" in caplog.text and "left out: 3." in caplog.text
    assert "secret" not in caplog.text


# ---- sentences ----


def read(nlp: Language, tmp_path: Path, text: str, **options) -> list:
    path = tmp_path / "text.txt"
    path.write_text(text, encoding="utf8")
    return list(
        WeakCorpus(str(path), str(write_terms(tmp_path / "terms.tsv", TERMS)), **options)(nlp)
    )


def test_sentences_with_a_term_become_examples(nlp, tmp_path):
    text = "She has asthma. She is well.\n\nNo aspirin was given.\nNothing here.\n"
    examples = read(nlp, tmp_path, text, seed=None)
    assert [eg.reference.text.strip() for eg in examples] == [
        "She has asthma.",
        "No aspirin was given.",
    ]
    assert [[(e.text, e.label_) for e in eg.reference.ents] for eg in examples] == [
        [("asthma", "disease")],
        [("aspirin", "drug")],
    ]
    assert [eg.predicted.user_data["id"] for eg in examples] == ["text.txt:1", "text.txt:3"]
    for example in examples:
        assert not example.predicted.ents
        assert all(token.ent_iob for token in example.reference)  # outside is annotated, too


def test_sentences_with_an_unsure_entity_are_left_out(nlp, tmp_path):
    """A pipe sets confidences, on documents that it wrote and on those that it reads."""
    text = "She has asthma. No aspirin was given, and no heparin. She took heparin."

    def annotate(docs):
        for doc in docs:
            spans = [doc[t.i : t.i + 1] for t in doc if t.text in ("asthma", "aspirin", "heparin")]
            doc.set_ents([Span(doc, s.start, s.end, label="x") for s in spans])
            for ent in doc.ents:
                ent._.confidence = {"asthma": 0.9, "aspirin": 0.5}.get(ent.text)
            yield doc

    (tmp_path / "text.txt").write_text(text)
    DocBin(docs=annotate([nlp(text)]), store_user_data=True).to_disk(tmp_path / "text.spacy")
    for name in ("text.txt", "text.spacy"):
        corpus = WeakCorpus(str(tmp_path / name), min_confidence=0.7)
        kept = [eg.reference.text.strip() for eg in corpus(nlp, annotate)]
        assert kept == ["She has asthma.", "She took heparin."], name
        everything = WeakCorpus(str(tmp_path / name))
        assert len(list(everything(nlp, annotate))) == 3


def test_lines_are_shuffled_the_same_way_each_time_and_limited(nlp, tmp_path):
    text = "".join(f"asthma {i}\n" for i in range(30))
    once = [eg.text for eg in read(nlp, tmp_path, text, limit=10, seed=1)]
    assert once == [eg.text for eg in read(nlp, tmp_path, text, limit=10, seed=1)]
    assert len(set(once)) == 10
    assert once != [f"asthma {i}" for i in range(10)]


def test_compressed_text_is_read_and_broken_text_is_named(nlp, tmp_path):
    terms = str(write_terms(tmp_path / "terms.tsv", TERMS))
    packed = tmp_path / "text.txt.gz"
    packed.write_bytes(gzip.compress(b"asthma\n"))
    reader = WeakCorpus([str(packed)], [terms])
    assert [eg.text for eg in reader(nlp)] == ["asthma"]
    (tmp_path / "latin.txt").write_bytes(b"asthma\nna\xefve asthma\n")
    with pytest.raises(ValueError, match=r"latin\.txt, line 2: not valid UTF-8") as caught:
        list(WeakCorpus(str(tmp_path / "latin.txt"), terms)(nlp))
    assert "asthma" not in str(caught.value)


def test_entities_of_a_pipeline_are_weak_labels_too(nlp, tmp_path):
    docs = []
    for text, entities in (
        ("She has asthma. He is well. B cell lymphoma. No aspirin.", [(8, 14), (28, 43), (48, 55)]),
        ("Nothing here.", []),
    ):
        doc = nlp.make_doc(text)
        doc.set_ents([doc.char_span(*entity, label="X") for entity in entities])
        docs.append(doc)
    (tmp_path / "weak").mkdir()
    DocBin(docs=docs).to_disk(tmp_path / "weak" / "some.spacy")
    for source in (tmp_path / "weak", tmp_path / "weak" / "some.spacy"):
        examples = list(WeakCorpus(str(source), seed=None)(nlp))
        assert [[ent.text for ent in eg.reference.ents] for eg in examples] == [
            ["asthma"],
            ["B cell lymphoma"],
            ["aspirin"],
        ]
        assert not any(eg.predicted.ents for eg in examples)
        assert {eg.predicted.user_data["id"] for eg in examples} == {"some.spacy:0"}


def test_no_sentence_is_cut_within_an_entity(nlp, tmp_path):
    doc = nlp.make_doc("Seen by Dr. Who. Then home.")
    doc[0].is_sent_start = True
    for token in doc[1:]:
        token.is_sent_start = token.text in ("Who", "Then")
    doc.set_ents([doc.char_span(8, 15, label="X")])
    DocBin(docs=[doc]).to_disk(tmp_path / "weak.spacy")
    (example,) = WeakCorpus(str(tmp_path / "weak.spacy"))(nlp)
    assert example.reference.text.strip() == "Seen by Dr. Who."


def test_plain_text_without_terms_is_left_to_others(nlp, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("She has asthma. She is well.\n", encoding="utf8")
    corpus = WeakCorpus(str(path))
    assert corpus and corpus.needs_labels
    assert not WeakCorpus(str(path), str(write_terms(tmp_path / "terms.tsv", TERMS))).needs_labels
    DocBin().to_disk(tmp_path / "weak.spacy")
    assert not WeakCorpus(str(tmp_path / "weak.spacy")).needs_labels
    with pytest.raises(ValueError, match=r"tables of terms"):
        list(corpus(nlp))

    def annotate(docs):
        for doc in docs:
            doc.set_ents([Span(doc, 2, 3, label="X")] if doc[2].text == "asthma" else [])
            yield doc

    (example,) = corpus(nlp, annotate)
    assert [(e.text, e.label_) for e in example.reference.ents] == [("asthma", "X")]
    assert example.predicted.user_data["id"] == "text.txt:1"


def test_no_text_is_no_corpus():
    assert not WeakCorpus(None)
    assert not WeakCorpus(None).needs_labels
    with pytest.raises(ValueError, match="there is no such file"):
        WeakCorpus("text.txt")
