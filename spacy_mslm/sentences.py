"""Where sentences start: windows are cut there (see `windows`)."""

import numpy as np
from spacy.pipeline import Sentencizer
from spacy.tokens import Doc

_SENTENCIZER = Sentencizer()


def sentence_starts(doc: Doc) -> np.ndarray:
    """(sentences,) index of each sentence's first token, 0 included.

    A Doc's own sentences where a component has set them. Else spaCy's rule, a new sentence after
    final punctuation, but not before a lower-case word or a number ("vs. placebo", "0 . 05"): two
    sentences in one window cost little, one sentence in two windows may cost a mention. A blank
    line always ends one, a line break does not.
    """
    if doc.has_annotation("SENT_START"):
        starts = {token.i for token in doc if token.is_sent_start}
    else:
        guesses = _SENTENCIZER.predict([doc])[0]
        starts = {i for i, guess in enumerate(guesses) if guess and _may_start(doc[i].text[0])}
        starts |= {token.i + 1 for token in doc if token.is_space and token.text.count("\n") > 1}
    return np.array(sorted({0, *starts} - {len(doc)}), dtype=np.int64)


def _may_start(character: str) -> bool:
    return not (character.islower() or character.isdigit())
