"""Docs -> pieces: the alignment is exact in both directions for every input."""

import copy
import pickle

import numpy as np
import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc
from transformers import AutoTokenizer

from spacy_mslm.model.checkpoints import load_checkpoint
from spacy_mslm.pieces.wordpieces import Wordpieces

NLP = spacy.blank("en")


@pytest.fixture(scope="module")
def wordpieces(encoder) -> Wordpieces:
    return load_checkpoint(str(encoder))[1]


def assert_aligned(doc: Doc, pieces) -> None:
    assert len(pieces.words) == len(doc)
    assert len(pieces.starts) == len(doc) + 1
    assert (np.diff(pieces.token_of) >= 0).all()
    for i, token in enumerate(doc):
        own = np.flatnonzero(pieces.token_of == i)
        assert own.tolist() == list(range(pieces.starts[i], pieces.starts[i + 1]))
        if token.is_space:
            assert not len(own)
    assert pieces.starts[0] == 0 and pieces.starts[-1] == len(pieces.ids)
    assert pieces.tagged.tolist() == sorted(set(pieces.token_of.tolist()))


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), max_size=12))
def test_alignment_is_exact_on_arbitrary_tokens(wordpieces, words):
    doc = Doc(NLP.vocab, words=words)
    assert_aligned(doc, wordpieces([doc])[0])


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_alignment_is_exact_on_arbitrary_text(wordpieces, text):
    doc = NLP.make_doc(text)
    assert_aligned(doc, wordpieces([doc])[0])


@given(st.lists(st.sampled_from(["renal", "failure", "cisplatin", "a", "mellitus"]), max_size=8))
def test_pieces_of_a_document_are_those_of_its_words(wordpieces, words):
    """Documents of a batch do not touch each other, nor do words of a document."""
    doc = Doc(NLP.vocab, words=words)
    alone = [wordpieces([Doc(NLP.vocab, words=[word])])[0].ids.tolist() for word in words]
    together = wordpieces([doc, Doc(NLP.vocab, words=["asthma"])])[0]
    assert together.ids.tolist() == [i for ids in alone for i in ids]


def test_words_are_split_once_and_not_remembered_for_ever(encoder, monkeypatch):
    texts = ["acute renal failure .", "renal asthma of the patient", "cisplatin cisplatin ."]
    docs = [NLP.make_doc(text) for text in texts]
    fresh = load_checkpoint(str(encoder))[1]
    expected = [pieces.ids.tolist() for pieces in fresh(docs)]
    first = [dict(known) for known in fresh._known]
    assert [pieces.ids.tolist() for pieces in fresh(docs)] == expected
    assert fresh._known == tuple(first) and sum(map(len, first)) >= 9
    monkeypatch.setattr("spacy_mslm.pieces.wordpieces.WORDS_KNOWN", 2)
    small = load_checkpoint(str(encoder))[1]
    for _ in range(2):
        assert [small([doc])[0].ids.tolist() for doc in docs] == expected
        assert all(len(known) <= 2 for known in small._known)


def test_pieces_equal_the_checkpoints_own_tokenizer(wordpieces, encoder):
    text = "no history of diabetes mellitus or acute renal failure ."
    expected = AutoTokenizer.from_pretrained(encoder)(text)["input_ids"]
    ids = wordpieces([NLP.make_doc(text)])[0].ids.tolist()
    assert [*wordpieces.prefix, *ids, *wordpieces.suffix] == expected


@pytest.mark.parametrize("literal", ["[MASK]", "[SEP]", "[CLS]", "[PAD]"])
def test_special_pieces_in_a_note_are_plain_text(wordpieces, literal):
    doc = Doc(NLP.vocab, words=["had", literal, "."])
    special = {wordpieces.mask, wordpieces.pad, *wordpieces.prefix, *wordpieces.suffix}
    for again in (wordpieces, pickle.loads(pickle.dumps(wordpieces)), copy.deepcopy(wordpieces)):
        pieces = again([doc])[0]
        assert not special & set(pieces.ids.tolist())
        assert pieces.starts[2] - pieces.starts[1] >= 1


def test_tokens_without_pieces_and_emoji(wordpieces):
    words = ["the", "\u200b", "\x00", "😀", "😀", "\n", "\u00ad", "clinic"]
    pieces = wordpieces([Doc(NLP.vocab, words=words)])[0]
    counts = np.diff(pieces.starts)
    # Adjacent emoji have an unknown piece each; invisible characters have none.
    assert counts.tolist() == [1, 0, 0, 1, 1, 0, 0, 1]


def test_a_very_long_token_is_one_unknown_piece(wordpieces):
    """WordPiece's own limit of 100 characters, documented in Wordpieces.__call__."""
    pieces = wordpieces([Doc(NLP.vocab, words=["a" * 5000, "clinic"])])[0]
    assert np.diff(pieces.starts).tolist() == [1, 1]


def test_json_round_trip(wordpieces):
    again = Wordpieces.from_json(wordpieces.to_json())
    doc = NLP.make_doc("cisplatin [MASK] failure")
    assert again([doc])[0].ids.tolist() == wordpieces([doc])[0].ids.tolist()
    assert vars(again).keys() == vars(wordpieces).keys()
    with pytest.raises(ValueError, match="Save the pipeline again"):
        Wordpieces.from_json("{}")
