"""`python -m spacy mslm convert`: IOB files -> `.spacy` files."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import Errors, Warnings

if TYPE_CHECKING:
    from spacy.vocab import Vocab

    from ..readers import IobSentence

# The names of the splits' files without their suffix, by the name of what is written.
SPLIT_NAMES = {"train": ("train",), "dev": ("devel", "dev"), "test": ("test",)}
SUFFIXES = (".tsv", ".txt", ".iob", ".conll")


@dataclass
class Split:
    """A converted file: what is written, and what is told of it."""

    name: str
    output: Path
    data: bytes
    docs: int
    tokens: int
    mentions: int
    labels: set[str]
    duplicates: str = ""


def convert_cli(
    input_path: Annotated[
        Path,
        typer.Argument(
            metavar="INPUT", help="IOB file, or folder with train, devel (or dev) and test files"
        ),
    ],
    output_path: Annotated[
        Path,
        typer.Argument(
            metavar="OUTPUT", help=".spacy file, or folder for train.spacy, dev.spacy, test.spacy"
        ),
    ],
    scheme: Annotated[str, typer.Option(help="auto, iob1, iob2 or bioes (for BILOU too)")] = "auto",
    limit: Annotated[
        int, typer.Option(min=0, help="First N sentences (of a folder: of train); 0 for all")
    ] = 0,
    seed: Annotated[
        int | None,
        typer.Option(help="Shuffle the sentences (of a folder: of train) before the limit"),
    ] = None,
    n_sents: Annotated[int, typer.Option(min=1, help="Sentences per document")] = 1,
) -> None:
    """Convert IOB files (token and tag columns; IOB1, IOB2 or BIOES) to .spacy files.

    Nothing is written unless all of the input is sound, and no file is ever left half-written.
    """
    from wasabi import msg

    try:
        splits = convert(
            input_path,
            output_path,
            scheme=scheme,
            limit=limit,
            seed=seed,
            n_sents=n_sents,
        )
    except (ValueError, OSError) as err:
        msg.fail("The conversion failed", str(err), exits=1)
    rows = [
        (s.name, s.docs, s.tokens, s.mentions, ", ".join(sorted(s.labels)) or "-") for s in splits
    ]
    header = ("split", "docs", "tokens", "mentions", "labels")
    msg.table(rows, header=header, divider=True, aligns=("l", "r", "r", "r", "l"))
    for warning in split_warnings(splits):
        msg.warn(warning)
    for split in splits:
        msg.good(f"Written: {split.output}")


def convert(
    input_path: Path,
    output_path: Path,
    *,
    scheme: str = "auto",
    limit: int = 0,
    seed: int | None = None,
    n_sents: int = 1,
) -> list[Split]:
    """Convert a file, or the splits of a folder, and write the result when all of it is read.

    scheme, limit, seed: As in `readers.make_iob_reader`. Of a folder, limit and seed concern train
        only: the other splits stay comparable with published figures.
    n_sents: Consecutive sentences to join into one document, with their starts marked.
    """
    from spacy.vocab import Vocab

    from ..files import replace_file
    from ..readers import duplicate_warning, read_iob, select, text_key

    vocab = Vocab()
    splits: list[Split] = []
    train_keys: set[bytes] = set()
    for name, source, target in find_files(input_path, output_path):
        if name == "train" or input_path.is_file():
            sentences = list(select(read_iob(source, scheme), limit, seed))
        else:
            sentences = list(read_iob(source, scheme))
        split = convert_sentences(name, sentences, vocab, source.name, target, n_sents)
        # Sentences are compared, not documents: joined ones differ as soon as one sentence does.
        texts = [(f"{source.name}:{s.line}", " ".join(s.words)) for s in sentences]
        if name == "train":
            train_keys = {text_key(text) for _, text in texts}
        else:
            split.duplicates = duplicate_warning(train_keys, texts, train="train", other=name)
        splits.append(split)
    for split in splits:
        split.output.parent.mkdir(parents=True, exist_ok=True)
        replace_file(split.output, split.data)
    return splits


def find_files(input_path: Path, output_path: Path) -> list[tuple[str, Path, Path]]:
    """The name, the source and the target of every split; train is first where there is one."""
    if not input_path.exists():
        raise ValueError(Errors.M106.format(path=input_path))
    if input_path.is_file():
        if output_path.suffix != ".spacy" or output_path.is_dir():
            raise ValueError(Errors.M118.format(path=output_path))
        return [(output_path.stem, input_path, output_path)]
    if output_path.suffix == ".spacy" or output_path.is_file():
        raise ValueError(Errors.M118.format(path=output_path))
    files = []
    for split, stems in SPLIT_NAMES.items():
        names = [stem + suffix for stem in stems for suffix in SUFFIXES]
        found = [name for name in names if (input_path / name).is_file()]
        if len(found) > 1:
            raise ValueError(
                Errors.M117.format(path=input_path, split=split, found=", ".join(found))
            )
        files += [(split, input_path / name, output_path / f"{split}.spacy") for name in found]
    if not files:
        all_stems = [stem for stems in SPLIT_NAMES.values() for stem in stems]
        expected = f"{', '.join(all_stems)} ({', '.join(SUFFIXES)})"
        raise ValueError(Errors.M116.format(path=input_path, expected=expected))
    return files


def convert_sentences(
    name: str,
    sentences: "list[IobSentence]",
    vocab: "Vocab",
    file_name: str,
    output: Path,
    n_sents: int,
) -> Split:
    """A split's documents, as the bytes of a `.spacy` file, with its counts."""
    from spacy.tokens import DocBin

    from ..readers import sentences_to_doc

    # Not all attributes: norms and the like are the vocabulary's, and only make the file larger.
    doc_bin = DocBin(attrs=["ENT_IOB", "ENT_TYPE", "SENT_START"], store_user_data=True)
    for start in range(0, len(sentences), n_sents):
        doc_bin.add(sentences_to_doc(vocab, sentences[start : start + n_sents], file_name))
    return Split(
        name=name,
        output=output,
        data=doc_bin.to_bytes(),
        docs=len(doc_bin),
        tokens=sum(len(s.words) for s in sentences),
        mentions=sum(len(s.mentions) for s in sentences),
        labels={label for s in sentences for _, _, label in s.mentions},
    )


def split_warnings(splits: list[Split]) -> list[str]:
    """What a user should know before training on these splits."""
    warnings = [split.duplicates for split in splits if split.duplicates]
    if len({frozenset(split.labels) for split in splits}) > 1:
        labels = "; ".join(f"{s.name}: {', '.join(sorted(s.labels)) or 'none'}" for s in splits)
        warnings.append(Warnings.W103.format(labels=labels))
    return warnings
