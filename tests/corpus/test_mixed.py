"""Several corpora that annotate different types: marks, renaming, mixing."""

from collections import Counter
from pathlib import Path

import pytest
import spacy
from spacy.tokens import DocBin

from spacy_mslm.corpus.mixed import MixedCorpus, PartialCorpus
from spacy_mslm.corpus.weak_corpus import WeakCorpus
from spacy_mslm.util.extensions import annotated_labels, set_annotated_labels

from ..helpers import TRAIN, write_iob

GENES = ["IL-2/B-DNA gene/I-DNA of/O mice/O", "p53/B-protein and/O IL-2/B-protein ./O"] * 2


@pytest.fixture()
def genes(tmp_path) -> Path:
    write_iob(tmp_path / "genes.tsv", GENES)
    return tmp_path / "genes.tsv"


@pytest.fixture()
def clinical(tmp_path) -> Path:
    write_iob(tmp_path / "clinical.tsv", TRAIN)
    return tmp_path / "clinical.tsv"


def read(corpus) -> list[tuple[list[tuple[str, str]], set[str]]]:
    """The mentions and the annotated types of each document."""
    docs = [example.reference for example in corpus(spacy.blank("en"))]
    return [
        ([(e.text, e.label_) for e in doc.ents], set(annotated_labels(doc) or ())) for doc in docs
    ]


def test_all_types_of_the_corpus_are_annotated_by_default(clinical):
    found = read(PartialCorpus(clinical))
    assert all(annotated == {"Disease", "Chemical"} for _, annotated in found)
    assert found[1][0] == [("aspirin", "Chemical"), ("heparin", "Chemical")]
    # The limit does not change the types: the first document has diseases only.
    assert read(PartialCorpus(clinical, limit=1)) == found[:1]


def test_other_types_are_left_out_and_unknown(clinical):
    found = read(PartialCorpus(clinical, annotates=["Chemical"]))
    assert all(annotated == {"Chemical"} for _, annotated in found)
    assert {label for mentions, _ in found for _, label in mentions} == {"Chemical"}
    (doc, *_) = (e.reference for e in PartialCorpus(clinical, ["Chemical"])(spacy.blank("en")))
    assert [token.ent_iob_ for token in doc] == ["O"] * len(doc)


def test_labels_are_renamed(genes):
    found = read(PartialCorpus(genes, labels={"protein": "Gene", "DNA": "Gene"}))
    assert found[0] == ([("IL-2 gene", "Gene")], {"Gene"})
    assert found[1] == ([("p53", "Gene"), ("IL-2", "Gene")], {"Gene"})


def test_a_wrong_name_is_an_error(genes):
    with pytest.raises(ValueError, match=r"said to annotate Protein, but .* mentions of protein"):
        read(PartialCorpus(genes, annotates=["Protein", "DNA"]))
    # A type without mentions is no mistake if nothing is left out.
    assert read(PartialCorpus(genes, annotates=["protein", "DNA", "RNA"]))[0][1] >= {"RNA"}


def test_marks_of_documents_are_kept(tmp_path):
    nlp = spacy.blank("en")
    docs = [nlp("asthma and aspirin"), nlp("asthma")]
    for doc in docs:
        doc.set_ents([spacy.tokens.Span(doc, 0, 1, label="disease")])
    set_annotated_labels(docs[1], ["disease", "drug"])
    DocBin(docs=docs, store_user_data=True).to_disk(tmp_path / "x.spacy")
    corpus = PartialCorpus(tmp_path / "x.spacy", labels={"disease": "Disease"})
    assert [annotated for _, annotated in read(corpus)] == [{"Disease"}, {"Disease", "drug"}]


def test_spans_are_renamed_and_left_out(tmp_path):
    nlp = spacy.blank("en")
    doc = nlp("acute renal failure")
    doc.spans["sc"] = [doc.char_span(0, 19, label="DIS"), doc.char_span(6, 11, label="ORG")]
    DocBin(docs=[doc], store_user_data=True).to_disk(tmp_path / "x.spacy")

    def spans(**settings) -> list[tuple[str, str]]:
        (example,) = PartialCorpus(tmp_path / "x.spacy", **settings)(nlp)
        return [(span.text, span.label_) for span in example.reference.spans["sc"]]

    renamed = {"DIS": "Disease"}
    assert spans(labels=renamed) == [("acute renal failure", "Disease"), ("renal", "ORG")]
    assert spans(annotates=["Disease"], labels=renamed) == [("acute renal failure", "Disease")]


def test_mixing_with_weights(genes, clinical):
    corpora = {"genes": PartialCorpus(genes), "clinical": PartialCorpus(clinical)}

    def counts(**settings) -> Counter:
        mixed = MixedCorpus(corpora, **settings)
        return Counter("DNA" in annotated for _, annotated in read(mixed))

    assert counts() == {True: 4, False: 5}
    assert counts(weights={"genes": 2.5, "clinical": 0.4}) == {True: 10, False: 2}
    in_order = [annotated for _, annotated in read(MixedCorpus(corpora, seed=None))]
    assert in_order == [{"DNA", "protein"}] * 4 + [{"Chemical", "Disease"}] * 5
    first, again = (read(MixedCorpus(corpora, seed=1)) for _ in range(2))
    assert first == again != read(MixedCorpus(corpora, seed=2))


def test_wrong_weights_are_errors(genes):
    corpora = {"genes": PartialCorpus(genes)}
    with pytest.raises(ValueError, match="weights names gene, but the corpora are genes"):
        MixedCorpus(corpora, weights={"gene": 2})
    with pytest.raises(ValueError, match="weight of genes must be greater than 0"):
        MixedCorpus(corpora, weights={"genes": 0})
    with pytest.raises(ValueError, match="the corpora are none"):
        MixedCorpus({})


def test_sentences_of_a_weak_corpus_keep_the_mark(tmp_path):
    nlp = spacy.blank("en")
    doc = nlp("he had asthma .")
    doc.set_ents([spacy.tokens.Span(doc, 2, 3, label="Disease")])
    set_annotated_labels(doc, ["Disease"])
    DocBin(docs=[doc], store_user_data=True).to_disk(tmp_path / "x.spacy")
    (example,) = WeakCorpus(str(tmp_path / "x.spacy"))(nlp)
    assert annotated_labels(example.reference) == {"Disease"}
