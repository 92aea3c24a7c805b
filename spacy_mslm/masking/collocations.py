"""Collocations of 2 to 4 words: the vocabulary of PMI masking, its file, and finding them in text.

The file is made to be read by people, and edited: a line for each collocation, longest first and
the most strongly tied first within each length. Masking takes collocations in the file's order.

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

# Words lead down the tree; where a collocation ends, RANK is its place in the vocabulary.
Trie = dict[Any, Any]
RANK = None


class Collocation(NamedTuple):
    words: tuple[str, ...]
    pmi: float
    occurrences: int


def build_trie(collocations: Iterable[Sequence[str]]) -> Trie:
    """A tree of words with the place of each collocation in the order given."""
    root: Trie = {}
    for rank, words in enumerate(collocations):
        node = root
        for word in words:
            node = node.setdefault(word, {})
        node.setdefault(RANK, rank)
    return root


def find_collocations(trie: Trie, words: Sequence[str]) -> list[tuple[int, int]]:
    """All ranges `start:end` of `words` that are collocations, in the order of their rank and then
    of the text. At most four steps down the tree from each word, however large the vocabulary."""
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
    path: Path, collocations: Iterable[Collocation], notes: Sequence[str]
) -> None:
    """Write the vocabulary; `notes` say in its head how it was made."""
    lines = [*(f"# {note}" for note in notes), HEADER]
    lines += [f"{c.pmi:.4f}\t{c.occurrences}\t{' '.join(c.words)}" for c in collocations]
    replace_file(path, ("\n".join(lines) + "\n").encode("utf8"))


def read_collocations(path: Path) -> Iterator[Collocation]:
    """The vocabulary in the order of the file; lines that begin with `#` are remarks."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as err:
        raise ValueError(
            f"The PMI vocabulary {path} cannot be read ({type(err).__name__}). Write it with "
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
