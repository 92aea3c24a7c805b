"""The items of a split, whatever its format: sentences with tokens, documents of running text, or
the Docs of a `.spacy` file."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from spacy.tokens import Doc
from spacy.vocab import Vocab

from .formats.bioc import read_bioc
from .formats.bioc_json import read_bioc_json
from .formats.brat import read_brat
from .formats.ebm_nlp import read_ebm_nlp
from .formats.gliner import read_gliner
from .formats.hugging_face import read_hugging_face
from .formats.iob import read_iob
from .formats.jsonl import read_jsonl
from .formats.label_studio import read_label_studio
from .formats.pubtator import read_pubtator
from .formats.records import Document, Sentence
from .gold_faults import GoldFaults
from .readers import read_gold
from .splits import Source

Item: TypeAlias = Sentence | Document | Doc

TEXT_FORMATS: dict[str, Callable[[Path], Iterator[Document]]] = {
    "brat": read_brat,
    "pubtator": read_pubtator,
    "bioc": read_bioc,
    "bioc_json": read_bioc_json,
}
RECORD_FORMATS: dict[str, Callable[[Path, str], Iterator[Item]]] = {
    "jsonl": read_jsonl,
    "label_studio": read_label_studio,
    "gliner": read_gliner,
}
# The formats that an option applies to, and their name in messages.
_APPLIES = {
    "--scheme": (("iob", "hugging_face"), "IOB files and Hugging Face datasets"),
    "--n-sents": (("iob",), "IOB files"),
    "--tags": (("hugging_face",), "Hugging Face datasets"),
    "--group": ((*RECORD_FORMATS, "hugging_face"), "JSON records and Hugging Face datasets"),
}


@dataclass(frozen=True)
class ReadOptions:
    """How files are read.

    scheme: The label scheme of tags: auto, iob1, iob2 or bioes.
    tags: The names of numeric tags in Hugging Face datasets.
    group: The key of JSON records whose value says which of them belong together.
    n_sents: Number of consecutive sentences of an IOB file to join into one document.
    """

    scheme: str = "auto"
    tags: tuple[str, ...] = ()
    group: str = ""
    n_sents: int = 1


def read_items(source: Source, vocab: Vocab, options: ReadOptions) -> list[Item]:
    """Read all items of a source.

    Args:
        source: The file or folder, and its format.
        vocab: For the Docs of `.spacy` files.
        options: How files are read.

    Raises:
        ValueError: If the input is invalid, or an option does not apply to its format.
    """
    _check_options(source, options)
    path = source.path
    if source.format in TEXT_FORMATS:
        return list(TEXT_FORMATS[source.format](path))
    if source.format in RECORD_FORMATS:
        return list(RECORD_FORMATS[source.format](path, options.group))
    if source.format == "hugging_face":
        return list(read_hugging_face(path, options.scheme, options.tags, options.group))
    if source.format == "iob":
        return list(read_iob(path, options.scheme))
    if source.format == "ebm_nlp":
        return list(read_ebm_nlp(path, source.name))
    faults = GoldFaults(path)
    docs: list[Item] = list(read_gold(path, vocab, faults))
    faults.report()
    return docs


def _check_options(source: Source, options: ReadOptions) -> None:
    given = {
        "--scheme": options.scheme != "auto",
        "--n-sents": options.n_sents > 1,
        "--tags": bool(options.tags),
        "--group": bool(options.group),
    }
    for option, (formats, name) in _APPLIES.items():
        if given[option] and source.format not in formats:
            raise ValueError(
                f"{option} applies to {name} only, but the format of {source.path} is "
                f"{source.format}. Leave the option out, or name the format (--format)."
            )


def item_id(item: Item) -> str:
    """Return the id of an item."""
    return str(item.user_data["id"]) if isinstance(item, Doc) else item.id


def item_text(item: Item) -> str:
    """Return the text of an item; that of a sentence is its tokens with spaces between them."""
    return " ".join(item.words) if isinstance(item, Sentence) else item.text


def item_group(item: Item) -> str:
    """Return the group of an item, or "" if it has none."""
    return "" if isinstance(item, Doc) else item.group
