"""`python -m spacy mslm convert`: convert annotated files to .spacy files."""

from pathlib import Path
from typing import TYPE_CHECKING

from spacy.cli._util import Arg, Opt
from wasabi import msg

from .common import command, mslm_cli, show_table

if TYPE_CHECKING:
    from ..tasks.conversion import Conversion


@command(mslm_cli, "convert", failure="The conversion failed")
def convert_cli(
    input_path: Path = Arg(
        ..., metavar="INPUT", help="File, or folder of BRAT files or of splits (train, devel, test)"
    ),
    output_path: Path = Arg(
        ..., metavar="OUTPUT", help=".spacy file, or folder for one .spacy file per split"
    ),
    format: str = Opt("auto", help="auto, iob, brat, pubtator, bioc, jsonl, ebm_nlp or spacy"),
    scheme: str = Opt("auto", help="Label scheme of IOB files: auto, iob1, iob2 or bioes"),
    tokenizer: str = Opt("blank:en", help="For running text: blank:LANG, or pipeline name or path"),
    limit: int = Opt(0, min=0, help="Number of sentences or documents (of train), 0 for all"),
    seed: int | None = Opt(None, help="Shuffle with this seed before applying the limit"),
    n_sents: int = Opt(1, min=1, help="Number of sentences of an IOB file per document"),
    set_name: str | None = Opt(
        None, "--set", help="Corpus of Table 9 to compare with [default: name of OUTPUT]"
    ),
) -> None:
    """Convert annotated files to .spacy files.

    Input formats: columns of tokens and tags (IOB1, IOB2, BIOES), BRAT standoff, PubTator, BioC
    XML, JSON lines with offsets, EBM-NLP and .spacy. For a folder, statistics are written to
    stats.json. Nothing is written unless the whole input is valid.
    """
    from ..tasks import convert
    from ..tasks.conversion import split_warnings

    conversion = convert(
        input_path,
        output_path,
        format=format,
        scheme=scheme,
        tokenizer=tokenizer,
        limit=limit,
        seed=seed,
        n_sents=n_sents,
        set_name=set_name,
    )
    rows = [
        (
            split.source.name,
            split.source.format,
            split.counts.docs,
            split.counts.tokens,
            split.counts.mentions,
            ", ".join(sorted(split.counts.labels)) or "-",
        )
        for split in conversion.splits
    ]
    header = ("split", "format", "docs", "tokens", "mentions", "labels")
    msg.table(rows, header=header, divider=True, aligns=("l", "l", "r", "r", "r", "l"))
    if conversion.statistics:
        show_statistics(conversion)
    for warning in split_warnings(conversion.splits):
        msg.warn(warning)
    for path in conversion.written:
        msg.good(f"Saved {path}")


def show_statistics(conversion: "Conversion") -> None:
    """Print the statistics with the paper's figures, and how many mentions the tokenizer can
    express in running text."""
    statistics = conversion.statistics
    paper = statistics["paper"]
    rows: list[tuple[str, ...]] = []
    for row in conversion.rows:
        cells = (row.name.replace("_", " "), row.show(row.ours))
        mark = "differs" if row.differs else ""
        rows.append((*cells, row.show(row.paper), mark) if paper else cells)
    header = ("", statistics["set"], *(("paper", "") if paper else ()))
    if paper and not paper["comparable"]:
        header = (*header[:3], "not comparable")
    msg.table(rows, header=header, divider=True, aligns=("l", "r", "r", "l")[: len(header)])
    if statistics["detokenised"]:
        shares = [
            (name, f"{n['mentions']:,}", f"{n['expressible']:,}", _share(**n))
            for name, n in statistics["detokenised"].items()
        ]
        msg.text(f"Mentions in running text, tokenized by {statistics['tokenizer']}:")
        show_table(shares, ("split", "mentions", "expressible", "recall"))
    for note in paper["notes"] if paper else ():
        msg.info(note)


def _share(mentions: int, expressible: int) -> str:
    return f"{expressible / mentions:.2%}" if mentions else "-"
