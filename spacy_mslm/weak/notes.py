"""Selection of the notes to label from files of notes."""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ..text.plain_texts import as_paths
from ..util.progress import progress_bar
from .note_files import Record, read_notes

# Longer records are not notes. Also the limit of `spacy_mslm.Tokenizer.v1`.
MAX_CHARS = 10_000_000
# Number of ids that are reported for each reason to leave out a record.
LISTED = 20
# Reasons to leave out a record that the user chose; others are faults of the file.
_CHOSEN = ("marked as an error", "of another category")


class Note(NamedTuple):
    """A note to label. Splits are made by `patient`."""

    id: str
    patient: str
    text: str


class Survey(NamedTuple):
    """The result of a first pass over the files.

    records: Number of records.
    left_out: Number of records that are left out, by reason.
    unusable: Ids of the first records that are damaged, empty or too long, by reason.
    chosen: Number of notes to label.
    numbers: Indices of the sampled records among the usable ones, sorted; None for all.
    """

    records: int
    left_out: dict[str, int]
    unusable: dict[str, list[str]]
    chosen: int
    numbers: list[int] | None


class Notes:
    """`spacy_mslm.Notes.v1`: clinical notes of one or several files, see `note_files`.

    The files are read twice: once to check and count the records and draw a sample, and once for
    the texts. Memory use does not depend on their size.

    path: Files of notes, or folders of .txt files.
    format: auto (by the file's name), csv, jsonl, parquet or text.
    categories: Use only notes of these categories, regardless of case; None for all.
    sample: Number of notes to draw at random; 0 for all.
    seed: Seed of the sample.
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
                "No path to the notes is set. Give --paths.notes: a file, or a JSON list of files."
            )
        if not isinstance(sample, int) or sample < 0:
            raise ValueError(
                f"The sample is {sample} notes (labelling.notes.sample), but must be 0, for all "
                "notes, or more."
            )
        self.paths: list[Path] = as_paths(path)
        self.format = format
        self.categories = None if categories is None else {c.strip().lower() for c in categories}
        self.sample = sample
        self.seed = seed

    def survey(self) -> Survey:
        """Read all files. Errors in them are raised here, before any note is labelled."""
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
                if reason not in _CHOSEN and left_out[reason] <= LISTED:
                    unusable.setdefault(reason, []).append(record.id)
                continue
            # Reservoir sampling: each record has the same probability.
            if usable < self.sample:
                drawn.append(usable)
            elif self.sample and (at := generator.randrange(usable + 1)) < self.sample:
                drawn[at] = usable
            usable += 1
        if not usable:
            paths = ", ".join(map(str, self.paths))
            reasons = ", ".join(f"{reason}: {n}" for reason, n in left_out.items()) or "none"
            raise ValueError(
                f"None of the {records} records of {paths} can be labelled. Left out: {reasons}. "
                "Check the categories (labelling.notes.categories) and the files."
            )
        numbers = sorted(drawn) if self.sample else None
        chosen = usable if numbers is None else len(numbers)
        return Survey(records, dict(left_out), unusable, chosen, numbers)

    def read(self, survey: Survey) -> Iterator[Note]:
        """Yield the notes that a survey chose, in the order of the files."""
        wanted = None if survey.numbers is None else set(survey.numbers)
        usable = (record for record in self._records() if self._reason(record) is None)
        for number, record in enumerate(usable):
            if wanted is None or number in wanted:
                # A note without a patient counts as a patient of its own.
                yield Note(record.id, record.patient or f"note:{record.id}", record.text)

    def _records(self) -> Iterator[Record]:
        for path in self.paths:
            yield from read_notes(path, self.format)

    def _reason(self, record: Record) -> str | None:
        """Return why a record is left out; None if it is used."""
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
