"""Sentences that are split by spaces ("S - 100 ( 90 % )") as running text again ("S-100 (90%)"),
and how many of their mentions a tokenizer can express there.

A model that learns from the split tokens is used on running text, in which a tokenizer that keeps
"HMB-45+" whole cannot express the mention "HMB-45". The rules, by token:

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
    """The running text, and the offset at which each word starts in it."""
    text = ""
    starts = []
    for i, word in enumerate(words):
        if i and _is_spaced(words, i):
            text += " "
        starts.append(len(text))
        text += word
    return text, starts


def count_expressible(sentences: Iterable[Sentence], tokenize: Callable[[str], Doc]) -> int:
    """How many mentions of the detokenised sentences begin and end with a token."""
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
    """Whether a space stands between word i and the one before it."""
    before, word = words[i - 1], words[i]
    if word in _CLOSING or word in _JOINING or before in _OPENING or before in _JOINING:
        return False
    if before in ("'", "’"):
        return word != "s"
    return not (before == "." and i > 1 and words[i - 2].isdecimal() and word.isdecimal())
