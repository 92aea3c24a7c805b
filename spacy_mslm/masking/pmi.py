"""Find the collocations of a text and their PMI (paper §E.2; Levine et al. 2020).

The PMI of two words is log(p(w1 w2) / (p(w1) p(w2))). That of a longer n-gram is the minimum, over
all ways to cut it into parts, of log(p(w1 ... wn) / product of the p(part)): a phrase ranks high
only if no cut explains it. p is the share among all n-grams of the same length.

The words are written to a temporary file as numbers, and the n-grams of each length are counted in
chunks of it. A part of an n-gram is at least as frequent as the n-gram, so only n-grams with
frequent parts are counted. Memory holds these, and never the whole text.
"""

import math
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import combinations
from typing import IO, NamedTuple

import numpy as np
from spacy.attrs import IS_SPACE, ORTH
from spacy.tokens import Doc
from spacy.vocab import Vocab

from ..text.sentences import sentence_starts
from .collocations import SIZES, Collocation

CHUNK = 4_000_000  # words counted at a time
BREAK = 0  # the end of a sentence; no word has this number
NONE = -1

Ngram = tuple[int, ...]


class Level(NamedTuple):
    """The n-grams of one length.

    Attributes:
        total: The number of n-grams of this length in the text, frequent or not.
        counts: The number of occurrences of each frequent n-gram.
    """

    total: int
    counts: dict[Ngram, int]


def find_vocabulary(
    docs: Iterable[Doc],
    vocab: Vocab,
    *,
    min_count: int = 5,
    min_chars: int = 2,
    stop_words: Collection[str] = (),
) -> list[Collocation]:
    """Find the n-grams of 2 to 4 words within sentences, ranked by PMI.

    Args:
        docs: The text. It is read once, one document at a time.
        vocab: The vocab of the documents.
        min_count: Leave out n-grams with fewer occurrences.
        min_chars: Leave out n-grams with a word of fewer letters and digits.
        stop_words: Leave out n-grams with one of these words (lower case).

    Returns:
        The collocations, sorted by length, then by PMI. Probabilities are those of all n-grams,
        before any are left out.
    """
    with tempfile.TemporaryFile() as spool:
        for doc in docs:
            _numbers(doc).tofile(spool)
        levels = count_ngrams(lambda: _chunks(spool), min_count)
    words = {number: vocab.strings[number] for (number,) in levels[1].counts}
    kept = {
        number
        for number, word in words.items()
        if sum(character.isalnum() for character in word) >= min_chars
        and word.lower() not in stop_words
        and len(word.split()) == 1  # the file puts spaces between words
    }
    collocations: list[Collocation] = []
    for size in reversed(SIZES):
        found = [
            Collocation(tuple(words[number] for number in ngram), pmi(ngram, levels), count)
            for ngram, count in levels[size].counts.items()
            if kept.issuperset(ngram)
        ]
        collocations += sorted(found, key=lambda c: (-c.pmi, -c.occurrences, c.words))
    return collocations


def pmi(ngram: Ngram, levels: dict[int, Level]) -> float:
    """Return the PMI of an n-gram in nats, the minimum over its cuts."""

    def log_p(part: Ngram) -> float:
        level = levels[len(part)]
        return math.log(level.counts[part] / level.total)

    n = len(ngram)
    cuts = [cut for k in range(1, n) for cut in combinations(range(1, n), k)]
    explained = max(
        sum(log_p(ngram[a:b]) for a, b in zip((0, *cut), (*cut, n), strict=True)) for cut in cuts
    )
    return log_p(ngram) - explained


def count_ngrams(chunks: Callable[[], Iterable[np.ndarray]], min_count: int) -> dict[int, Level]:
    """Count the n-grams of 1 to 4 words.

    Args:
        chunks: Returns the text as numbers of words, with a BREAK after each sentence. Sentences do
            not continue in the next chunk.
        min_count: The minimum number of occurrences of a frequent n-gram.

    Returns:
        The n-grams of each length.
    """
    totals = dict.fromkeys((1, *SIZES), 0)
    for chunk in chunks():
        lengths = np.diff(np.flatnonzero(chunk == BREAK), prepend=-1) - 1
        for size in totals:
            totals[size] += int(np.maximum(lengths - size + 1, 0).sum())
    words, counts = _tally((chunk[chunk != BREAK] for chunk in chunks()), min_count)
    # An n-gram is identified by its index among the frequent ones of its length. It is counted by
    # its code: the index of its first n - 1 words times the number of words, plus the index of its
    # last word.
    tables = [words]
    ngrams = words[:, None]
    levels = {1: Level(totals[1], _by_ngram(ngrams, counts))}
    for size in SIZES:
        codes, counts = _tally((_codes(chunk, tables) for chunk in chunks()), min_count)
        before, last = np.divmod(codes, max(1, len(words)))
        ngrams = np.concatenate([ngrams[before], words[last, None]], axis=1)
        tables.append(codes)
        levels[size] = Level(totals[size], _by_ngram(ngrams, counts))
    return levels


def _by_ngram(ngrams: np.ndarray, counts: np.ndarray) -> dict[Ngram, int]:
    return dict(zip(map(tuple, ngrams.tolist()), counts.tolist(), strict=True))


def _codes(chunk: np.ndarray, tables: list[np.ndarray]) -> np.ndarray:
    """Return (n,) the codes of the n-grams of a chunk whose parts are frequent.

    They are one word longer than the n-grams of the last table.
    """
    words = _places(chunk, tables[0])
    codes = chunk
    for size, table in enumerate(tables, start=1):
        places = _places(codes, table)
        # The longer n-gram that starts at i is the n-gram at i and the word after it.
        possible = (places[:-1] != NONE) & (places[1:] != NONE)
        codes = np.where(possible, places[:-1] * len(tables[0]) + words[size:], NONE)
    return codes[codes != NONE]


def _places(codes: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Return the index of each code in a sorted table, or NONE."""
    if not len(table):
        return np.full(len(codes), NONE)
    at = np.minimum(np.searchsorted(table, codes), len(table) - 1)
    return np.where(table[at] == codes, at, NONE)


def _tally(arrays: Iterable[np.ndarray], min_count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (n,) the sorted values that occur `min_count` times or more, and (n,) their counts."""
    values = counts = np.zeros(0, np.int64)
    for array in arrays:
        new, new_counts = np.unique(array, return_counts=True)
        if not len(values):
            values, counts = new, new_counts
            continue
        values, where = np.unique(np.concatenate([values, new]), return_inverse=True)
        both = np.concatenate([counts, new_counts])
        counts = np.bincount(where, weights=both, minlength=len(values)).astype(np.int64)
    return values[counts >= min_count], counts[counts >= min_count]


def _numbers(doc: Doc) -> np.ndarray:
    """Return the hashes of a Doc's words, with a BREAK after each sentence."""
    orths, spaces = doc.to_array([ORTH, IS_SPACE]).reshape(-1, 2).T
    ends = np.append(sentence_starts(doc)[1:], len(doc))
    words = np.insert(orths, ends, BREAK)
    return words[np.insert(spaces, ends, 0) == 0]


def _chunks(spool: IO[bytes]) -> Iterator[np.ndarray]:
    spool.seek(0)
    rest = np.zeros(0, np.uint64)
    while len(new := np.fromfile(spool, np.uint64, CHUNK)):
        chunk = np.concatenate([rest, new])
        breaks = np.flatnonzero(chunk == BREAK)
        end = int(breaks[-1]) + 1 if len(breaks) else 0
        yield chunk[:end]
        rest = chunk[end:]
