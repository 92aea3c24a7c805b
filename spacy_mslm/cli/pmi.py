"""`python -m spacy mslm pmi`: training text -> the vocabulary of PMI masking."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from ..masking.collocations import Collocation

SAMPLE = 30  # of domain terms and of other collocations shown by --overlap


def pmi_cli(
    train_path: Annotated[
        Path,
        typer.Argument(
            metavar="TRAIN",
            help=".spacy file, folder of them (of which one is in memory at a time), or IOB file",
        ),
    ],
    output_path: Annotated[Path, typer.Argument(metavar="OUTPUT", help="Text file to write")],
    min_count: Annotated[
        int, typer.Option(min=1, help="Leave out collocations that occur less often")
    ] = 5,
    min_chars: Annotated[
        int,
        typer.Option(
            min=0, help="Leave out collocations with a word of fewer letters and digits; 0 for none"
        ),
    ] = 2,
    stop_words: Annotated[
        bool, typer.Option(help="Leave out collocations with a stop word")
    ] = True,
    lang: Annotated[str, typer.Option(help="The stop words' language")] = "en",
    overlap: Annotated[
        bool, typer.Option("--overlap", help="Show how many of them are entities of TRAIN")
    ] = False,
    spans_key: Annotated[
        str | None, typer.Option(help="The entities are in this span group, not in doc.ents")
    ] = None,
) -> None:
    """Write the collocations of 2 to 4 words in the training text, ranked by their PMI.

    Give the training set only: what is learnt from must not know of dev or test.
    """
    from wasabi import msg

    from ..masking.collocations import SIZES

    try:
        vocabulary, mentions = build_vocabulary(
            train_path,
            output_path,
            min_count=min_count,
            min_chars=min_chars,
            stop_words=stop_words,
            lang=lang,
            keep_mentions=overlap,
            spans_key=spans_key,
        )
    except (ValueError, OSError, ImportError) as err:
        msg.fail("The vocabulary was not written", str(err), exits=1)
    sizes = Counter(len(entry.words) for entry in vocabulary)
    rows = [(f"{size} words", f"{sizes[size]:,}") for size in SIZES]
    msg.table([*rows, ("in all", f"{len(vocabulary):,}")], aligns=("l", "r"))
    if overlap:
        show_overlap(vocabulary, mentions)
    msg.good(f"Written: {output_path}")


def build_vocabulary(
    train_path: Path,
    output_path: Path,
    *,
    min_count: int,
    min_chars: int,
    stop_words: bool,
    lang: str,
    keep_mentions: bool,
    spans_key: str | None = None,
) -> tuple[list["Collocation"], set[tuple[str, ...]]]:
    """Count, rank and write; returns the vocabulary and, if wanted, the mentions' words."""
    import spacy
    from tqdm import tqdm

    from ..corpus.readers import read_gold
    from ..masking.collocations import write_collocations
    from ..masking.pmi import find_vocabulary

    nlp = spacy.blank(lang)
    mentions: set[tuple[str, ...]] = set()

    def docs() -> Iterator["Doc"]:
        for doc in tqdm(read_gold(train_path, nlp.vocab), unit=" docs", disable=None):
            if keep_mentions:
                spans = doc.ents if spans_key is None else doc.spans.get(spans_key, ())
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
            f"{train_path} holds no collocation of 2 to 4 words that occurs {min_count} times "
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
    output_path.parent.mkdir(parents=True, exist_ok=True)
    write_collocations(output_path, vocabulary, notes)
    return vocabulary, mentions


def show_overlap(vocabulary: list["Collocation"], mentions: Iterable[tuple[str, ...]]) -> None:
    """Tables 11 and 14: how many collocations are domain terms, and examples, evenly drawn."""
    from wasabi import msg

    from ..masking.collocations import compare_with_mentions

    overlap = compare_with_mentions(vocabulary, mentions)
    names = {
        "an entity mention": overlap.terms,
        "part of a longer one": overlap.parts,
        "neither": overlap.others,
    }
    msg.divider("Overlap with the entities of the training set")
    rows = [
        (name, f"{len(entries):,}", f"{len(entries) / len(vocabulary):.1%}")
        for name, entries in names.items()
    ]
    msg.table(rows, header=("collocation is", "entries", "share"), aligns=("l", "r", "r"))
    for name, entries in names.items():
        step = max(1, len(entries) // SAMPLE)
        sample = [" ".join(entry.words) for entry in entries[::step][:SAMPLE]]
        print(f"{name}: {', '.join(sample) or '-'}\n")
