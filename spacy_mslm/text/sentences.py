"""Sentence boundaries, at which windows are cut and corpora are split into sentences."""

from collections import deque
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from spacy.attrs import IS_PUNCT, IS_SPACE, ORTH, SENT_START
from spacy.pipeline import Sentencizer
from spacy.strings import get_string_id
from spacy.tokens import Doc, Span

_FINALS = {get_string_id(sign) for sign in Sentencizer.default_punct_chars}


def sentence_starts(doc: Doc) -> np.ndarray:
    """Return the index of each sentence's first token, including 0: an array (sentences,).

    These are the Doc's own sentences if a component has set them. Otherwise a sentence starts after
    final punctuation, by spaCy's rule, but not before a lower-case word or a number ("vs. placebo",
    "0 . 05"): joining two sentences costs little, splitting one may cost a mention. A blank line
    always ends a sentence, a line break does not.
    """
    if doc.has_annotation("SENT_START"):
        found = np.flatnonzero(doc.to_array(SENT_START) == 1)
    else:
        found = np.array(_guesses(doc), dtype=np.int64)
    inner = found[(found > 0) & (found < len(doc))]
    return np.concatenate([[0][: len(doc)], np.unique(inner)]).astype(np.int64)


def _guesses(doc: Doc) -> list[int]:
    """Return where sentences start by rule."""
    orths, is_punct, is_space = doc.to_array([ORTH, IS_PUNCT, IS_SPACE]).reshape(-1, 3).T
    # For the few tokens of most documents, np.isin takes several times as long.
    finals = np.array([orth in _FINALS for orth in orths.tolist()], dtype=bool)
    # As in spaCy's Sentencizer: the first word after final and any other punctuation.
    words = np.flatnonzero(~finals & (is_punct == 0))
    closed = np.cumsum(finals)[words]
    starts = words[np.diff(closed, prepend=0) > 0].tolist()
    starts = [i for i in starts if _may_start(doc[i].text[0])]
    breaks = np.flatnonzero(is_space).tolist()
    return starts + [i + 1 for i in breaks if doc[i].text.count("\n") > 1]


def sentence_spans(doc: Doc) -> Iterator[Span]:
    """Yield the sentences of a Doc. No entity is split: its sentences are joined."""
    inside = {token.i for ent in doc.ents for token in ent[1:]}
    starts = [start for start in sentence_starts(doc).tolist() if start not in inside]
    for start, end in pairwise([*starts, len(doc)]):
        yield doc[start:end]


def sentence_docs(doc: Doc) -> Iterator[Doc]:
    """Yield the sentences of a Doc as Docs, with their entities and the id of the Doc.

    `Span.as_doc` is not used, as it loops over all entities of the Doc for each sentence.
    """
    annotated = doc.has_annotation("ENT_IOB")
    ents = deque(doc.ents)
    for span in sentence_spans(doc):
        words, spaces = [t.text for t in span], [bool(t.whitespace_) for t in span]
        sentence = Doc(doc.vocab, words=words, spaces=spaces)
        found = []
        while ents and ents[0].start < span.end:
            ent = ents.popleft()
            start, end = ent.start - span.start, ent.end - span.start
            found.append(Span(sentence, start, end, label=ent.label, kb_id=ent.kb_id))
        if annotated:
            sentence.set_ents(found, default="outside")
        sentence.user_data["id"] = doc.user_data["id"]
        yield sentence


def _may_start(character: str) -> bool:
    return not (character.islower() or character.isdigit())
