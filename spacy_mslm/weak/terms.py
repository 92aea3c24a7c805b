"""The most frequent names of terminologies in notes, to be looked through before a training."""

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from spacy.util import minibatch, registry

from ..text.terminology import common_words, read_terms, term_key
from ..util.progress import progress_bar
from .annotators.terminology import TerminologyAnnotator
from .label_corpus import BATCH
from .labeller import Labeller, make_labeller
from .notes import Notes

# Places that are kept for each name.
PLACES = 3


class TermCount(NamedTuple):
    """How often a name was found.

    name: As the terminology has it.
    label: Its label in the notes.
    other_labels: The labels of other concepts with this name.
    is_common: Whether it is a common English word.
    notes: Number of notes that have it.
    places: The first places, as the id of the note and characters: "7:12-31".
    """

    name: str
    label: str
    other_labels: tuple[str, ...]
    is_common: bool
    matches: int
    notes: int
    places: tuple[str, ...]


class TermSurvey(NamedTuple):
    """The most frequent names, the number of all different ones, of matches and of notes."""

    terms: list[TermCount]
    names: int
    matches: int
    notes: int


class _Found:
    """The places of a name with one label."""

    def __init__(self) -> None:
        self.count = 0
        self.notes: set[str] = set()
        self.places: list[str] = []

    def add(self, note: str, start: int, end: int) -> None:
        self.count += 1
        self.notes.add(note)
        if len(self.places) < PLACES:
            self.places.append(f"{note}:{start}-{end}")


def count_terms(settings: dict[str, Any], number: int) -> TermSurvey:
    """Count the names that the terminologies of a config find in notes.

    settings: The [labelling] block of the config.
    number: Number of names to return.
    """
    labeller = make_labeller(settings)
    sources = {
        name: annotator
        for name, annotator in labeller.annotators.items()
        if isinstance(annotator, TerminologyAnnotator)
    }
    if not sources:
        raise ValueError(
            "The config has no annotator spacy_mslm.terminology.v1, whose names could be counted."
        )
    labeller.annotators = dict(sources)
    notes: Notes = registry.resolve({"notes": settings["notes"]})["notes"]
    found, read = _find(labeller, notes)
    top = sorted(found, key=lambda key: (-found[key].count, key))[:number]
    names, labels = _describe(labeller, sources.values(), {key for key, _ in top})
    terms = [
        TermCount(
            *(names.get(key, key), label, tuple(sorted(labels.get(key, set()) - {label}))),
            is_common=key in common_words(),
            matches=found[key, label].count,
            notes=len(found[key, label].notes),
            places=tuple(found[key, label].places),
        )
        for key, label in top
    ]
    return TermSurvey(terms, len(found), sum(f.count for f in found.values()), read)


def _find(labeller: Labeller, notes: Notes) -> tuple[dict[tuple[str, str], _Found], int]:
    """Return the places of each name and label, and the number of notes."""
    found: dict[tuple[str, str], _Found] = {}
    survey = notes.survey()
    with progress_bar(total=survey.chosen, desc="Searching", unit=" notes") as bar:
        for batch in minibatch(notes.read(survey), BATCH):
            with labeller.documents.nlp.memory_zone():
                for doc, result in labeller.find([labeller.documents(note) for note in batch]):
                    if isinstance(result, str):
                        continue
                    for mention in (m for mentions in result[0].values() for m in mentions):
                        span = doc[mention.start : mention.end]
                        place = found.setdefault((term_key(span.text), mention.label), _Found())
                        place.add(doc.user_data["id"], span.start_char, span.end_char)
            bar.update(len(batch))
    return found, survey.chosen


def _describe(
    labeller: Labeller, sources: Iterable[TerminologyAnnotator], keys: Collection[str]
) -> tuple[dict[str, str], dict[str, set[str]]]:
    """Read the terminologies again: return the first name and all labels of each key."""
    names: dict[str, str] = {}
    labels: dict[str, set[str]] = {}
    for path in {path: None for source in sources for path in source.paths}:
        for term in read_terms(path):
            key = term_key(term.name)
            label = labeller.clusters(term.semantic_type) if key in keys else None
            if label is not None:
                names.setdefault(key, term.name)
                labels.setdefault(key, set()).add(label)
    return names, labels
