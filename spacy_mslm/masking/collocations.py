"""Collocations of 2 to 4 words, the vocabulary of PMI masking: its file, and search in text.

The file can be read and edited by people. It has one line per collocation, sorted by length and
then by PMI, both descending. PMI masking takes collocations in the order of the file.

    # PMI (nats)	occurrences	collocation
    15.2031	31	adenomatous polyposis coli gene
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import Errors
from ..util.files import replace_file

SIZES = (2, 3, 4)
HEADER = "# PMI (nats)\toccurrences\tcollocation"

# A tree of words. The last word of a collocation has its rank in the vocabulary under the key RANK.
Trie = dict[Any, Any]
RANK = None


class Collocation(NamedTuple):
    """A collocation with its PMI in nats and its number of occurrences."""

    words: tuple[str, ...]
    pmi: float
    occurrences: int


def build_trie(collocations: Iterable[Sequence[str]]) -> Trie:
    """Build a tree of collocations, which are ranked in the given order."""
    root: Trie = {}
    for rank, words in enumerate(collocations):
        node = root
        for word in words:
            node = node.setdefault(word, {})
        node.setdefault(RANK, rank)
    return root


def find_collocations(trie: Trie, words: Sequence[str]) -> list[tuple[int, int]]:
    """Find all collocations in a text.

    The run time is linear in the number of words and does not depend on the size of the vocabulary.

    Returns:
        Ranges `start, end` of words, sorted by the rank of the collocation, then by position.
    """
    found = []
    for start in range(len(words)):
        node = trie
        for end in range(start, len(words)):
            child = node.get(words[end])
            if child is None:
                break
            node = child
            if RANK in node:
                found.append((node[RANK], start, end + 1))
    return [(start, end) for _, start, end in sorted(found)]


def write_collocations(
    path: Path, collocations: Iterable[Collocation], notes: Sequence[str], mode: int = 0o666
) -> None:
    """Write a vocabulary. The notes become comments at the top of the file.

    Args:
        path: The file.
        collocations: The vocabulary.
        notes: The comments.
        mode: The permissions of the file, to which the umask is applied.
    """
    lines = [*(f"# {note}" for note in notes), HEADER]
    lines += [f"{c.pmi:.4f}\t{c.occurrences}\t{' '.join(c.words)}" for c in collocations]
    replace_file(path, ("\n".join(lines) + "\n").encode("utf8"), mode)


def read_collocations(path: Path) -> Iterator[Collocation]:
    """Yield the collocations of a file in its order. Lines that start with `#` are comments.

    Raises:
        ValueError: If the file or one of its lines cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as err:
        raise ValueError(
            f"Could not read the PMI vocabulary {path} ({type(err).__name__}). Create it with "
            "'python -m spacy mslm pmi TRAIN OUTPUT', and give its path (--paths.pmi)."
        ) from None
    for number, line in enumerate(text.split("\n"), start=1):
        if line.startswith("#") or not line.strip():
            continue
        try:
            pmi, count, phrase = line.split("\t")
            collocation = Collocation(tuple(phrase.split(" ")), float(pmi), int(count))
        except ValueError:
            raise ValueError(Errors.M122.format(path=path, line=number)) from None
        if len(collocation.words) not in SIZES or not all(collocation.words):
            raise ValueError(Errors.M122.format(path=path, line=number))
        yield collocation
