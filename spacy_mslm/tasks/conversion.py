"""Convert annotated files to `.spacy` files, with statistics."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..corpus.convert import Split, load_tokenizer, read_split
from ..corpus.counts import make_figures
from ..corpus.duplicates import duplicate_warning, text_key
from ..corpus.splits import find_sources
from ..errors import listing
from ..util.files import replace_files
from .table9 import ComparedFigure, compare, read_paper

STATISTICS = "stats.json"


@dataclass
class Conversion:
    """The converted splits and the files written.

    rows, statistics: The statistics of a folder with splits, as rows of a table and as written to
        stats.json.
    """

    splits: list[Split]
    rows: list[ComparedFigure] = field(default_factory=list)
    statistics: dict[str, Any] = field(default_factory=dict)
    written: list[Path] = field(default_factory=list)


def convert(
    input_path: Path,
    output_path: Path,
    *,
    format: str = "auto",
    scheme: str = "auto",
    tokenizer: str = "blank:en",
    limit: int = 0,
    seed: int | None = None,
    n_sents: int = 1,
    set_name: str | None = None,
) -> Conversion:
    """Convert a file, or the splits of a folder, to .spacy files.

    Nothing is written unless the whole input is valid.

    Args:
        input_path: A file, a folder of BRAT or .spacy files, or a folder with the splits train,
            devel (dev, valid) and test.
        output_path: A .spacy file, or a folder for train.spacy, dev.spacy, test.spacy and
            stats.json.
        format: One of `formats.detection.FORMATS`, or auto.
        scheme: The label scheme of IOB files: auto, iob1, iob2 or bioes.
        tokenizer: The tokenizer of running text: `blank:LANG`, or name or path of a pipeline.
        limit: Number of sentences or documents to keep; 0 for all. For a folder, `limit` and `seed`
            apply to train only, so that the other splits stay comparable with published figures.
        seed: Seed to shuffle them before the limit; None to keep their order.
        n_sents: Number of consecutive sentences of an IOB file to join into one document.
        set_name: The corpus in the paper's Table 9 to compare a folder with; by default the name of
            the output folder.

    Raises:
        ValueError: If the input is invalid.
        OSError: If the output cannot be written. Existing files are unchanged.
    """
    sources = find_sources(input_path, output_path, format)
    is_set = sources[0].output != output_path
    nlp = load_tokenizer(tokenizer)
    conversion = Conversion([])
    train_keys: set[bytes] = set()
    for source in sources:
        whole = is_set and source.name != "train"
        split = read_split(
            source,
            nlp,
            scheme=scheme,
            limit=0 if whole else limit,
            seed=None if whole else seed,
            n_sents=n_sents,
        )
        if source.name == "train":
            train_keys = {text_key(text) for _, text in split.texts}
        else:
            split.duplicates = duplicate_warning(
                train_keys, split.texts, train="train", other=source.name
            )
        conversion.splits.append(split)
    if not limit:
        check_labels(conversion.splits)
    files = {split.source.output: split.data for split in conversion.splits}
    if is_set:
        add_statistics(conversion, set_name or output_path.resolve().name, tokenizer)
        data = json.dumps(conversion.statistics, indent=2, ensure_ascii=False) + "\n"
        files[output_path / STATISTICS] = data.encode("utf8")
    # Input that only its owner can read, such as clinical notes, stays private.
    mode = 0o666 if input_path.stat().st_mode & 0o077 else 0o600
    try:
        replace_files(files, mode)
    except OSError as err:
        raise OSError(
            f"{err.filename} cannot be written ({err.strerror}). Nothing was written, and "
            "existing files are unchanged. Free disk space, or give another output."
        ) from None
    conversion.written = list(files)
    return conversion


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
        "left_out": {
            name: [{"id": doc, **left._asdict()} for doc, left in split.left_out]
            for name, split in splits.items()
        },
    }


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
