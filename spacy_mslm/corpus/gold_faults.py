"""Gold spans that spaCy drops silently or fails on, with document text in its message."""

import logging
from pathlib import Path

import numpy as np
from spacy.attrs import ENT_IOB, ENT_TYPE
from spacy.tokens import Doc

from ..errors import listing

logger = logging.getLogger("spacy_mslm")


class GoldFaults:
    """Collects the faulty gold spans of a corpus, and reports them once.

    path: The corpus, for messages.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.places: dict[str, None] = {}
        self.reported = False

    def check(self, doc: Doc) -> Doc:
        """Note the zero-length and unlabelled spans of a Doc, and return it. Entities without a
        label become missing values, as spaCy can fail on them with the text in its message."""
        broken = _broken_entity(doc)
        if broken is not None:
            raise ValueError(
                f"{self.path}: document {doc.user_data['id']}, token {broken}: the token is inside "
                "an entity that has no first token. Correct the annotation, or write the file "
                "again with 'python -m spacy mslm convert'."
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
        """Log a warning after the first full pass only: a corpus is read at every evaluation."""
        if self.places and not self.reported:
            logger.warning(
                f"{self.path}: {len(self.places)} gold span(s) cannot be learned, as they "
                f"are zero-length or have an empty label: {listing(list(self.places))}. Correct "
                "them and write the file again."
            )
        self.reported = True


def _unlabelled_entities(doc: Doc) -> list[tuple[int, int]]:
    """Return the token ranges that are tagged as an entity (I = 1, B = 3) but have no type."""
    iob, types = doc.to_array([ENT_IOB, ENT_TYPE]).reshape(-1, 2).T
    ranges: list[tuple[int, int]] = []
    for i in ((types == 0) & ((iob == 1) | (iob == 3))).nonzero()[0].tolist():
        if ranges and ranges[-1][1] == i and iob[i] == 1:
            ranges[-1] = (ranges[-1][0], i + 1)
        else:
            ranges.append((i, i + 1))
    return ranges


def _broken_entity(doc: Doc) -> int | None:
    """Return the first token that is tagged I (1) without a B (3) or I before it."""
    iob = doc.to_array([ENT_IOB]).reshape(-1)
    before = np.concatenate([[0], iob[:-1]])
    broken = ((iob == 1) & (before != 1) & (before != 3)).nonzero()[0]
    return int(broken[0]) if len(broken) else None
