"""Corpora for training: IOB files and `.spacy` files -> reference Docs -> Examples.

Every document has an id in `doc.user_data["id"]`, by which messages name it: they never quote text.
Errors are ValueErrors that name the file and, in text files, the line.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TypeVar

from spacy.language import Language
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Corpus, Example
from spacy.vocab import Vocab

from ..errors import Errors
from ..types import Mention
from ..util.settings import check_at_least
from .formats.iob import read_iob
from .formats.records import Sentence
from .gold_faults import GoldFaults

Reader = Callable[[Language], Iterator[Example]]
ItemT = TypeVar("ItemT")


def make_corpus(path: str | Path | None, limit: int = 0, seed: int | None = None) -> Reader:
    """Create the reader `spacy_mslm.Corpus.v1`, which yields an Example per document.

    path: A `.spacy` file, a folder of them, or an IOB file, of which every sentence is a document
        with the file's own tokens, and whose tag scheme is detected.
    limit: Maximum number of documents; 0 for all.
    seed: Seed of a shuffle before the limit is applied; null to keep the order of the file.
    """
    if path is None:
        raise ValueError(
            "No path to the corpus is set. Give --paths.train and --paths.dev on the command "
            "line, or set them in [paths] of the config."
        )
    check_at_least("limit of the corpus", limit, 0)
    source = Path(path)
    faults = GoldFaults(source)

    def read(nlp: Language) -> Iterator[Example]:
        docs = select(read_gold(source, nlp.vocab, faults), limit, seed)
        # spaCy's Corpus keeps the tokens where spaces are unknown, tokenises the text where they
        # are known, and leaves out Docs without tokens.
        for example in Corpus(source).make_examples(nlp, docs):
            example.predicted.user_data["id"] = example.reference.user_data["id"]
            yield example
        faults.report()

    return read


def read_docs(path: Path, vocab: Vocab) -> Iterator[Doc]:
    """Yield the reference Docs of a `.spacy` file, a folder of them, or an IOB file, each with an
    id in its user data."""
    if path.is_dir():
        files = spacy_files(path)
        if not files:
            raise ValueError(
                f"The folder {path} holds no .spacy file. Write them with 'python -m spacy "
                "mslm convert'."
            )
        yield from _docbin_docs(files, vocab, folder=path)
    elif path.suffix == ".spacy":
        yield from _docbin_docs([path], vocab, folder=path.parent)
    else:
        for sentence in read_iob(path):
            yield sentences_to_doc(vocab, [sentence])


def count_documents(path: Path) -> int:
    """Count the documents with tokens in a `.spacy` file, a folder of them, or an IOB file."""
    return sum(len(doc) > 0 for doc in read_docs(path, Vocab()))


def read_gold(path: Path, vocab: Vocab, faults: GoldFaults | None = None) -> Iterator[Doc]:
    """Yield the Docs of `read_docs`, checked for annotation on which spaCy fails.

    faults: Collects the faulty spans, which become missing values.
    """
    faults = faults or GoldFaults(path)
    for doc in read_docs(path, vocab):
        yield faults.check(doc)


def spacy_files(folder: Path) -> list[Path]:
    """Return the `.spacy` files in a folder and its subfolders, sorted, without hidden ones."""
    return sorted(f for f in folder.rglob("*.spacy") if f.is_file() and f.name[0] != ".")


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
            # Damage raises anything from a zlib error to an index error, and some of spaCy's
            # messages hold tokens: show the type of the error only.
            reason = f"{file.stat().st_size} bytes, {type(err).__name__}"
            raise ValueError(
                f"{file} is damaged, or not a .spacy file ({reason}). Write it again with "
                "'python -m spacy mslm convert'."
            ) from None
        if count == 0:
            raise ValueError(
                f"{file} holds no documents. Write the .spacy files again with 'python -m "
                "spacy mslm convert'."
            )


def select(items: Iterable[ItemT], limit: int, seed: int | None) -> Iterator[ItemT]:
    """Shuffle the items if a seed is given, then yield the first `limit` of them; 0 for all."""
    if seed is not None:
        items = list(items)
        random.Random(seed).shuffle(items)
    return islice(items, limit or None)


def sentences_to_doc(vocab: Vocab, sentences: Sequence[Sentence], *, starts: bool = True) -> Doc:
    """Create a reference Doc of consecutive sentences, with the id of the first.

    Tokens of mentions that are left out have no annotation. The spaces between the tokens are set
    as unknown, as tokenised files do not hold them: spaCy then keeps the tokens instead of
    tokenising the joined text.

    starts: Set sentence starts; false for records that are longer than a sentence.
    """
    words: list[str] = []
    firsts: list[bool | int | None] = []
    mentions: list[Mention] = []
    missing: set[int] = set()
    for sentence in sentences:
        offset = len(words)
        words.extend(sentence.words)
        firsts.extend(i == 0 for i in range(len(sentence.words)))
        mentions.extend(Mention(offset + s, offset + e, label) for s, e, label in sentence.mentions)
        missing.update(
            offset + i for left in sentence.left_out for i in range(left.start, left.end)
        )
    doc = Doc(vocab, words=words, sent_starts=firsts if starts else None)
    set_mentions(doc, mentions, missing)
    doc.user_data["id"] = sentences[0].id
    return doc


def set_mentions(doc: Doc, mentions: Iterable[Mention], missing: Iterable[int]) -> None:
    """Set the entities of a Doc.

    mentions: Mentions in tokens, without overlaps.
    missing: Tokens without annotation, unless a mention covers them. All others are outside.
    """
    ents = [Span(doc, start, end, label=label) for start, end, label in mentions]
    taken = {token.i for ent in ents for token in ent}
    unknown = [Span(doc, i, i + 1) for i in sorted(set(missing) - taken)]
    doc.set_ents(ents, missing=unknown, default="outside")
