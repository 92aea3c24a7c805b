"""Find the vocabulary of PMI masking in a training set, and compare it with the entities there."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import spacy
from spacy.tokens import Doc
from tqdm import tqdm

from ..corpus.gold import gold_spans
from ..corpus.readers import read_gold
from ..masking.collocations import SIZES, Collocation, write_collocations
from ..masking.pmi import find_vocabulary
from ..util.files import mode_like


class Overlap(NamedTuple):
    """The collocations of a vocabulary by their relation to entity mentions (Table 11).

    terms: Collocations that are a mention. parts: Those that are part of a longer one.
    others: The rest.
    """

    terms: list[Collocation]
    parts: list[Collocation]
    others: list[Collocation]


class PMIVocabulary(NamedTuple):
    """Collocations in the order of the file, and their overlap with the entities if requested.

    mentions: The number of different mentions in the training set, 0 without the overlap.
    """

    collocations: list[Collocation]
    overlap: Overlap | None
    mentions: int = 0


def build_pmi_vocabulary(
    train_path: Path,
    output_path: Path | None,
    *,
    min_count: int = 5,
    min_chars: int = 2,
    stop_words: bool = True,
    lang: str = "en",
    overlap: bool = False,
    spans_key: str | None = None,
) -> PMIVocabulary:
    """Find the collocations of 2 to 4 words in a training set, ranked by PMI, and write them.

    Args:
        train_path: A .spacy file, a folder of them, or an IOB file. One document is in memory at
            a time.
        output_path: The text file to write, None for none.
        min_count: Leave out collocations with fewer occurrences.
        min_chars: Leave out collocations with a word of fewer letters and digits.
        stop_words: Leave out collocations with a stop word.
        lang: The language of the stop words.
        overlap: Compare the collocations with the entities of the training set.
        spans_key: The span group that holds the entities; by default `doc.ents`.

    Raises:
        ValueError: If there are no such collocations.
    """
    nlp = spacy.blank(lang)
    mentions: set[tuple[str, ...]] = set()

    def docs() -> Iterator[Doc]:
        for doc in tqdm(read_gold(train_path, nlp.vocab), unit=" docs", disable=None):
            if overlap:
                spans = gold_spans(doc, spans_key)
                mentions.update(tuple(token.text for token in span) for span in spans)
            yield doc

    vocabulary = find_vocabulary(
        docs(),
        nlp.vocab,
        min_count=min_count,
        min_chars=min_chars,
        stop_words=nlp.Defaults.stop_words if stop_words else (),
    )
    if not vocabulary:
        raise ValueError(
            f"{train_path} has no collocation of 2 to 4 words that occurs {min_count} times "
            "and passes the filters. Lower --min-count, turn the filters off (--min-chars 0 "
            "--no-stop-words), or give more text."
        )
    filters = f"words of at least {min_chars} letters and digits"
    if stop_words:
        filters += f", no stop word ({lang})"
    notes = [
        f"PMI vocabulary of {train_path.name}: {len(vocabulary)} collocations",
        f"at least {min_count} occurrences, {filters}",
        "longest first, ranked by PMI within each length; masked in this order",
    ]
    if output_path is not None:
        output_path.parent.mkdir(parents=True, exist_ok=True)
        # Collocations are text of the training set.
        write_collocations(output_path, vocabulary, notes, mode_like(train_path))
    if not overlap:
        return PMIVocabulary(vocabulary, None)
    return PMIVocabulary(vocabulary, compare_with_mentions(vocabulary, mentions), len(mentions))


def compare_with_mentions(
    vocabulary: Iterable[Collocation], mentions: Iterable[Sequence[str]]
) -> Overlap:
    """Sort collocations by whether they are mentions or parts of them.

    Args:
        vocabulary: The collocations.
        mentions: The words of each mention.
    """
    whole: set[tuple[str, ...]] = set()
    parts: set[tuple[str, ...]] = set()
    for words in mentions:
        whole.add(tuple(words))
        for size in SIZES:
            parts.update(tuple(words[i : i + size]) for i in range(len(words) - size + 1))
    overlap = Overlap([], [], [])
    for entry in vocabulary:
        kind = 0 if entry.words in whole else 1 if entry.words in parts else 2
        overlap[kind].append(entry)
    return overlap
