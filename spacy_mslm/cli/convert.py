"""`python -m spacy mslm convert`: annotated files of many formats -> `.spacy` files."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ..corpus.convert import Conversion, Split


def convert_cli(
    input_path: Annotated[
        Path,
        typer.Argument(
            metavar="INPUT",
            help="File, folder of BRAT files, or folder with train, devel (dev, valid) and test",
        ),
    ],
    output_path: Annotated[
        Path,
        typer.Argument(
            metavar="OUTPUT", help=".spacy file, or folder for train.spacy, dev.spacy, test.spacy"
        ),
    ],
    format: Annotated[
        str,
        typer.Option(help="auto (by looking), iob, brat, pubtator, bioc, jsonl, ebm_nlp or spacy"),
    ] = "auto",
    scheme: Annotated[
        str, typer.Option(help="Tags of IOB files: auto, iob1, iob2 or bioes (for BILOU too)")
    ] = "auto",
    tokenizer: Annotated[
        str, typer.Option(help="Of running text: blank:LANG, or name or folder of a pipeline")
    ] = "blank:en",
    limit: Annotated[
        int,
        typer.Option(min=0, help="First N sentences or documents (of a folder: of train); 0: all"),
    ] = 0,
    seed: Annotated[
        int | None, typer.Option(help="Shuffle them (of a folder: of train) before the limit")
    ] = None,
    n_sents: Annotated[int, typer.Option(min=1, help="Sentences of IOB files per document")] = 1,
    set_name: Annotated[
        str | None,
        typer.Option(
            "--set", help="Set of the paper's Table 9 to compare a folder with [its name]"
        ),
    ] = None,
) -> None:
    """Convert annotated files to .spacy files: columns of tokens and tags (IOB1, IOB2, BIOES), BRAT
    standoff, PubTator, BioC XML, JSON lines with offsets, EBM-NLP, .spacy. Of a folder, count what
    the paper's Table 9 counts, and write that to stats.json.

    Nothing is written unless all of the input is sound, and no file is ever left half-written.
    """
    from wasabi import msg

    from ..corpus.convert import convert

    try:
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
    except (ValueError, OSError, ImportError) as err:
        msg.fail("The conversion failed", str(err), exits=1)
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
        msg.good(f"Written: {path}")


def show_statistics(conversion: "Conversion") -> None:
    """The table of statistics, with the paper's figures where there are, and the share of mentions
    that the tokenizer can express in running text."""
    from wasabi import msg

    statistics = conversion.statistics
    paper = statistics["paper"]
    rows: list[tuple[str, ...]] = []
    for row in conversion.rows:
        told = (row.name.replace("_", " "), row.show(row.ours))
        mark = "differs" if row.differs else ""
        rows.append((*told, row.show(row.paper), mark) if paper else told)
    header = ("", statistics["set"], *(("paper", "") if paper else ()))
    if paper and not paper["comparable"]:
        header = (*header[:3], "not comparable")
    msg.table(rows, header=header, divider=True, aligns=("l", "r", "r", "l")[: len(header)])
    if statistics["detokenised"]:
        shares = [
            (name, f"{n['mentions']:,}", f"{n['expressible']:,}", _share(**n))
            for name, n in statistics["detokenised"].items()
        ]
        header = ("split", "mentions", "expressible", "recall")
        msg.text(f"Detokenised text, tokenised anew ({statistics['tokenizer']}):")
        msg.table(shares, header=header, divider=True, aligns=("l", "r", "r", "r"))
    for note in paper["notes"] if paper else ():
        msg.info(note)


def split_warnings(splits: "list[Split]") -> list[str]:
    """What a user should know before training on these splits."""
    from ..errors import listing

    warnings = []
    for split in splits:
        for reason in sorted({left.reason for _, left in split.left_out}):
            places = [f"{i} {x.start}:{x.end}" for i, x in split.left_out if x.reason == reason]
            warnings.append(
                f"{split.source.name}: {len(places)} gold mention(s) left out, each as "
                f"{reason}; what no other mention has of their tokens counts as not "
                f"annotated. Documents and characters: {listing(places)}."
            )
    warnings += [split.duplicates for split in splits if split.duplicates]
    if len({frozenset(split.counts.labels) for split in splits}) > 1:
        labels = "; ".join(
            f"{s.source.name}: {', '.join(sorted(s.counts.labels)) or 'none'}" for s in splits
        )
        warnings.append(
            f"The labels differ between the splits: {labels}. A label that is absent from "
            "train cannot be predicted; one that is absent elsewhere is not evaluated."
        )
    return warnings


def _share(mentions: int, expressible: int) -> str:
    return f"{expressible / mentions:.2%}" if mentions else "-"
