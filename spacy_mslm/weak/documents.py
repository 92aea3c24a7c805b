"""Notes -> documents: tokens and sentences, and the marks that de-identification has left.

MIMIC's notes have such marks in place of names, dates and places:

    Seen by Dr. [**Last Name (STitle) 1234**] on [**2101-1-3**] for asthma.

They are no terms, whatever is written in them, and no sentence ends inside of one.
"""

import re
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import spacy
from spacy.language import Language
from spacy.tokens import Doc

from ..text.sentences import sentence_starts
from .notes import Note

# Marks of at most so many characters: one that does not close must not hide the rest of a note.
_MARK = re.compile(r"\[\*\*.{0,200}?\*\*\]", re.DOTALL)
_PARAGRAPH = re.compile(r"\n[ \t\r]*\n\s*")

Segmenter = Callable[[Doc], np.ndarray]


def marks(text: str) -> list[tuple[int, int]]:
    """Characters `start:end` of the marks of de-identification."""
    return [match.span() for match in _MARK.finditer(text)]


def make_rule_sentences() -> Segmenter:
    """`spacy_mslm.RuleSentences.v1`: spaCy's sentencizer, with the exceptions of `sentences`."""
    return sentence_starts


def make_pysbd_sentences() -> Segmenter:
    """`spacy_mslm.PysbdSentences.v1`: pySBD, which scispaCy uses, too: knows more abbreviations,
    and is slower. It reads a paragraph at a time, so that a long note takes no longer a word."""
    try:
        import pysbd
    except ImportError as err:
        raise ImportError(
            "Sentences by pySBD need the package pysbd. Install it with 'pip install "
            '"spacy-mslm[weak]"\', or take spacy_mslm.RuleSentences.v1.'
        ) from err
    segmenter = pysbd.Segmenter(language="en", clean=False, char_span=True)

    def starts(doc: Doc) -> np.ndarray:
        characters = {0}
        begin = 0
        for gap in [*_PARAGRAPH.finditer(doc.text), None]:
            end = gap.start() if gap else len(doc.text)
            characters |= {begin + span.start for span in segmenter.segment(doc.text[begin:end])}
            begin = gap.end() if gap else end
        offsets = np.array([token.idx for token in doc], dtype=np.int64)
        found = np.searchsorted(offsets, sorted(characters))
        return np.unique(found[found < len(doc)])

    return starts


class Documents:
    """Makes documents of notes, always with the same tokenizer and segmenter."""

    def __init__(self, lang: str, segmenter: Segmenter) -> None:
        config = {"nlp": {"tokenizer": {"@tokenizers": "spacy_mslm.Tokenizer.v1"}}}
        self.nlp: Language = spacy.blank(lang, config=config)
        self._segmenter = segmenter

    def __call__(self, note: Note) -> Doc:
        """A document whose sentences are set, and whose id is the note's."""
        doc = self.nlp.tokenizer(note.text)
        doc.user_data["id"] = note.id
        spans = (doc.char_span(*mark, alignment_mode="expand") for mark in marks(note.text))
        hidden = {token.i for span in spans if span is not None for token in span[1:]}
        # All at once: a token's own setter goes through the whole document each time.
        starts = np.full(len(doc), -1, dtype=np.int64)
        starts[[start for start in self._segmenter(doc) if start not in hidden]] = 1
        # The annotation of `from_array` knows no unsigned integers, which it takes.
        return doc.from_array(["SENT_START"], cast(Any, starts.astype(np.uint64)[:, None]))
