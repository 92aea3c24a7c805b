"""The notes that are to be labelled: which of a file's records they are, and their texts."""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ..text.plain_texts import as_paths
from ..util.progress import progress_bar
from .note_files import Record, read_notes

# A note with more is none: our tokenizer's own limit, too.
MAX_CHARS = 10_000_000
# So many ids of records that cannot be used are told.
LISTED = 20


class Note(NamedTuple):
    id: str
    patient: str
    text: str


class Survey(NamedTuple):
    """What a first reading of the files has found.

    records: how many there are.
    left_out: how many of them, by reason.
    unusable: ids of records that are damaged, empty or too long, the first ones of each reason.
    chosen: how many notes are to be labelled; numbers: which of the usable records, in order, if
        they are a sample; None: all.
    """

    records: int
    left_out: dict[str, int]
    unusable: dict[str, list[str]]
    chosen: int
    numbers: list[int] | None


class Notes:
    """`spacy_mslm.Notes.v1`: clinical notes of one file or several, see `note_files`.

    path: files of notes, or folders of .txt files.
    format: auto (by their names), csv, jsonl, parquet or text.
    categories: only notes of these, in any case; None for all.
    sample: so many notes, drawn at random; 0 for all.
    seed: of the draw.

    Files are read once to count, to check and to draw, and once more for the texts. The memory
    that this takes does not depend on their size.
    """

    def __init__(
        self,
        path: str | Sequence[str],
        format: str = "auto",
        categories: Sequence[str] | None = None,
        sample: int = 0,
        seed: int = 0,
    ) -> None:
        if not path:
            raise ValueError(
                "There are no notes. Give --paths.notes: a file, or a JSON list of files."
            )
        self.paths: list[Path] = as_paths(path)
        self.format = format
        self.categories = None if categories is None else {c.strip().lower() for c in categories}
        self.sample = sample
        self.seed = seed

    def survey(self) -> Survey:
        """Read all of the files; an error in one of them is found here, before any work is done."""
        left_out: Counter[str] = Counter()
        unusable: dict[str, list[str]] = {}
        generator = random.Random(self.seed)
        drawn: list[int] = []
        records = usable = 0
        for record in progress_bar(self._records(), desc="Reading", unit=" notes"):
            records += 1
            reason = self._reason(record)
            if reason is not None:
                left_out[reason] += 1
                if reason not in _CHOICE and left_out[reason] <= LISTED:
                    unusable.setdefault(reason, []).append(record.id)
                continue
            # A reservoir: each record is in the sample with the same probability.
            if usable < self.sample:
                drawn.append(usable)
            elif self.sample and (at := generator.randrange(usable + 1)) < self.sample:
                drawn[at] = usable
            usable += 1
        if not usable:
            raise ValueError(
                (
                    "None of the {n} records of {paths} can be labelled. Left out: {reasons}. "
                    "Check the categories (labelling.notes.categories) and the file."
                ).format(
                    paths=", ".join(map(str, self.paths)),
                    n=records,
                    reasons=", ".join((f"{reason}: {n}" for reason, n in left_out.items()))
                    or "none",
                )
            )
        numbers = sorted(drawn) if self.sample else None
        chosen = usable if numbers is None else len(numbers)
        return Survey(records, dict(left_out), unusable, chosen, numbers)

    def read(self, survey: Survey) -> Iterator[Note]:
        """The notes that a survey has chosen, in the order of the files."""
        wanted = None if survey.numbers is None else set(survey.numbers)
        usable = (record for record in self._records() if self._reason(record) is None)
        for number, record in enumerate(usable):
            if wanted is None or number in wanted:
                # A note whose patient is not told is a patient of its own.
                yield Note(record.id, record.patient or f"note:{record.id}", record.text)

    def _records(self) -> Iterator[Record]:
        for path in self.paths:
            yield from read_notes(path, self.format)

    def _reason(self, record: Record) -> str | None:
        """Why a record is left out."""
        if record.is_error:
            return "marked as an error"
        if self.categories is not None and record.category.lower() not in self.categories:
            return "of another category"
        if not record.text.strip():
            return "empty"
        if record.damaged:
            return "not valid UTF-8"
        if len(record.text) > MAX_CHARS:
            return f"longer than {MAX_CHARS:,} characters"
        return None


# Reasons that the user has asked for, as against damage.
_CHOICE = ("marked as an error", "of another category")
