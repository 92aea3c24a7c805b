"""Turn tokenized sentences ("S - 100 ( 90 % )") into running text ("S-100 (90%)"), and count the
mentions that a tokenizer can express there.

A model that is trained on such tokens is used on running text, where a tokenizer that keeps
"HMB-45+" as one token cannot express the mention "HMB-45". The rules, by token:

- no space before . , ; : ! ? ) ] } % or an apostrophe, nor after ( [ {
- none around - and /
- none in "Parkinson ' s", nor after the point of "0 . 05"
"""

from collections.abc import Callable, Iterable, Sequence

from spacy.tokens import Doc

from .formats.records import Sentence

_CLOSING = frozenset(".,;:!?)]}%'’")
_OPENING = frozenset("([{")
_JOINING = frozenset("-/")


def detokenise(words: Sequence[str]) -> tuple[str, list[int]]:
    """Return the running text, and the offset of each word in it."""
    text = ""
    starts = []
    for i, word in enumerate(words):
        if i and _is_spaced(words, i):
            text += " "
        starts.append(len(text))
        text += word
    return text, starts


def count_expressible(sentences: Iterable[Sentence], tokenize: Callable[[str], Doc]) -> int:
    """Count the mentions of detokenised sentences that begin and end at token boundaries."""
    count = 0
    for sentence in sentences:
        if sentence.mentions:
            text, starts = detokenise(sentence.words)
            doc = tokenize(text)
            for start, end, _ in sentence.mentions:
                last = end - 1
                span = doc.char_span(starts[start], starts[last] + len(sentence.words[last]))
                count += span is not None
    return count


def _is_spaced(words: Sequence[str], i: int) -> bool:
    """Return whether there is a space before word i."""
    before, word = words[i - 1], words[i]
    if word in _CLOSING or word in _JOINING or before in _OPENING or before in _JOINING:
        return False
    if before in ("'", "’"):
        return word != "s"
    return not (before == "." and i > 1 and words[i - 2].isdecimal() and word.isdecimal())
