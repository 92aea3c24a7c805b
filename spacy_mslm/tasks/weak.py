"""Label clinical notes automatically, and score these labels, as a config says."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from spacy.scorer import PRFScore

from ..engine.place import Engine, Place
from ..weak import label_corpus, scoring, terms
from .configs import plain_errors, read_config


class LabelledCorpus(NamedTuple):
    """The folder of a weakly labelled corpus, and its statistics."""

    path: Path
    statistics: dict[str, Any]


def label(
    config_path: Path,
    overrides: Mapping[str, Any] | None = None,
    *,
    jobs: int | None = None,
    engine: Engine = Engine.local,
    address: str | None = None,
    force: bool = False,
) -> LabelledCorpus:
    """Label notes and write a corpus with train, dev and test splits by patient.

    A run that was interrupted continues where it stopped.

    Args:
        config_path: A config with a [labelling] block.
        overrides: Settings by their dotted name, such as {"paths.notes": "notes.csv"}.
        jobs: Number of processes; by default 1, or as many as fit on the Ray cluster.
        engine: This machine, or a Ray cluster whose nodes see the same files.
        address: Host and port of the head of the Ray cluster; by default that of this machine.
        force: Start from scratch if the folder holds another corpus.
    """
    config = read_config(config_path, overrides, block="labelling")
    output = config.get("paths", {}).get("output")
    if output is None:
        raise ValueError("There is no output folder for the corpus. Set paths.output.")
    # Annotators may need much memory, so there is one process unless more are asked for.
    jobs = jobs or (1 if Engine(engine) is Engine.local else None)
    place = Place(Engine(engine), jobs, address)
    place.check()
    with plain_errors(config_path):
        stats = label_corpus.label_notes(config["labelling"], Path(output), place, force)
    return LabelledCorpus(Path(output), stats)


def score_labels(
    config_path: Path, gold_path: Path, overrides: Mapping[str, Any] | None = None
) -> dict[str, dict[str, PRFScore]]:
    """Score each annotator of a config, and their vote, on annotated notes.

    Args:
        config_path: A config with a [labelling] block.
        gold_path: Annotated notes: a .spacy file or a folder of them.
        overrides: Settings by their dotted name.

    Returns:
        Scores by annotator and label.
    """
    config = read_config(config_path, overrides, block="labelling")
    with plain_errors(config_path):
        return scoring.score_labels(config["labelling"], gold_path)


def count_terms(
    config_path: Path, overrides: Mapping[str, Any] | None = None, *, number: int = 50
) -> terms.TermSurvey:
    """Count the names that the terminologies of a config find in notes.

    Args:
        config_path: A config with a [labelling] block.
        overrides: Settings by their dotted name.
        number: Number of names to return, the most frequent ones.
    """
    config = read_config(config_path, overrides, block="labelling")
    with plain_errors(config_path):
        return terms.count_terms(config["labelling"], number)
