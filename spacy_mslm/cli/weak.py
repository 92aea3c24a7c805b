"""`python -m spacy mslm weak`: notes -> a weakly labelled corpus, and a look at how good it is."""

from pathlib import Path
from typing import Annotated, Any

import typer

weak_app = typer.Typer(name="weak", help="Weak supervision of clinical notes", no_args_is_help=True)
OVERRIDES = {"allow_extra_args": True, "ignore_unknown_options": True}


@weak_app.command("label", context_settings=OVERRIDES)
def label_cli(
    ctx: typer.Context,
    config_path: Annotated[
        Path, typer.Argument(metavar="CONFIG", help="Config with a [labelling] block")
    ],
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Processes")] = 1,
    force: Annotated[
        bool, typer.Option("--force", help="Begin anew where the output has another corpus in it")
    ] = False,
) -> None:
    """Label notes and write a corpus: train, dev and test, split by patient, a sentence a document.

    Settings of CONFIG are changed as with `spacy train`: --paths.notes NOTEEVENTS.csv.gz
    --paths.output corpus/mimic. A run that was stopped goes on when the command is given again.
    """
    from wasabi import msg

    from ..weak.label_corpus import label_notes

    try:
        settings, output = read_settings(config_path, ctx.args)
        if output is None:
            raise ValueError("There is no folder for the corpus. Give --paths.output.")
        stats = label_notes(settings, Path(output), jobs, force)
    except (ValueError, OSError, ImportError) as err:
        msg.fail("The notes could not be labelled", str(err), exits=1)
    show_statistics(stats)
    msg.good(f"Written: {output}")


@weak_app.command("score", context_settings=OVERRIDES)
def score_cli(
    ctx: typer.Context,
    config_path: Annotated[
        Path, typer.Argument(metavar="CONFIG", help="Config with a [labelling] block")
    ],
    gold_path: Annotated[
        Path, typer.Argument(metavar="GOLD", help="Annotated notes: .spacy file or folder of them")
    ],
) -> None:
    """Score each annotator of CONFIG, and their vote, against annotated notes."""
    from wasabi import msg

    from ..weak.scoring import ALL, score_labels

    try:
        scores = score_labels(read_settings(config_path, ctx.args)[0], gold_path)
    except (ValueError, OSError, ImportError) as err:
        msg.fail("The labels could not be scored", str(err), exits=1)
    rows = []
    for source, found in scores.items():
        for label in sorted(found, key=lambda name: (name != ALL, name)):
            score = found[label]
            cells = (f"{100 * x:.1f}" for x in (score.precision, score.recall, score.fscore))
            rows.append((source if label == ALL else "", label, *cells))
    msg.table(
        rows, header=("annotator", "label", "P", "R", "F"), divider=True, aligns=tuple("llrrr")
    )


@weak_app.command("review")
def review_cli(
    corpus_path: Annotated[
        Path, typer.Argument(metavar="CORPUS", help=".spacy file, or folder of them")
    ],
    sample_path: Annotated[
        Path, typer.Argument(metavar="SAMPLE", help=".jsonl file with the sentences to look at")
    ],
    number: Annotated[int, typer.Option("--number", "-n", min=1, help="Sentences")] = 100,
    seed: Annotated[int, typer.Option(help="Of the draw")] = 0,
    reviewed: Annotated[
        Path | None, typer.Option(help="SAMPLE as it came back from Prodigy or doccano")
    ] = None,
) -> None:
    """Write a random sample of labelled sentences for Prodigy or doccano; with --reviewed, tell how
    many of its labels are right."""
    from wasabi import msg

    from ..weak.review import export_review, read_review

    try:
        if reviewed is None:
            n = export_review(corpus_path, sample_path, number, seed)
            msg.good(f"Written: {sample_path}, {n} sentences (text of notes: keep it safe)")
            return
        review = read_review(sample_path, reviewed)
    except (ValueError, OSError) as err:
        msg.fail("The review failed", str(err), exits=1)
    rows = []
    for label, precision in {"all": review.overall, **review.labels}.items():
        low, high = precision.interval or (0.0, 1.0)
        value = "-" if precision.value is None else f"{100 * precision.value:.1f}"
        interval = f"{100 * low:.1f} to {100 * high:.1f}"
        rows.append((label, precision.right, precision.total, value, interval))
    header = ("label", "right", "of", "precision", "95 %")
    msg.table(rows, header=header, divider=True, aligns=("l", "r", "r", "r", "r"))
    told = f"{review.sentences} sentences ({review.ignored} more were ignored)"
    msg.info(f"{told}, {review.added} mentions added by the reviewer")
    for fate, ids in (("did not come back", review.missing), ("are unknown", review.unknown)):
        if ids:
            msg.warn(f"{len(ids)} sentences {fate}: {', '.join(ids[:10])}")


@weak_app.command("medcat-setup")
def medcat_setup_cli(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Of the environment")],
) -> None:
    """Make a virtual environment with MedCAT for spacy_mslm.medcat.v1: it cannot share ours."""
    from wasabi import msg

    from ..weak.medcat_setup import MEDCAT_VERSION, setup_medcat

    msg.info(f"Installing MedCAT {MEDCAT_VERSION}, which takes a minute or two")
    try:
        setup_medcat(folder)
    except (ValueError, OSError, RuntimeError) as err:
        msg.fail("The environment could not be made", str(err), exits=1)
    msg.good(f"Ready: {folder}")


def read_settings(config_path: Path, arguments: list[str]) -> tuple[dict[str, Any], str | None]:
    """The [labelling] block of a config with overrides, and the folder for the corpus."""
    from spacy.cli._util import parse_config_overrides
    from spacy.util import load_config

    overrides = parse_config_overrides(arguments)
    config = load_config(config_path, overrides=overrides, interpolate=False).interpolate()
    if "labelling" not in config:
        raise ValueError(f"{config_path} has no [labelling] block. Start from configs/weak.cfg.")
    return config["labelling"], config.get("paths", {}).get("output")


def show_statistics(stats: dict[str, Any]) -> None:
    from wasabi import msg

    names = (
        *("notes", "sentences", "mentions"),
        *("sentence_length", "mentions_per_sentence", "mention_length"),
    )
    rows = [
        (split, *("-" if told[name] is None else told[name] for name in names))
        for split, told in stats["splits"].items()
    ]
    header = ("split", *(name.replace("_", " ") for name in names))
    msg.table(rows, header=header, divider=True, aligns=("l", *"r" * len(names)))
    notes = stats["notes"]
    for reason, n in notes["left_out"].items():
        ids = ", ".join(notes["unusable"].get(reason, ()))
        msg.info(
            f"{n} of {notes['records']} records left out, {reason}" + (f": {ids}" if ids else "")
        )
    if notes["failed"]:
        ids = ", ".join(note for note, _ in notes["failed_ids"])
        msg.warn(f"{notes['failed']} notes could not be labelled and are not in the corpus: {ids}")
