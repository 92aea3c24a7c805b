"""`python -m spacy mslm pmi`: find the vocabulary of PMI masking in a training set."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from spacy.cli._util import Arg, Opt
from wasabi import msg

from .common import command, mslm_cli, show_table

if TYPE_CHECKING:
    from ..tasks.pmi import Overlap

SAMPLE = 30  # collocations of each kind that --overlap shows


@command(mslm_cli, "pmi", failure="The vocabulary was not written")
def pmi_cli(
    train_path: Path = Arg(..., metavar="TRAIN", help=".spacy file, folder of them, or IOB file"),
    output_path: Path = Arg(..., metavar="OUTPUT", help="Output text file"),
    min_count: int = Opt(5, min=1, help="Minimum number of occurrences of a collocation"),
    min_chars: int = Opt(2, min=0, help="Minimum number of letters and digits of each word"),
    stop_words: bool = Opt(True, help="Leave out collocations with a stop word"),
    lang: str = Opt("en", help="Language of the stop words"),
    overlap: bool = Opt(False, "--overlap", help="Show how many are entities of TRAIN"),
    spans_key: str | None = Opt(None, help="Span group of the entities [default: doc.ents]"),
) -> None:
    """Write the collocations of 2 to 4 words in the training text, ranked by PMI.

    Give the training set only: the vocabulary must not depend on dev or test.
    """
    from ..masking.collocations import SIZES
    from ..tasks import build_pmi_vocabulary

    vocabulary = build_pmi_vocabulary(
        train_path,
        output_path,
        min_count=min_count,
        min_chars=min_chars,
        stop_words=stop_words,
        lang=lang,
        overlap=overlap,
        spans_key=spans_key,
    )
    sizes = Counter(len(entry.words) for entry in vocabulary.collocations)
    rows = [(f"{size} words", f"{sizes[size]:,}") for size in SIZES]
    show_table([*rows, ("in all", f"{sizes.total():,}")])
    if vocabulary.overlap:
        show_overlap(vocabulary.overlap)
    msg.good(f"Saved {output_path}")


def show_overlap(overlap: "Overlap") -> None:
    """Print how many collocations are domain terms, with evenly drawn examples."""
    names = {
        "an entity mention": overlap.terms,
        "part of a longer one": overlap.parts,
        "neither": overlap.others,
    }
    total = sum(map(len, overlap))
    msg.divider("Overlap with the entities of the training set")
    rows = [
        (name, f"{len(entries):,}", f"{len(entries) / total:.1%}")
        for name, entries in names.items()
    ]
    show_table(rows, ("collocation is", "entries", "share"))
    for name, entries in names.items():
        step = max(1, len(entries) // SAMPLE)
        sample = [" ".join(entry.words) for entry in entries[::step][:SAMPLE]]
        print(f"{name}: {', '.join(sample) or '-'}\n")
