"""Detection of texts that are in two splits of a corpus."""

import hashlib
import logging
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from spacy.language import Language
from spacy.vocab import Vocab

from ..errors import listing
from .readers import read_docs

logger = logging.getLogger("spacy_mslm")


def make_duplicate_report(
    train: str | Sequence[str] | None, dev: str | Sequence[str] | None
) -> Callable[[Language], Language]:
    """Create the callback `spacy_mslm.report_duplicates.v1` for `[initialize.after_init]`, which
    warns if texts of the development set are also in the training set.

    train: Path of the training set, as for `spacy_mslm.Corpus.v1`, or a list of the paths of
        several corpora. Null to compare nothing.
    dev: Path or paths of the development set. Null to compare nothing.
    """
    train_paths, dev_paths = _listed(train), _listed(dev)

    def report(nlp: Language) -> Language:
        if train_paths and dev_paths:
            # Separate vocabularies: the pipeline's must not take in the words of the corpora.
            train_keys = {
                text_key(doc.text) for path in train_paths for doc in read_docs(path, Vocab())
            }
            names = ", ".join(map(str, train_paths))
            for path in dev_paths:
                texts = ((doc.user_data["id"], doc.text) for doc in read_docs(path, Vocab()))
                warning = duplicate_warning(train_keys, texts, train=names, other=str(path))
                if warning:
                    logger.warning(warning)
        return nlp

    return report


def _listed(paths: str | Sequence[str] | None) -> list[Path]:
    return [Path(path) for path in ([paths] if isinstance(paths, str) else paths or ())]


def text_key(text: str) -> bytes:
    """Hash a text regardless of its white space. Returns b"" for a text of white space only."""
    text = " ".join(text.split())
    return hashlib.blake2b(text.encode("utf8"), digest_size=16).digest() if text else b""


def duplicate_warning(
    train_keys: set[bytes], texts: Iterable[tuple[str, str]], *, train: str, other: str
) -> str:
    """Return a message that lists the texts that are also in the training set; "" if none is.

    train_keys: The `text_key` of each training text.
    texts: Ids and texts of another set.
    train: Name of the training set in the message.
    other: Name of the other set in the message.
    """
    total = 0
    found = []
    for name, text in texts:
        key = text_key(text)
        total += bool(key)
        if key and key in train_keys:
            found.append(name)
    if not found:
        return ""
    return (
        f"{len(found)} of the {total} texts of {other} are also in {train}, so scores on "
        f"them may be too high: {listing(found)}. Remove them from {train}, "
        "or convert the corpus with --dedup."
    )
