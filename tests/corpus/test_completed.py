"""Corpora whose missing types are labelled by pipelines: here, patterns of an entity ruler."""

from pathlib import Path

import pytest
import spacy
from spacy.training import Example

from spacy_mslm.corpus.completed import CompletedCorpus, entity_labels
from spacy_mslm.util.extensions import annotated_labels, set_annotated_labels

TEXT = "renal failure and asthma after aspirin"


def ruler(folder: Path, **patterns: str) -> str:
    nlp = spacy.blank("en")
    rules = [{"label": label, "pattern": pattern} for label, pattern in patterns.items()]
    nlp.add_pipe("entity_ruler").add_patterns(rules)
    nlp.to_disk(folder)
    return str(folder)


@pytest.fixture()
def models(tmp_path) -> list[str]:
    drugs = ruler(tmp_path / "drugs", Chemical="aspirin", Disease="failure")
    return [drugs, ruler(tmp_path / "organs", Organ="renal", Chemical="asthma")]


def diseases(marked: bool = True):
    def read(nlp):
        example = Example.from_dict(
            nlp.make_doc(TEXT), {"entities": [(0, 13, "Disease"), (18, 24, "Disease")]}
        )
        if marked:
            set_annotated_labels(example.reference, ["Disease"])
        yield example

    return read


def read(corpus) -> tuple[list[tuple[str, str]], set[str] | None]:
    (example,) = corpus(spacy.blank("en"))
    doc = example.reference
    return [(ent.text, ent.label_) for ent in doc.ents], annotated_labels(doc)


def test_missing_types_are_labelled_in_order(models):
    expected = [("renal failure", "Disease"), ("asthma", "Disease"), ("aspirin", "Chemical")]
    corpus = CompletedCorpus(diseases(), models)
    assert read(corpus) == (expected, {"Disease", "Chemical", "Organ"})
    assert read(corpus) == (expected, {"Disease", "Chemical", "Organ"})  # from memory
    # The corpus annotates diseases: the pattern for them adds none.
    assert read(CompletedCorpus(diseases(), models[0]))[1] == {"Disease", "Chemical"}


def test_complete_documents_are_not_changed(models):
    assert read(CompletedCorpus(diseases(marked=False), models)) == (
        [("renal failure", "Disease"), ("asthma", "Disease")],
        None,
    )


def test_labels_are_those_of_the_pipes_that_set_entities():
    nlp = spacy.blank("en")
    nlp.add_pipe("span_ruler").add_patterns([{"label": "Other", "pattern": "aspirin"}])
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "Drug", "pattern": "aspirin"}])
    assert entity_labels(nlp) == {"Drug"}


def test_unsure_entities_are_not_annotated(make_nlp, tmp_path):
    nlp = make_nlp()
    nlp.to_disk(tmp_path / "model")

    def genes(blank):
        example = Example.from_dict(blank.make_doc(TEXT), {"entities": []})
        set_annotated_labels(example.reference, ["Gene"])
        yield example

    sure, unsure = (
        next(iter(CompletedCorpus(genes, str(tmp_path / "model"), value)(spacy.blank("en"))))
        for value in (0.0, 0.99)
    )
    found = {token.i for ent in sure.reference.ents for token in ent}
    assert found and not unsure.reference.ents
    assert {token.i for token in unsure.reference if token.ent_iob_ == ""} == found
