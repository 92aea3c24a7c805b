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
from typing import NamedTuple, TypeVar

import numpy as np
from spacy.attrs import ENT_IOB, ENT_TYPE
from spacy.language import Language
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Corpus, Example
from spacy.vocab import Vocab

from .errors import Errors, Warnings
from .label_schemes import Mention, check_scheme, decode_tags, detect_scheme

logger = logging.getLogger("spacy_mslm")

Reader = Callable[[Language], Iterator[Example]]
ItemT = TypeVar("ItemT")

DOC_START = "-DOCSTART-"
MAX_LISTED = 10


class IobSentence(NamedTuple):
    """A sentence of an IOB file; line is that of its first token."""

    words: list[str]
    mentions: list[Mention]
    line: int


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
    faults = _GoldFaults(source)

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


def read_iob(path: str | Path, scheme: str = "auto") -> Iterator[IobSentence]:
    """The sentences of an IOB file, one after the other.

    Columns are separated by tabs or, on a line without a tab, by spaces; the first is the token,
    the last the tag. `-DOCSTART-` lines end a sentence and are skipped. With `auto` the file is
    read twice, as its scheme is only known at its end.
    """
    path = Path(path)
    check_scheme(scheme)
    if scheme == "auto":
        rows = ((line, tags) for line, _, tags in _read_rows(path))
        scheme = detect_scheme(rows, source=str(path))
    found = False
    for line, words, tags in _read_rows(path):
        found = True
        mentions = decode_tags(tags, scheme, source=str(path), first_line=line)
        yield IobSentence(words, mentions, line)
    if not found:
        raise ValueError(Errors.M110.format(path=path))


def sentences_to_doc(vocab: Vocab, sentences: Sequence[IobSentence], file_name: str) -> Doc:
    """A reference Doc of consecutive sentences: tokens, sentence starts, entities, id.

    The spaces between the tokens are left unknown, which an IOB file does not tell: spaCy then
    keeps the tokens, instead of tokenising the joined text again.
    """
    words: list[str] = []
    starts: list[bool | int | None] = []
    mentions: list[Mention] = []
    for sentence in sentences:
        offset = len(words)
        words.extend(sentence.words)
        starts.extend(i == 0 for i in range(len(sentence.words)))
        mentions.extend((offset + s, offset + e, label) for s, e, label in sentence.mentions)
    doc = Doc(vocab, words=words, sent_starts=starts)
    doc.set_ents([Span(doc, s, e, label=label) for s, e, label in mentions], default="outside")
    doc.user_data["id"] = f"{file_name}:{sentences[0].line}"
    return doc


def _read_rows(path: Path) -> Iterator[tuple[int, list[str], list[str]]]:
    """The line of the first token, the tokens and the tags of every sentence. A sentence has no
    line in it that is not a token, so that the n-th tag is n lines further down."""
    words: list[str] = []
    tags: list[str] = []
    line_number = 0
    for line_number, line in _read_lines(path):
        columns = _columns(line)
        if not any(columns) or columns[0] == DOC_START:
            if words:
                yield line_number - len(words), words, tags
                words, tags = [], []
            continue
        if len(columns) == 1 or not columns[-1]:
            raise ValueError(Errors.M107.format(path=path, line=line_number))
        if not columns[0]:
            raise ValueError(Errors.M108.format(path=path, line=line_number))
        words.append(columns[0])
        tags.append(columns[-1])
    if words:
        yield line_number - len(words) + 1, words, tags


def _columns(line: str) -> list[str]:
    # str.split() would also cut at no-break and other spaces inside of tokens.
    if "\t" in line:
        return [column.strip(" ") for column in line.split("\t")]
    return [column for column in line.split(" ") if column]


def _read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The numbered lines of a UTF-8 file. Lines end at a newline only: str.splitlines would also
    cut at characters that occur inside of tokens, such as U+2028."""
    if path.is_dir():
        raise ValueError(Errors.M115.format(path=path))
    if not path.exists():
        raise ValueError(Errors.M106.format(path=path))
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            try:
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError:
                # Not chained: the cause holds the line's bytes.
                raise ValueError(Errors.M109.format(path=path, line=number)) from None
            yield number, line.rstrip("\r\n")


def _iob_docs(path: Path, vocab: Vocab, scheme: str) -> Iterator[Doc]:
    for sentence in read_iob(path, scheme):
        yield sentences_to_doc(vocab, [sentence], path.name)


# ---- .spacy files ----


def read_docs(path: Path, vocab: Vocab) -> Iterator[Doc]:
    """The reference Docs of a `.spacy` file, a folder of them, or an IOB file, each with an id."""
    if path.is_dir():
        files = sorted(f for f in path.rglob("*.spacy") if f.is_file() and f.name[0] != ".")
        if not files:
            raise ValueError(Errors.M114.format(path=path))
        yield from _docbin_docs(files, vocab, folder=path)
    elif path.suffix == ".spacy":
        yield from _docbin_docs([path], vocab, folder=path.parent)
    else:
        yield from _iob_docs(path, vocab, scheme="auto")


def read_gold(path: Path, vocab: Vocab, faults: "_GoldFaults | None" = None) -> Iterator[Doc]:
    """The same, with entities that can be read: spaCy fails on others with the text in its message.

    faults: where those that cannot be are noted.
    """
    faults = faults or _GoldFaults(path)
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
            raise ValueError(Errors.M112.format(path=file, reason=reason)) from None
        if count == 0:
            raise ValueError(Errors.M113.format(path=file))


class _GoldFaults:
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
            raise ValueError(Errors.M119.format(path=self.path, place=place))
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
            places = _listing(list(self.places))
            logger.warning(
                Warnings.W101.format(path=self.path, count=len(self.places), places=places)
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
    return Warnings.W102.format(
        count=len(found), total=total, other=other, train=train, ids=_listing(found)
    )


# ---- shared ----


def _require_path(path: str | Path | None) -> Path:
    if path is None:
        raise ValueError(Errors.M111)
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


def _listing(names: Sequence[str]) -> str:
    more = len(names) - MAX_LISTED
    return ", ".join(names[:MAX_LISTED]) + (f" and {more} more" if more > 0 else "")
