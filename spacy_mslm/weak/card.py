"""Statistics of a weakly labelled corpus, and a data card in Markdown."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .. import __version__
from ..corpus.formats.records import SPLITS
from ..util import markdown
from ..util.files import replace_file
from .notes import LISTED, Survey


def statistics(
    survey: Survey, rows: Iterable[dict[str, Any]], settings: dict[str, Any], record: dict
) -> dict[str, Any]:
    """Return the statistics of a corpus. Those of the splits are as in the paper's Table 9.

    survey: Result of the first pass over the notes.
    rows: Counts and failures of each chunk.
    settings: The [labelling] block of the config.
    record: The settings with digests in place of files.
    """
    counts: Counter[str] = Counter()
    failed: list[list[str]] = []
    n_failed = 0
    for row in rows:
        counts.update(row["counts"])
        n_failed += len(row["failed"])
        failed += row["failed"][: LISTED - len(failed)]
    groups: dict[str, dict[str, int]] = defaultdict(dict)
    for name, n in sorted(counts.items()):
        group, _, rest = name.partition("/")
        groups[group][rest] = n
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
        "splits": {split: _split(groups[split]) for split in SPLITS},
        "annotators": {
            source: {
                "found": groups["found"].get(source, 0),
                "left_out": {
                    reason.partition("/")[2]: n
                    for reason, n in groups["left out"].items()
                    if reason.startswith(f"{source}/")
                },
            }
            for source in settings["annotators"]
        },
        "agreement": groups["agreement"],
        "context": groups["context"],
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
    """Write the data card, which holds no text of a note."""
    notes = stats["notes"]
    splits = [stats["splits"][split] for split in SPLITS]
    labels = sorted({label for split in splits for label in split["labels"]})
    table = [["", *SPLITS]]
    for name in ("notes", "sentences", "mentions"):
        table.append([name, *(f"{split[name]:,}" for split in splits)])
    for label in labels:
        table.append([label, *(f"{split['labels'].get(label, 0):,}" for split in splits)])
    for name in ("sentence_length", "mentions_per_sentence", "mention_length"):
        means = [split[name] for split in splits]
        shown = ("-" if mean is None else f"{mean:.2f}" for mean in means)
        table.append([name.replace("_", " "), *shown])
    lines = [
        "# Weakly labelled corpus",
        "",
        f"Made by spacy-mslm {stats['spacy_mslm']} with seed {stats['seed']}. The labels were set "
        "automatically and not reviewed. The splits are by patient.",
        "",
        *markdown.table(table),
        "",
        "## Notes",
        "",
        f"{notes['records']:,} records, {notes['chosen']:,} selected for labelling, "
        f"{notes['failed']:,} failed.",
        "",
        *[f"- left out, {reason}: {n:,}" for reason, n in notes["left_out"].items()],
        *[f"- first ids, {reason}: {', '.join(ids)}" for reason, ids in notes["unusable"].items()],
        *[f"- failed, note {note}: {error}" for note, error in notes["failed_ids"]],
        "",
        "## Annotators",
        "",
    ]
    for source, found in stats["annotators"].items():
        lines.append(f"- {source}: {found['found']:,} concepts")
        lines += [f"    - {reason}: {n:,}" for reason, n in found["left_out"].items()]
    for title, counts in (("Agreement", stats["agreement"]), ("Context", stats["context"])):
        if counts:
            lines += ["", f"## {title}", ""]
            lines += [f"- {name.replace('/', ', ')}: {n:,}" for name, n in counts.items()]
    replace_file(path, ("\n".join(lines) + "\n").encode("utf8"))
