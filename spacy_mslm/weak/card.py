"""What a weakly labelled corpus is: figures for programs, and a data card for people."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .. import __version__
from ..util import markdown
from ..util.files import replace_file
from .notes import LISTED, Survey
from .shards import SPLITS


def statistics(
    survey: Survey, rows: Iterable[dict[str, Any]], settings: dict[str, Any], record: dict
) -> dict[str, Any]:
    """Of the rows of all chunks. Those of the splits are what the paper's Table 9 counts.

    record: the settings, with digests in place of files.
    """
    counts: Counter[str] = Counter()
    failed: list[list[str]] = []
    n_failed = 0
    for row in rows:
        counts.update(row["counts"])
        n_failed += len(row["failed"])
        failed += row["failed"][: LISTED - len(failed)]
    told: dict[str, dict[str, int]] = defaultdict(dict)
    for name, n in sorted(counts.items()):
        group, _, rest = name.partition("/")
        told[group][rest] = n
    return {
        "spacy_mslm": __version__,
        "seed": settings["seed"],
        "notes": {
            "records": survey.records,
            "left_out": survey.left_out,
            "unusable": survey.unusable,
            "chosen": survey.chosen,
            "failed": n_failed,
            "failed_ids": failed,
        },
        "splits": {split: _split(told[split]) for split in SPLITS},
        "annotators": {
            source: {
                "found": told["found"].get(source, 0),
                "left_out": {
                    reason.partition("/")[2]: n
                    for reason, n in told["left out"].items()
                    if reason.startswith(f"{source}/")
                },
            }
            for source in settings["annotators"]
        },
        "agreement": told["agreement"],
        "context": told["context"],
        "settings": record,
    }


def _split(counts: dict[str, int]) -> dict[str, Any]:
    sentences, mentions = counts.get("sentences", 0), counts.get("mentions", 0)
    return {
        "notes": counts.get("notes", 0),
        "sentences": sentences,
        "mentions": mentions,
        "labels": {
            name.removeprefix("label/"): n
            for name, n in counts.items()
            if name.startswith("label/")
        },
        "sentence_length": _mean(counts.get("words", 0), sentences),
        "mentions_per_sentence": _mean(mentions, sentences),
        "mention_length": _mean(counts.get("mention words", 0), mentions),
    }


def _mean(total: int, n: int) -> float | None:
    return round(total / n, 2) if n else None


def write_card(path: Path, stats: dict[str, Any]) -> None:
    """No text of a note is in it."""
    notes = stats["notes"]
    labels = sorted({label for split in stats["splits"].values() for label in split["labels"]})
    figures = ("notes", "sentences", "mentions")
    means = ("sentence_length", "mentions_per_sentence", "mention_length")
    table = [
        ["", *SPLITS],
        *[[name, *(f"{stats['splits'][s][name]:,}" for s in SPLITS)] for name in figures],
        *[
            [label, *(f"{stats['splits'][s]['labels'].get(label, 0):,}" for s in SPLITS)]
            for label in labels
        ],
        *[
            [name.replace("_", " "), *(_shown(stats["splits"][s][name]) for s in SPLITS)]
            for name in means
        ],
    ]
    lines = [
        "# Weakly labelled corpus",
        "",
        f"Made by spacy-mslm {stats['spacy_mslm']} with the seed {stats['seed']}. The labels are a "
        "machine's: nobody has looked at them. Splits are by patient.",
        "",
        *markdown.table(table),
        "",
        "## Notes",
        "",
        f"{notes['records']:,} records, {notes['chosen']:,} of them labelled, of which "
        f"{notes['failed']:,} failed.",
        "",
        *[f"- left out, {reason}: {n:,}" for reason, n in notes["left_out"].items()],
        *[f"- first ids, {reason}: {', '.join(ids)}" for reason, ids in notes["unusable"].items()],
        *[f"- failed, note {note}: {error}" for note, error in notes["failed_ids"]],
        "",
        "## Annotators",
        "",
    ]
    for source, told in stats["annotators"].items():
        lines.append(f"- {source}: {told['found']:,} concepts")
        lines += [f"    - {reason}: {n:,}" for reason, n in told["left_out"].items()]
    if stats["agreement"]:
        lines += ["", "## Agreement", ""]
        lines += [f"- {name.replace('/', ', ')}: {n:,}" for name, n in stats["agreement"].items()]
    if stats["context"]:
        lines += ["", "## Context", ""]
        lines += [f"- {kind}: {n:,}" for kind, n in stats["context"].items()]
    replace_file(path, ("\n".join(lines) + "\n").encode("utf8"))


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
