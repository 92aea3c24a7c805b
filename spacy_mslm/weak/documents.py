"""Tokenisation and sentence boundaries of notes, with regard to marks of de-identification.

MIMIC's notes have such marks in place of names, dates and places:

    Seen by Dr. [**Last Name (STitle) 1234**] on [**2101-1-3**] for asthma.

Their content is never labelled, and no sentence ends inside one.
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

# The length of a mark is limited: one that is not closed must not hide the rest of a note.
_MARK = re.compile(r"\[\*\*.{0,200}?\*\*\]", re.DOTALL)
_PARAGRAPH = re.compile(r"\n[ \t\r]*\n\s*")

Segmenter = Callable[[Doc], np.ndarray]


def marks(text: str) -> list[tuple[int, int]]:
    """Return the character ranges of the marks of de-identification."""
    return [match.span() for match in _MARK.finditer(text)]


def make_rule_sentences() -> Segmenter:
    """Create `spacy_mslm.RuleSentences.v1`, the rules of `text.sentences.sentence_starts`."""
    return sentence_starts


def make_pysbd_sentences() -> Segmenter:
    """Create `spacy_mslm.PysbdSentences.v1`: pySBD, which knows more abbreviations and is slower.
    It segments each paragraph alone, so its run time is linear in the length of a note."""
    try:
        import pysbd
    except ImportError as err:
        raise ImportError(
            f"Sentences by pySBD need pysbd ({err}). Install it with 'pip install "
            '"spacy-mslm[weak]"\', or use spacy_mslm.RuleSentences.v1.'
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
    """Converts notes to Docs.

    lang: Language code of the tokenizer.
    segmenter: Returns the index of the first token of each sentence.
    """

    def __init__(self, lang: str, segmenter: Segmenter) -> None:
        config = {"nlp": {"tokenizer": {"@tokenizers": "spacy_mslm.Tokenizer.v1"}}}
        self.nlp: Language = spacy.blank(lang, config=config)
        self._segmenter = segmenter

    def __call__(self, note: Note) -> Doc:
        """Return a Doc with sentence boundaries and the note's id."""
        doc = self.nlp.tokenizer(note.text)
        doc.user_data["id"] = note.id
        spans = (doc.char_span(*mark, alignment_mode="expand") for mark in marks(note.text))
        hidden = {token.i for span in spans if span is not None for token in span[1:]}
        # All at once: the setter of a token loops over the whole Doc each time.
        starts = np.full(len(doc), -1, dtype=np.int64)
        starts[[start for start in self._segmenter(doc) if start not in hidden]] = 1
        # `from_array` takes unsigned integers, but its type annotation does not allow them.
        return doc.from_array(["SENT_START"], cast(Any, starts.astype(np.uint64)[:, None]))
