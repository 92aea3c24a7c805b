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


def count_expressible(
    sentences: Iterable[Sentence],
    tokenize: Callable[[str], Doc],
    finer: Callable[[str], Doc] | None = None,
) -> tuple[int, int]:
    """Count the mentions of detokenised sentences that begin and end at token boundaries.

    Args:
        sentences: The sentences.
        tokenize: A tokenizer.
        finer: Another tokenizer.

    Returns:
        Their number with the tokenizer, and how many more there are with the other one.
    """
    count, more = 0, 0
    for sentence in sentences:
        if sentence.mentions:
            text, starts = detokenise(sentence.words)
            ends = [start + len(word) for start, word in zip(starts, sentence.words, strict=True)]
            places = [(starts[start], ends[end - 1]) for start, end, _ in sentence.mentions]
            fitting = _count_fitting(tokenize(text), places)
            count += fitting
            if finer is not None and fitting < len(places):
                more += max(0, _count_fitting(finer(text), places) - fitting)
    return count, more


def _count_fitting(doc: Doc, places: Sequence[tuple[int, int]]) -> int:
    return sum(doc.char_span(start, end) is not None for start, end in places)


def _is_spaced(words: Sequence[str], i: int) -> bool:
    """Return whether there is a space before word i."""
    before, word = words[i - 1], words[i]
    if word in _CLOSING or word in _JOINING or before in _OPENING or before in _JOINING:
        return False
    if before in ("'", "’"):
        return word != "s"
    return not (before == "." and i > 1 and words[i - 2].isdecimal() and word.isdecimal())
