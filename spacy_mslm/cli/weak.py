"""`python -m spacy mslm weak`: label clinical notes automatically, and check the labels."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from spacy.cli._util import Arg, Opt
from wasabi import msg

from ..tasks.choices import Engine
from .common import Address, command, config_overrides, show_table, weak_cli

if TYPE_CHECKING:
    from ..weak.review import Review

ConfigPath = Annotated[
    Path, typer.Argument(metavar="CONFIG", help="Config file with a [labelling] block")
]


@command(weak_cli, "label", failure="The notes were not labelled", overrides=True)
def label_cli(
    ctx: typer.Context,
    config_path: ConfigPath,
    jobs: int | None = Opt(
        *(None, "--jobs", "-j"),
        min=1,
        help="Number of processes [default: 1, or as many as fit on the Ray cluster]",
    ),
    engine: Engine = Opt(Engine.local, help="Where to work: this machine, or a Ray cluster"),
    address: Address = None,
    force: bool = Opt(False, "--force", help="Start over if the output holds another corpus"),
) -> None:
    """Label notes and write a corpus with train, dev and test splits by patient.

    Each document of the corpus is one sentence. To override settings of CONFIG, use options as in
    `spacy train`: --paths.notes NOTEEVENTS.csv.gz --paths.output corpus/mimic. An interrupted run
    continues when the command is repeated.
    """
    from ..tasks import label

    corpus = label(
        *(config_path, config_overrides(ctx)),
        jobs=jobs,
        engine=engine,
        address=address,
        force=force,
    )
    show_statistics(corpus.statistics)
    if not any(split["mentions"] for split in corpus.statistics["splits"].values()):
        raise ValueError(
            f"No mention was found, so nothing can be learnt from {corpus.path}. Look at what each "
            "annotator found and why it was left out in stats.json, and correct the annotators or "
            "the clusters."
        )
    msg.good(f"Saved corpus to {corpus.path}")


@command(weak_cli, "terms", failure="The terms were not counted", overrides=True)
def terms_cli(
    ctx: typer.Context,
    config_path: ConfigPath,
    number: int = Opt(50, "--number", "-n", min=1, help="Number of names to print"),
) -> None:
    """Print the names of the terminologies that are found most often, before anything is labelled.

    Look through them for names that mean something else in your notes, write these to a file, one
    in each line, and label with --paths.blocklist FILE. Places are note:start-end in characters; no
    text of a note is printed, only names of the terminology.
    """
    from ..tasks import count_terms

    survey = count_terms(config_path, config_overrides(ctx), number=number)
    if not survey.terms:
        raise ValueError(
            f"The terminologies find nothing in {survey.notes} notes. Check --paths.terms, and "
            "that --paths.clusters has its semantic types."
        )
    rows = []
    for term in survey.terms:
        remarks = [f"also {label}" for label in term.other_labels]
        remarks += ["common word"] if term.is_common else []
        places = ", ".join(term.places)
        rows.append((term.name, term.label, term.matches, term.notes, "; ".join(remarks), places))
    header = ("name", "label", "matches", "notes", "remarks", "first places")
    msg.table(rows, header=header, divider=True, aligns=("l", "l", "r", "r", "l", "l"), max_col=60)
    shown = sum(term.matches for term in survey.terms)
    msg.info(
        f"These are {shown:,} of {survey.matches:,} matches of {survey.names:,} names in "
        f"{survey.notes:,} notes."
    )


@command(weak_cli, "score", failure="The labels were not scored", overrides=True)
def score_cli(
    ctx: typer.Context,
    config_path: ConfigPath,
    gold_path: Path = Arg(..., metavar="GOLD", help="Annotated notes: .spacy file or folder"),
) -> None:
    """Score each annotator of CONFIG, and their vote, on annotated notes."""
    from ..tasks import score_labels
    from ..weak.scoring import ALL

    rows = []
    for source, found in score_labels(config_path, gold_path, config_overrides(ctx)).items():
        for label in sorted(found, key=lambda name: (name != ALL, name)):
            score = found[label]
            cells = (f"{100 * x:.1f}" for x in (score.precision, score.recall, score.fscore))
            rows.append((source if label == ALL else "", label, *cells))
    show_table(rows, ("annotator", "label", "P", "R", "F"), left=2)


@command(weak_cli, "review", failure="The review failed")
def review_cli(
    corpus_path: Path = Arg(..., metavar="CORPUS", help=".spacy file, or folder of them"),
    sample_path: Path = Arg(..., metavar="SAMPLE", help=".jsonl file of sentences to review"),
    number: int = Opt(100, "--number", "-n", min=1, help="Number of sentences"),
    seed: int = Opt(0, help="Random seed of the sample"),
    reviewed: Path | None = Opt(None, help="SAMPLE as exported from Prodigy or doccano"),
) -> None:
    """Write a random sample of labelled sentences for Prodigy or doccano. With --reviewed, report
    how many of its labels are right."""
    from ..tasks import export_review, read_review

    if reviewed is None:
        n = export_review(corpus_path, sample_path, number, seed)
        msg.good(f"Saved {n} sentences to {sample_path} (text of notes: keep it safe)")
    else:
        show_review(read_review(sample_path, reviewed))


@command(weak_cli, "medcat-setup", failure="The environment was not created")
def medcat_setup_cli(
    folder: Path = Arg(..., metavar="FOLDER", help="Folder of the virtual environment"),
) -> None:
    """Create a virtual environment with MedCAT for spacy_mslm.medcat.v1.

    MedCAT cannot be installed in the environment of spacy-mslm.
    """
    from ..weak.medcat_setup import MEDCAT_VERSION, setup_medcat

    msg.info(f"Installing MedCAT {MEDCAT_VERSION}, which takes a minute or two")
    try:
        setup_medcat(folder)
    except RuntimeError as err:
        raise OSError(str(err)) from err
    msg.good(f"Created environment {folder}")


def show_statistics(stats: dict[str, Any]) -> None:
    """Print the statistics of a weakly labelled corpus."""
    names = (
        *("notes", "sentences", "mentions"),
        *("sentence_length", "mentions_per_sentence", "mention_length"),
    )
    rows = [
        (split, *("-" if figures[name] is None else figures[name] for name in names))
        for split, figures in stats["splits"].items()
    ]
    show_table(rows, ("split", *(name.replace("_", " ") for name in names)))
    notes = stats["notes"]
    for reason, n in notes["left_out"].items():
        ids = ", ".join(notes["unusable"].get(reason, ()))
        msg.info(
            f"{n} of {notes['records']} records left out, {reason}" + (f": {ids}" if ids else "")
        )
    if notes["failed"]:
        ids = ", ".join(note for note, _ in notes["failed_ids"])
        msg.warn(f"{notes['failed']} notes could not be labelled and are not in the corpus: {ids}")


def show_review(review: "Review") -> None:
    """Print the precision of reviewed labels with its confidence interval."""
    rows = []
    for label, precision in {"all": review.overall, **review.labels}.items():
        low, high = precision.interval or (0.0, 1.0)
        value = "-" if precision.value is None else f"{100 * precision.value:.1f}"
        interval = f"{100 * low:.1f} to {100 * high:.1f}"
        rows.append((label, precision.right, precision.total, value, interval))
    show_table(rows, ("label", "right", "of", "precision", "95 %"))
    sentences = f"{review.sentences} sentences ({review.ignored} more were ignored)"
    msg.info(f"{sentences}, {review.added} mentions added by the reviewer")
    for fate, ids in (("did not come back", review.missing), ("are unknown", review.unknown)):
        if ids:
            msg.warn(f"{len(ids)} sentences {fate}: {', '.join(ids[:10])}")
