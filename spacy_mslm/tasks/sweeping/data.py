"""Data that a spec asks for: text without the sentences of the test sets, noisy annotation."""

import gzip
import random
from collections.abc import Iterable
from pathlib import Path

from spacy.vocab import Vocab

from ...corpus.formats.iob import read_iob
from ...corpus.readers import read_docs
from ...text.plain_texts import letters
from ...util.files import replace_file
from .spec import Spec, find_split


def write_text(spec: Spec, target: Path) -> None:
    """Copy the text of a spec (one sentence per line) without the sentences of all dev and test
    sets: those of the spec, and of other sets in the same folder.

    Args:
        spec: The spec, which has a text.
        target: The compressed copy.
    """
    assert spec.text is not None
    found = {path for files in spec.sets.values() for path in (files.dev, files.test)}
    for folder in spec.data.iterdir() if spec.data else ():
        found |= {find_split(folder, split) for split in ("dev", "test")}
    without_sentences(spec.text, sorted(Path(path) for path in found if path), target)


def without_sentences(source: Path, held_out: Iterable[Path], target: Path) -> None:
    """Copy plain text (one sentence per line, also .gz) without the sentences of some corpora."""
    known = {letters(" ".join(words)) for path in held_out for words in _sentences(path)}
    opened = gzip.open if source.suffix == ".gz" else open
    with opened(source, "rt", encoding="utf8") as file:
        kept = [line for line in file if letters(line) not in known]
    # Without the time, so that the same text is the same file.
    replace_file(target, gzip.compress("".join(kept).encode("utf8"), mtime=0))


def _sentences(path: Path) -> Iterable[list[str]]:
    for doc in read_docs(path, Vocab()):
        sentences = doc.sents if doc.has_annotation("SENT_START") else [doc]
        yield from ([token.text for token in sentence] for sentence in sentences)


def drop_mentions(source: Path, target: Path, share: float) -> Path:
    """Copy an IOB file without a random share of its mentions, as if annotators missed them."""
    generator = random.Random(0)
    lines = []
    for sentence in read_iob(source):
        tags = ["O"] * len(sentence.words)
        for start, end, label in sentence.mentions:
            if generator.random() >= share:
                tags[start:end] = [f"B-{label}"] + [f"I-{label}"] * (end - start - 1)
        lines += [f"{word}\t{tag}" for word, tag in zip(sentence.words, tags, strict=True)]
        lines.append("")
    replace_file(target, ("\n".join(lines) + "\n").encode("utf8"))
    return target
