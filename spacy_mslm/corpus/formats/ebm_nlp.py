"""EBM-NLP 2.00, outcomes: a folder with the tokens of one abstract per file, and a label per token.

    documents/{PMID}.tokens                                     "We measured systolic pressure ."
    annotations/aggregated/starting_spans/outcomes/...          0,0,1,1,0
    annotations/aggregated/hierarchical_labels/outcomes/...     0,0,1,1,0
        train/{PMID}.AGGREGATED.ann, test/gold/{PMID}.AGGREGATED.ann

A run of one hierarchical label is a mention; `ebm_nlp_labels.json` names the labels. A starting
span, or the part of one, without a hierarchical label is left out, and listed. The corpus has no
development set: every tenth article of train, in the order of the PMIDs, becomes one.
"""

import json
import re
from collections.abc import Iterator
from importlib.resources import files
from itertools import groupby
from pathlib import Path

from ...errors import Errors
from ...types import Mention
from ...util.lines import read_lines
from .records import LeftOut, Sentence, format_error

DEV_EVERY = 10
UNTYPED = "it has no type"
_LAYERS = "annotations/aggregated/{layer}/outcomes"


def is_ebm_nlp(folder: Path) -> bool:
    """Return whether a folder has the layout of EBM-NLP."""
    return (folder / "documents").is_dir() and (
        folder / _LAYERS.format(layer="hierarchical_labels")
    ).is_dir()


def read_ebm_nlp(folder: Path, split: str) -> Iterator[Sentence]:
    """Yield the articles of a split, each as one `Sentence` with its PMID as the id."""
    names = json.loads((files("spacy_mslm") / "data/ebm_nlp_labels.json").read_text("utf8"))
    labels = {int(number): label for number, label in names["labels"].items()}
    part = "test/gold" if split == "test" else "train"
    typed = folder / _LAYERS.format(layer="hierarchical_labels") / part
    found = sorted(typed.glob("*.ann"))
    if split != "test":
        found = [f for i, f in enumerate(found) if (i % DEV_EVERY == 0) == (split == "dev")]
    if not found:
        raise ValueError(Errors.M158.format(path=typed))
    for file in found:
        spans = folder / _LAYERS.format(layer="starting_spans") / part / file.name
        pmid = re.split(r"[._]", file.name)[0]
        document = folder / "documents" / f"{pmid}.tokens"
        for needed in (document, spans):
            if not needed.is_file():
                raise ValueError(Errors.M165.format(path=needed, other=file.name))
        words = [word for _, word in _words(document)]
        if not words:
            raise format_error(document, 1, "a document has at least one token")
        types = _read_labels(file, len(words), {0, *labels})
        starts = _read_labels(spans, len(words), {0, 1})
        mentions = [Mention(start, end, labels[n]) for start, end, n in _runs(types)]
        bare = [int(bool(span) and not kind) for span, kind in zip(starts, types, strict=True)]
        left_out = tuple(LeftOut(start, end, UNTYPED) for start, end, _ in _runs(bare))
        yield Sentence(pmid, words, mentions, 1, left_out)


def _words(path: Path, separators: str = r"[ \t\r]+") -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each word. str.split() would cut inside tokens."""
    for number, line in read_lines(path):
        yield from ((number, word) for word in re.split(separators, line) if word)


def _read_labels(path: Path, count: int, known: set[int]) -> list[int]:
    labels = []
    line = 1
    for line, word in _words(path, r"[ \t\r,]+"):
        if not re.fullmatch("[0-9]{1,3}", word) or int(word) not in known:
            rule = "a label is a whole number that ebm_nlp_labels.json names, or 0"
            raise format_error(path, line, rule)
        labels.append(int(word))
    if len(labels) != count:
        rule = "there is one label for each token of the document, separated by commas"
        raise format_error(path, line, rule)
    return labels


def _runs(labels: list[int]) -> Iterator[tuple[int, int, int]]:
    """Yield the start, the end and the label of each run of one label other than 0."""
    start = 0
    for label, run in groupby(labels):
        end = start + len(list(run))
        if label:
            yield start, end, label
        start = end
