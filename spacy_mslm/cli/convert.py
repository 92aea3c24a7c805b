"""`python -m spacy mslm convert`: convert annotated files to .spacy files."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from spacy.cli._util import Arg, Opt
from wasabi import msg

from .common import command, mslm_cli, show_table

if TYPE_CHECKING:
    from ..corpus.convert import Split
    from ..tasks.conversion import Conversion

MAX_LABELS = 20
# Where the texts are that --dedup removes from a split.
_ABOVE = {"train": "dev or test", "dev": "test"}


@command(mslm_cli, "convert", failure="The conversion failed")
def convert_cli(
    input_path: Path = Arg(
        ..., metavar="INPUT", help="File, or folder of BRAT files or of splits (train, devel, test)"
    ),
    output_path: Path = Arg(
        ..., metavar="OUTPUT", help=".spacy file, or folder for one .spacy file per split"
    ),
    format: str = Opt("auto", help="auto, or the name of an input format"),
    scheme: str = Opt("auto", help="Label scheme of tags: auto, iob1, iob2 or bioes"),
    tokenizer: str = Opt(
        "blank:en", help="For running text: blank:LANG, biomedical:LANG, or pipeline name or path"
    ),
    limit: int = Opt(0, min=0, help="Number of sentences or documents (of train), 0 for all"),
    seed: int | None = Opt(None, help="Shuffle with this seed before the limit; seed of --split"),
    n_sents: int = Opt(1, min=1, help="Number of sentences of an IOB file per document"),
    split: str | None = Opt(
        None, help="Shares of train, dev and test (0.8,0.1,0.1) or of train and dev"
    ),
    group: str = Opt("", help="Key of JSON records that --split keeps together, such as patient"),
    dedup: bool = Opt(
        False, "--dedup", help="Remove texts of train that are in dev or test, of dev in test"
    ),
    tags: str = Opt("", help="Names of numeric tags, such as O,B-Disease,I-Disease"),
    set_name: str | None = Opt(
        None, "--set", help="Corpus of Table 9 to compare with [default: name of OUTPUT]"
    ),
) -> None:
    """Convert annotated files to .spacy files.

    Input formats: columns of tokens and tags (iob: IOB1, IOB2, BIOES), BRAT standoff (brat),
    PubTator (pubtator), BioC (bioc: XML, bioc_json), JSON with offsets of spaCy, Prodigy and
    doccano (jsonl), Label Studio (label_studio), GLiNER (gliner), Hugging Face datasets
    (hugging_face: JSON, Parquet, Arrow), EBM-NLP (ebm_nlp) and .spacy (spacy). For splits,
    statistics are written to stats.json. Nothing is written unless the whole input is valid.
    """
    from ..tasks import convert
    from ..tasks.conversion import split_warnings, tokenizer_hint

    conversion = convert(
        input_path,
        output_path,
        format=format,
        scheme=scheme,
        tokenizer=tokenizer,
        limit=limit,
        seed=seed,
        n_sents=n_sents,
        split=split,
        group=group,
        dedup=dedup,
        tags=[tag.strip() for tag in tags.split(",") if tag.strip()],
        set_name=set_name,
    )
    rows = [
        (
            split.source.name,
            split.source.format,
            f"{split.counts.docs:,}",
            f"{split.counts.tokens:,}",
            f"{split.counts.mentions:,}",
        )
        for split in conversion.splits
    ]
    show_table(rows, ("split", "format", "docs", "tokens", "mentions"), left=2)
    show_labels(conversion.splits)
    for name, ids in conversion.removed.items():
        if ids:
            msg.info(f"{name}: {len(ids)} removed, as their text is also in {_ABOVE[name]}.")
    if conversion.statistics:
        show_statistics(conversion)
    for warning in split_warnings(conversion.splits):
        msg.warn(warning)
    if hint := tokenizer_hint(conversion.splits):
        msg.info(f"{hint} Train with the same tokenizer: --nlp.tokenizer.biomedical true.")
    for path in conversion.written:
        msg.good(f"Saved {path}")


def show_labels(splits: Sequence["Split"]) -> None:
    """Print the number of mentions of each label in each split, the most frequent first. Of a long
    list, the rest is summed up."""
    total = sum((split.counts.labels for split in splits), Counter())
    labels = [label for label, _ in total.most_common()]
    shown = labels if len(labels) <= MAX_LABELS + 1 else labels[:MAX_LABELS]
    rest = labels[len(shown) :]
    rows = [(label, *(f"{s.counts.labels[label]:,}" for s in splits)) for label in shown]
    if rest:
        counts = (sum(s.counts.labels[label] for label in rest) for s in splits)
        rows.append((f"{len(rest)} more labels", *(f"{count:,}" for count in counts)))
    if rows:
        show_table(rows, ("label", *(split.source.name for split in splits)))


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
