"""Find the splits of an annotated corpus: a file, a folder of BRAT files, Arrow files or `.spacy`
shards, or a folder in which each split is one of these.

    set/train.tsv  set/devel.tsv  set/test.tsv          (or dev, valid; any of SUFFIXES)
    set/train/7.txt  set/train/7.ann  set/dev/...       BRAT
    set/train/00000.spacy  set/train/00001.spacy ...    shards
    set/train/data-00000-of-00001.arrow ...             Hugging Face, written by save_to_disk
    set/train-00000-of-00001.parquet ...                Hugging Face, as on the hub
    set/documents  set/annotations                      EBM-NLP, with its own splits
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ..errors import Errors
from .formats.detection import FORMATS, detect_format
from .formats.ebm_nlp import is_ebm_nlp
from .formats.hugging_face import is_hugging_face
from .formats.records import SPLITS

# The names of the input files without suffix, by the name of the output.
SPLIT_NAMES = {
    "train": ("train",),
    "dev": ("devel", "dev", "valid", "validation"),
    "test": ("test",),
}
SUFFIXES = (
    *(".tsv", ".txt", ".iob", ".conll", ".pubtator", ".xml", ".json", ".jsonl", ".parquet"),
    ".spacy",
)
_ONE_SHARD = "-00000-of-00001"  # of a Hugging Face dataset


class Source(NamedTuple):
    """A split: its name, its input file or folder, the format of that, and its output file."""

    name: str
    path: Path
    format: str
    output: Path


def find_sources(
    input_path: Path, output_path: Path, format: str = "auto", *, to_split: bool = False
) -> list[Source]:
    """Find the splits of an input; train is the first if there is one.

    Args:
        input_path: A file, or a folder as above.
        output_path: A .spacy file, or a folder for one file per split.
        format: One of FORMATS, or auto to detect the format of each file.
        to_split: Whether the input has no splits yet, and gets them after reading. The only source
            has the output folder as its output.

    Raises:
        ValueError: If there are no splits, or the output does not fit the input.
    """
    _check_format(format)
    if not input_path.exists():
        raise ValueError(Errors.M106.format(path=input_path))
    if is_one_split(input_path):
        source = Source(output_path.stem, input_path, _look(input_path, format), output_path)
        sources = [source]
    elif format == "ebm_nlp" or (format == "auto" and is_ebm_nlp(input_path)):
        outputs = [output_path / f"{split}.spacy" for split in SPLITS]
        sources = [Source(o.stem, input_path, "ebm_nlp", o) for o in outputs]
    else:
        sources = [
            Source(split, path, _look(path, format), output_path / f"{split}.spacy")
            for split, path in _find_splits(input_path).items()
        ]
    is_file = sources[0].output == output_path
    if to_split:
        if not is_file:
            raise ValueError(
                f"{input_path} has splits already: {', '.join(s.name for s in sources)}. Leave "
                "--split out, or give one file."
            )
        if output_path.suffix == ".spacy" or output_path.is_file():
            raise ValueError(f"--split writes a folder, but {output_path} is a file.")
        return sources
    is_taken = output_path.is_dir() if is_file else output_path.is_file()
    onto_itself = {s.output.resolve() for s in sources} & {s.path.resolve() for s in sources}
    if (output_path.suffix == ".spacy") != is_file or is_taken or onto_itself:
        raise ValueError(
            f"The output {output_path} does not fit the input: a file, or a folder of BRAT "
            "files, is converted to a file that ends in '.spacy', a folder with splits to a "
            "folder, and never onto itself. Give another output."
        )
    return sources


def _splits_in(folder: Path) -> dict[str, list[Path]]:
    """Return the entries of a folder that have the name of each split."""
    entries = sorted(folder.iterdir())
    return {
        split: [
            entry
            for entry in entries
            if (entry.is_dir() and entry.name in stems)
            or (
                entry.stem.removesuffix(_ONE_SHARD) in stems
                and entry.suffix.lower() in SUFFIXES
                and entry.is_file()
            )
        ]
        for split, stems in SPLIT_NAMES.items()
    }


def _find_splits(folder: Path) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for split, paths in _splits_in(folder).items():
        if len(paths) > 1:
            names = ", ".join(path.name for path in paths)
            raise ValueError(
                f"The folder {folder} holds several files or folders of the {split} split: "
                f"{names}. Keep one of them."
            )
        if paths:
            found[split] = paths[0]
    if not found:
        stems = tuple(stem for names in SPLIT_NAMES.values() for stem in names)
        kinds = f"{', '.join(SUFFIXES)}, or folders of BRAT, Arrow or .spacy files"
        expected = f"{', '.join(stems)} ({kinds})"
        raise ValueError(
            f"The folder {folder} holds none of the splits {expected}. Rename its files, or "
            "convert them one by one."
        )
    return found


def is_one_split(path: Path) -> bool:
    """Return whether an input is one split, and not a folder of splits."""
    return (
        path.is_file()
        or _is_brat(path)
        or _is_shards(path)
        or (is_hugging_face(path) and not any(_splits_in(path).values()))
    )


def name_splits(paths: Sequence[Path], output_path: Path, format: str = "auto") -> list[Source]:
    """Return the splits that several inputs are, by a part of their names: `notes_train.jsonl` is
    train. Train is the first.

    Args:
        paths: Files, or folders of BRAT files.
        output_path: The folder of the outputs.
        format: One of FORMATS, or auto to detect the format of each.

    Raises:
        ValueError: If the format is unknown, a name does not tell a split, or two tell the same.
    """
    _check_format(format)
    found: dict[str, Path] = {}
    for path in paths:
        if not path.exists():
            raise ValueError(Errors.M106.format(path=path))
        words = set(re.split(r"[^a-z]+", path.name.partition(".")[0].lower()))
        names = [name for name, stems in SPLIT_NAMES.items() if words & set(stems)]
        if len(names) != 1 or names[0] in found:
            raise ValueError(
                f"{path}: its name must tell which split it is, as train, dev and test do, and no "
                "other input may be the same. Rename it, or give one file, which is then split."
            )
        found[names[0]] = path
    return [
        Source(name, found[name], _look(found[name], format), output_path / f"{name}.spacy")
        for name in SPLIT_NAMES
        if name in found
    ]


def _check_format(format: str) -> None:
    if format not in ("auto", *FORMATS):
        expected = ", ".join(("auto", *FORMATS))
        raise ValueError(Errors.M101.format(what="format", got=format, expected=expected))


def _is_brat(folder: Path) -> bool:
    return any(f.suffix == ".ann" and f.is_file() for f in folder.iterdir())


def _is_shards(folder: Path) -> bool:
    known = [name for names in SPLIT_NAMES.values() for name in names]
    return any(f.suffix == ".spacy" and f.stem not in known for f in folder.iterdir())


def _look(path: Path, format: str) -> str:
    if format != "auto":
        return format
    if path.is_dir():
        if is_hugging_face(path):
            return "hugging_face"
        return "spacy" if _is_shards(path) else "brat"
    return detect_format(path)
