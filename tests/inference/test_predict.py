"""Entities of long documents: read in parts, found as a whole."""

import numpy as np
import pytest

from spacy_mslm.inference import predict as prediction
from spacy_mslm.types import BIO

from ..conftest import TEXTS

SENTENCES = [text for text, _ in TEXTS]


@pytest.fixture(scope="module")
def docs_of():
    """Long documents, one of them with a word of a hundred pieces; and a short and an empty one."""
    texts = [
        " ".join(SENTENCES * 6),
        f"{' '.join(SENTENCES)} {'a' * 99} {SENTENCES[0]}",
        SENTENCES[0],
        "",
        " ".join(SENTENCES[::-1] * 5),
    ]
    return lambda nlp: [nlp.make_doc(text) for text in texts]


def trained(train_once, steps: int = 60, **model: object):
    return train_once(steps, masking={"@misc": "spacy_mslm.NoMasking.v1"}, model=model)


@pytest.mark.parametrize("split_sentences", [True, False])
@pytest.mark.parametrize("size", [1, 7, 25, 60])
def test_parts_make_no_difference(train_once, docs_of, monkeypatch, split_sentences, size):
    nlp = trained(train_once, split_sentences=split_sentences)
    pipe = nlp.get_pipe("mslm")
    whole = pipe.predict(docs_of(nlp))
    assert sum(len(found.entities) for found in whole) > 40
    monkeypatch.setattr(prediction, "GROUP_PIECES", size)
    documents = pipe.model.shims[0].wordpieces(docs_of(nlp))
    assert len(list(prediction._groups(pipe.windows, documents))) > 5
    for expected, found in zip(whole, pipe.predict(docs_of(nlp)), strict=True):
        assert [e[:3] for e in found.entities] == [e[:3] for e in expected.entities]
        confidences = [e.confidence for e in expected.entities]
        assert [e.confidence for e in found.entities] == pytest.approx(confidences, abs=1e-4)
        assert found.bio == pytest.approx(expected.bio, abs=1e-4)


def test_parts_of_a_pipe_that_is_sure_of_nothing(train_once, docs_of, monkeypatch):
    nlp = trained(train_once, steps=1)
    monkeypatch.setattr(prediction, "GROUP_PIECES", 10)
    docs = docs_of(nlp)
    for doc, found in zip(docs, nlp.get_pipe("mslm").predict(docs), strict=True):
        assert found.bio.shape == (len(doc), len(BIO))
        assert np.allclose(found.bio.sum(axis=1), 1)
        ends = [0, *(e.end for e in found.entities)]
        assert all(e.start >= end for e, end in zip(found.entities, ends, strict=False))


def test_what_is_kept_of_a_document_does_not_grow_with_it(train_once, monkeypatch):
    nlp = trained(train_once)
    monkeypatch.setattr(prediction, "GROUP_PIECES", 60)
    kept = []
    find = prediction._find_entities

    def watched(network, documents, group, reads, *rest):
        kept.append(sum(len(read.vectors) for read in reads))
        return find(network, documents, group, reads, *rest)

    monkeypatch.setattr(prediction, "_find_entities", watched)
    nlp(" ".join(SENTENCES * 20))
    assert len(kept) > 10 and max(kept) <= 2 * 60
