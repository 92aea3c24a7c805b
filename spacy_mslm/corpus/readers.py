"""Corpora for training: IOB files and `.spacy` files -> reference Docs -> Examples.

Every document carries an id in `doc.user_data["id"]`: messages name it, and never quote the text.
Errors are ValueErrors that name the file and, where there is one, the line.
"""

import hashlib
import logging
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np
from spacy.attrs import ENT_IOB, ENT_TYPE
from spacy.language import Language
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Corpus, Example
from spacy.vocab import Vocab

from ..errors import Errors
from .formats.iob import read_iob
from .formats.records import Sentence
from .label_schemes import Mention, check_scheme

logger = logging.getLogger("spacy_mslm")

Reader = Callable[[Language], Iterator[Example]]
ItemT = TypeVar("ItemT")

MAX_LISTED = 10


# ---- registered functions ----


def make_iob_reader(
    path: str | Path | None,
    limit: int = 0,
    seed: int | None = None,
    scheme: str = "auto",
) -> Reader:
    """Examples of an IOB file, a sentence each, with the file's own tokens.

    path: The file: a token and its tag on every line, an empty line after every sentence.
    limit: Only the first so many sentences; 0 for all.
    seed: Shuffle the sentences, always in the same order, before the limit; null for file order.
    scheme: The tags' scheme: auto, iob1, iob2 or bioes (for BILOU too).
    """
    file = _require_path(path)
    check_scheme(scheme)

    def read(nlp: Language) -> Iterator[Example]:
        docs = _iob_docs(file, nlp.vocab, scheme)
        yield from _make_examples(nlp, file, select(docs, limit, seed))

    return read


def make_corpus(path: str | Path | None, limit: int = 0, seed: int | None = None) -> Reader:
    """Examples of a `.spacy` file, of all `.spacy` files of a folder, or of an IOB file.

    path: The file or folder.
    limit: Only the first so many documents; 0 for all.
    seed: Shuffle the documents, always in the same order, before the limit; null for file order.
    """
    source = _require_path(path)
    faults = GoldFaults(source)

    def read(nlp: Language) -> Iterator[Example]:
        docs = read_gold(source, nlp.vocab, faults)
        yield from _make_examples(nlp, source, select(docs, limit, seed))
        faults.report()

    return read


def make_duplicate_report(train: str | None, dev: str | None) -> Callable[[Language], Language]:
    """A callback for `[initialize.after_init]` that warns when texts of dev are also in train."""

    def report(nlp: Language) -> Language:
        if train is not None and dev is not None:
            # A vocabulary of its own: the pipeline's must not take in the corpora's words.
            train_keys = {text_key(doc.text) for doc in read_docs(Path(train), Vocab())}
            dev_docs = read_docs(Path(dev), Vocab())
            texts = ((doc.user_data["id"], doc.text) for doc in dev_docs)
            warning = duplicate_warning(train_keys, texts, train=train, other=dev)
            if warning:
                logger.warning(warning)
        return nlp

    return report


# ---- IOB files ----


def sentences_to_doc(vocab: Vocab, sentences: Sequence[Sentence], *, starts: bool = True) -> Doc:
    """A reference Doc of consecutive sentences: tokens, entities, and the id of the first. The
    tokens of mentions that are left out have no annotation.

    The spaces between the tokens are left unknown, which such files do not tell: spaCy then keeps
    the tokens, instead of tokenising the joined text again.

    starts: Mark where the sentences start; not for records that are longer than a sentence.
    """
    words: list[str] = []
    firsts: list[bool | int | None] = []
    mentions: list[Mention] = []
    missing: set[int] = set()
    for sentence in sentences:
        offset = len(words)
        words.extend(sentence.words)
        firsts.extend(i == 0 for i in range(len(sentence.words)))
        mentions.extend((offset + s, offset + e, label) for s, e, label in sentence.mentions)
        missing.update(
            offset + i for left in sentence.left_out for i in range(left.start, left.end)
        )
    doc = Doc(vocab, words=words, sent_starts=firsts if starts else None)
    set_mentions(doc, mentions, missing)
    doc.user_data["id"] = sentences[0].id
    return doc


def set_mentions(doc: Doc, mentions: Iterable[Mention], missing: Iterable[int]) -> None:
    """Set the entities, which do not overlap; of the other tokens those that are `missing` have no
    annotation, and the rest are outside."""
    ents = [Span(doc, start, end, label=label) for start, end, label in mentions]
    taken = {token.i for ent in ents for token in ent}
    unknown = [Span(doc, i, i + 1) for i in sorted(set(missing) - taken)]
    doc.set_ents(ents, missing=unknown, default="outside")


def _iob_docs(path: Path, vocab: Vocab, scheme: str) -> Iterator[Doc]:
    for sentence in read_iob(path, scheme):
        yield sentences_to_doc(vocab, [sentence])


# ---- .spacy files ----


def read_docs(path: Path, vocab: Vocab) -> Iterator[Doc]:
    """The reference Docs of a `.spacy` file, a folder of them, or an IOB file, each with an id."""
    if path.is_dir():
        files = sorted(f for f in path.rglob("*.spacy") if f.is_file() and f.name[0] != ".")
        if not files:
            raise ValueError(
                f"The folder {path} holds no .spacy file. Write them with 'python -m spacy "
                "mslm convert'."
            )
        yield from _docbin_docs(files, vocab, folder=path)
    elif path.suffix == ".spacy":
        yield from _docbin_docs([path], vocab, folder=path.parent)
    else:
        yield from _iob_docs(path, vocab, scheme="auto")


def read_gold(path: Path, vocab: Vocab, faults: "GoldFaults | None" = None) -> Iterator[Doc]:
    """The same, with entities that can be read: spaCy fails on others with the text in its message.

    faults: where those that cannot be are noted.
    """
    faults = faults or GoldFaults(path)
    for doc in read_docs(path, vocab):
        yield faults.check(doc)


def _docbin_docs(files: list[Path], vocab: Vocab, folder: Path) -> Iterator[Doc]:
    for file in files:
        if not file.exists():
            raise ValueError(Errors.M106.format(path=file))
        count = 0
        try:
            for doc in DocBin().from_disk(file).get_docs(vocab):
                doc.user_data.setdefault("id", f"{file.relative_to(folder).as_posix()}:{count}")
                count += 1
                yield doc
        except OSError:
            raise
        except Exception as err:
            # Damage surfaces as anything from a zlib error to an index error, and some of spaCy's
            # messages hold tokens: only the error's type is told.
            reason = f"{file.stat().st_size} bytes, {type(err).__name__}"
            raise ValueError(
                f"{file} is damaged or no .spacy file ({reason}). Write it again with 'python "
                "-m spacy mslm convert'."
            ) from None
        if count == 0:
            raise ValueError(
                f"{file} holds no documents. Write the .spacy files again with 'python -m "
                "spacy mslm convert'."
            )


class GoldFaults:
    """Gold spans that spaCy drops without a word, collected over a corpus and told once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.places: dict[str, None] = {}
        self.reported = False

    def check(self, doc: Doc) -> Doc:
        """Note the zero-length and unlabelled spans of a Doc; its entities without a label become
        missing values, as spaCy can fail on them with the text in its message."""
        broken = _broken_entity(doc)
        if broken is not None:
            place = f"{doc.user_data['id']}, token {broken}"
            raise ValueError(
                f"{self.path}: document {place}: the token continues an entity that does not "
                "begin anywhere. Correct the annotation, or write the file again with 'python "
                "-m spacy mslm convert'."
            )
        spans = [(s.start, s.end) for g in doc.spans.values() for s in g if s.start >= s.end]
        spans += [(s.start, s.end) for g in doc.spans.values() for s in g if s and not s.label_]
        unlabelled = _unlabelled_entities(doc)
        if unlabelled:
            missing = [doc[start:end] for start, end in unlabelled]
            doc.set_ents([], missing=missing, default="unmodified")
        for start, end in spans + unlabelled:
            self.places[f"{doc.user_data['id']} tokens {start}-{end}"] = None
        return doc

    def report(self) -> None:
        """Warn, after the first full pass only: a corpus is read again at every evaluation."""
        if self.places and not self.reported:
            places = listing(list(self.places))
            logger.warning(
                f"{self.path}: {len(self.places)} gold span(s) cannot be learned, as they "
                f"are zero-length or have an empty label: {places}. Correct them and write "
                "the file again."
            )
        self.reported = True


def _unlabelled_entities(doc: Doc) -> list[tuple[int, int]]:
    """Token ranges that are marked as an entity (I = 1, B = 3) but have no type."""
    iob, types = doc.to_array([ENT_IOB, ENT_TYPE]).reshape(-1, 2).T
    ranges: list[tuple[int, int]] = []
    for i in ((types == 0) & ((iob == 1) | (iob == 3))).nonzero()[0].tolist():
        if ranges and ranges[-1][1] == i and iob[i] == 1:
            ranges[-1] = (ranges[-1][0], i + 1)
        else:
            ranges.append((i, i + 1))
    return ranges


def _broken_entity(doc: Doc) -> int | None:
    """The first token inside (I = 1) an entity that has no beginning."""
    iob = doc.to_array([ENT_IOB]).reshape(-1)
    before = np.concatenate([[0], iob[:-1]])
    broken = ((iob == 1) & (before != 1) & (before != 3)).nonzero()[0]
    return int(broken[0]) if len(broken) else None


# ---- texts that occur twice ----


def text_key(text: str) -> bytes:
    """A hash of a text, whatever its white space; empty when there is nothing else in it."""
    text = " ".join(text.split())
    return hashlib.blake2b(text.encode("utf8"), digest_size=16).digest() if text else b""


def duplicate_warning(
    train_keys: set[bytes], texts: Iterable[tuple[str, str]], *, train: str, other: str
) -> str:
    """A message on the texts, given as (id, text), whose key is in train too; "" for none."""
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
        f"{len(found)} of the {total} texts of {other} are also in {train}, so that scores on "
        f"them may be too high: {listing(found)}. Remove them from {train}."
    )


# ---- shared ----


def _require_path(path: str | Path | None) -> Path:
    if path is None:
        raise ValueError(
            "No path to the corpus is set. Give --paths.train and --paths.dev on the command "
            "line, or set them in [paths] of the config."
        )
    return Path(path)


def select(items: Iterable[ItemT], limit: int, seed: int | None) -> Iterator[ItemT]:
    """The first items, after a shuffle where a seed is given."""
    if seed is not None:
        items = list(items)
        random.Random(seed).shuffle(items)
    return islice(items, limit or None)


def _make_examples(nlp: Language, path: Path, docs: Iterable[Doc]) -> Iterator[Example]:
    """spaCy's own Corpus makes the Examples: it keeps the tokens where spaces are unknown,
    tokenises the text where they are known, and leaves out Docs without tokens."""
    for example in Corpus(path).make_examples(nlp, docs):
        example.predicted.user_data["id"] = example.reference.user_data["id"]
        yield example


def listing(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    more = len(names) - MAX_LISTED
    return ", ".join(names[:MAX_LISTED]) + (f" and {more} more" if more > 0 else "")
