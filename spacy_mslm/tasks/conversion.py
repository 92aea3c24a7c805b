"""Convert annotated files to `.spacy` files, with statistics."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..corpus.convert import (
    BIOMEDICAL,
    MENTIONS,
    PARTS,
    SPLITS_A_TOKEN,
    Split,
    convert_items,
    load_tokenizer,
)
from ..corpus.counts import make_figures
from ..corpus.duplicates import duplicate_warning, text_key
from ..corpus.items import Item, ReadOptions, read_items
from ..corpus.partition import parse_shares, partition, remove_duplicates
from ..corpus.readers import select
from ..corpus.splits import Source, find_sources, name_splits
from ..errors import listing
from ..util.files import mode_like, replace_files
from .table9 import ComparedFigure, compare, read_paper

STATISTICS = "stats.json"


@dataclass
class Conversion:
    """The converted splits and the files written.

    removed: The ids of the documents that `dedup` has removed from each split.
    rows, statistics: The statistics of a folder with splits, as rows of a table and as written to
        stats.json.
    """

    splits: list[Split]
    removed: dict[str, list[str]] = field(default_factory=dict)
    rows: list[ComparedFigure] = field(default_factory=list)
    statistics: dict[str, Any] = field(default_factory=dict)
    written: list[Path] = field(default_factory=list)


def convert(
    input_path: Path | Sequence[Path],
    output_path: Path,
    *,
    format: str = "auto",
    scheme: str = "auto",
    tokenizer: str = "blank:en",
    limit: int = 0,
    seed: int | None = None,
    n_sents: int = 1,
    split: str | None = None,
    group: str = "",
    dedup: bool = False,
    tags: Sequence[str] = (),
    set_name: str | None = None,
) -> Conversion:
    """Convert a file, or the splits of a folder, to .spacy files.

    Nothing is written unless the whole input is valid.

    Args:
        input_path: A file, a folder of BRAT, Arrow or .spacy files, or a folder with the splits
            train, devel (dev, valid, validation) and test. Or one file or folder for each split,
            with its name in theirs.
        output_path: A .spacy file, or a folder for train.spacy, dev.spacy, test.spacy and
            stats.json.
        format: One of `formats.detection.FORMATS`, or auto.
        scheme: The label scheme of tags: auto, iob1, iob2 or bioes.
        tokenizer: The tokenizer of running text: `blank:LANG`, `biomedical:LANG`, or name or path
            of a pipeline.
        limit: Number of sentences or documents to keep; 0 for all. For a folder, `limit` and `seed`
            apply to train only, so that the other splits stay comparable with published figures.
        seed: Seed to shuffle them before the limit; None to keep their order. Also the seed of
            `split`; None for 0.
        n_sents: Number of consecutive sentences of an IOB file to join into one document.
        split: Shares of train, dev and test ("0.8,0.1,0.1") or of train and dev, to split an input
            that is one file, or one folder of documents.
        group: The key of JSON records whose value says which of them stay together in `split`.
        dedup: Remove documents of train whose text is also in dev or test, and documents of dev
            whose text is also in test.
        tags: The names of numeric tags in Hugging Face datasets, in the order of their numbers.
        set_name: The corpus in the paper's Table 9 to compare a folder with; by default the name of
            the output folder.

    Raises:
        ValueError: If the input is invalid.
        OSError: If the output cannot be written. Existing files are unchanged.
    """
    shares = parse_shares(split) if split else {}
    inputs = [input_path] if isinstance(input_path, Path) else list(input_path)
    if len(inputs) == 1:
        sources = find_sources(inputs[0], output_path, format, to_split=bool(shares))
    elif shares:
        raise ValueError("--split divides one input, and there are several. Leave it out.")
    else:
        sources = name_splits(inputs, output_path, format)
    is_set = bool(shares) or sources[0].output != output_path
    if dedup and not is_set:
        raise ValueError(f"--dedup compares splits, but {inputs[0]} is one. Add --split.")
    if group and not shares:
        raise ValueError("--group says what --split keeps together. Give --split, too.")
    nlp = load_tokenizer(tokenizer)
    options = ReadOptions(scheme, tuple(tags), group, n_sents)
    items = {source: read_items(source, nlp.vocab, options) for source in sources}
    if shares:
        items = _split_items(items, shares, output_path, limit=limit, seed=seed)
    conversion = Conversion([])
    if dedup:
        kept, conversion.removed = remove_duplicates({s.name: i for s, i in items.items()})
        items = {source: kept[source.name] for source in items}
    train_keys: set[bytes] = set()
    for source, found in items.items():
        whole = shares or (is_set and source.name != "train")
        chosen = found if whole else list(select(found, limit, seed))
        converted = convert_items(source, chosen, nlp, n_sents)
        if source.name == "train":
            train_keys = {text_key(text) for _, text in converted.texts}
        else:
            converted.duplicates = duplicate_warning(
                train_keys, converted.texts, train="train", other=source.name
            )
        conversion.splits.append(converted)
    if not limit and not shares:
        check_labels(conversion.splits)
    files = {split.source.output: split.data for split in conversion.splits}
    if is_set:
        add_statistics(conversion, set_name or output_path.resolve().name, tokenizer)
        data = json.dumps(conversion.statistics, indent=2, ensure_ascii=False) + "\n"
        files[output_path / STATISTICS] = data.encode("utf8")
    try:
        replace_files(files, min(map(mode_like, inputs)))
    except OSError as err:
        raise OSError(
            f"{err.filename} cannot be written ({err.strerror}). Nothing was written, and "
            "existing files are unchanged. Free disk space, or give another output."
        ) from None
    conversion.written = list(files)
    return conversion


def _split_items(
    items: dict[Source, list[Item]],
    shares: dict[str, float],
    output: Path,
    *,
    limit: int,
    seed: int | None,
) -> dict[Source, list[Item]]:
    """Split the items of the only source; return those of each split."""
    ((source, found),) = items.items()
    parts = partition(list(select(found, limit, seed)), shares, seed or 0)
    return {
        source._replace(name=name, output=output / f"{name}.spacy"): part
        for name, part in parts.items()
    }


def check_labels(splits: Sequence[Split]) -> None:
    """Raise a ValueError if a split has a label that train does not have.

    Such a label could never be predicted.
    """
    labels = {split.source.name: set(split.counts.labels) for split in splits}
    for split in splits:
        new = labels[split.source.name] - labels.get("train", labels[split.source.name])
        if new:
            raise ValueError(
                f"{split.source.path} has labels that are not in train, so they could never be "
                f"predicted: {', '.join(sorted(new))}. Labels of train: "
                f"{', '.join(sorted(labels['train'])) or 'none'}. Rename these labels, remove "
                "them, or add such mentions to train."
            )


def add_statistics(conversion: Conversion, set_name: str, tokenizer: str) -> None:
    """Add the figures of the corpus, and those of the paper if it has the corpus."""
    splits = {split.source.name: split for split in conversion.splits}
    # Whatever the name of the folder: this is known to differ from the paper's version.
    if any(split.source.format == "ebm_nlp" for split in conversion.splits):
        set_name = "ebm_nlp"
    figures = make_figures({name: split.counts for name, split in splits.items()})
    paper = read_paper(set_name)
    conversion.rows = compare(figures, paper)
    conversion.statistics = {
        "set": set_name,
        "formats": {name: split.source.format for name, split in splits.items()},
        **figures,
        "documents": {name: split.counts.docs for name, split in splits.items()},
        "labels": {name: dict(sorted(s.counts.labels.items())) for name, s in splits.items()},
        "paper": paper or None,
        "differences": [row.name for row in conversion.rows if row.differs],
        "tokenizer": tokenizer,
        "detokenised": {
            name: {"mentions": split.counts.mentions, "expressible": split.expressible}
            for name, split in splits.items()
            if split.expressible is not None
        },
        "kept_in_spans": {name: split.kept for name, split in splits.items()},
        "removed_duplicates": conversion.removed,
        "left_out": {
            name: [{"id": doc, **left._asdict()} for doc, left in split.left_out]
            for name, split in splits.items()
        },
    }


def tokenizer_hint(splits: Sequence[Split]) -> str:
    """Return a hint to the biomedical tokenizer with the gain that it would bring; "" for none."""
    gain = sum(split.gain for split in splits)
    if not gain:
        return ""
    lost = sum(_count_split_tokens(split) for split in splits)
    total = sum(split.counts.mentions + len(split.left_out) for split in splits)
    return (
        f"{lost} of {total} mentions ({lost / total:.1%}) begin or end inside a token of running "
        f"text. With '--tokenizer {BIOMEDICAL}:en', {gain} of them would fit."
    )


def _count_split_tokens(split: Split) -> int:
    if split.expressible is not None:
        return split.counts.mentions - split.expressible
    return sum(left.reason == SPLITS_A_TOKEN for _, left in split.left_out)


def split_warnings(splits: Sequence[Split]) -> list[str]:
    """Return warnings that a user should read before training on these splits."""
    warnings = []
    for split in splits:
        for reason in sorted({left.reason for _, left in split.left_out}):
            places = [f"{i} {x.start}:{x.end}" for i, x in split.left_out if x.reason == reason]
            warnings.append(
                f"{split.source.name}: {len(places)} gold mention(s) left out, each as {reason}; "
                "their tokens, except those of other mentions, count as not annotated. Documents "
                f"and characters: {listing(places)}."
            )
        if split.kept:
            warnings.append(
                f"{split.source.name}: {split.kept} of these are kept in doc.spans: nested and "
                f"overlapping ones in {MENTIONS!r}, the parts of discontinuous ones in {PARTS!r}."
            )
    warnings += [split.duplicates for split in splits if split.duplicates]
    if len({frozenset(split.counts.labels) for split in splits}) > 1:
        labels = "; ".join(
            f"{s.source.name}: {', '.join(sorted(s.counts.labels)) or 'none'}" for s in splits
        )
        warnings.append(
            f"The labels differ between the splits: {labels}. A label that is not in train cannot "
            "be predicted; one that is not in another split is not evaluated there."
        )
    return warnings
