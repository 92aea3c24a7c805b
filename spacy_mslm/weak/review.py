"""Review of weak labels by a person: export a random sample of sentences to an annotation tool,
and compute from the reviewed sample how many of the labels are right.

Each line of the sample is a sentence. Its mentions have the field names of both tools:

    {"id": "17:3", "text": "Denies fever.", "tokens": [...], "meta": {"id": "17:3"},
     "spans": [{"start": 7, "end": 12, "start_offset": 7, "end_offset": 12, "label": "Symptom",
                "token_start": 1, "token_end": 1}]}

Prodigy: `prodigy ner.manual SET blank:en sample.jsonl --label Disease,Symptom,Treatment`. Correct
the spans and accept; reject a sentence in which nothing is right; ignore a sentence if you cannot
decide. Then `prodigy db-out SET > reviewed.jsonl`.

doccano: create a project for sequence labelling with "count grapheme clusters as one character"
off; import as JSONL with the data column "text" and the label column "spans". Export approved
sentences only, as JSONL: the export does not show which of the others were looked at.
"""

import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from math import sqrt
from pathlib import Path
from typing import Any, NamedTuple

from spacy.tokens import Doc
from spacy.vocab import Vocab

from ..corpus.formats.jsonl import parse_mention, read_jsonl
from ..corpus.formats.records import format_error
from ..corpus.readers import read_gold, spacy_files
from ..errors import Errors
from ..types import Mention
from ..util.files import replace_file
from ..util.lines import read_json_lines

ANSWERS = ("accept", "reject", "ignore")
# Quantile of the normal distribution for a 95 % interval.
Z = 1.959964


class Precision(NamedTuple):
    """The number of weak mentions, and how many of them are right."""

    right: int
    total: int

    @property
    def value(self) -> float | None:
        return self.right / self.total if self.total else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % Wilson score interval; None without mentions."""
        if not self.total:
            return None
        share, square = self.right / self.total, Z * Z / self.total
        middle = share + square / 2
        half = Z * sqrt((share * (1 - share) + square / 4) / self.total)
        return max(0.0, (middle - half) / (1 + square)), min(1.0, (middle + half) / (1 + square))


class Review(NamedTuple):
    """The result of a review.

    sentences: Number of accepted and rejected sentences, from which the figures are computed.
    ignored: Number of ignored sentences.
    overall, labels: Precision of all mentions, and by label.
    added: Number of mentions of the reviewer that overlap no weak mention.
    missing: Ids of sentences of the sample that were not returned.
    unknown: Ids of returned sentences that are not in the sample, or have another text there; the
        line number if there is no id.
    """

    sentences: int
    ignored: int
    overall: Precision
    labels: dict[str, Precision]
    added: int
    missing: list[str]
    unknown: list[str]


class _Reviewed(NamedTuple):
    """A returned line. The mentions of a rejected sentence have no meaning."""

    line: int
    names: list[str]
    text: str
    answer: str
    mentions: list[Mention]


# ---- export ----


def export_review(corpus: Path, output: Path, n: int, seed: int) -> int:
    """Write a random sample of the sentences of a corpus that have labels.

    corpus: A `.spacy` file or a folder of them, with one sentence per document.
    output: A `.jsonl` file. Only its owner can read it, as it holds text of notes.
    n: Number of sentences; all are written if there are fewer.
    seed: Seed of the sample.

    Returns the number of sentences written.
    """
    if n < 1:
        raise ValueError(f"A review needs at least 1 sentence, but {n} are requested.")
    sample = _sample(corpus, n, seed)
    if not sample:
        raise ValueError(f"{corpus} has no labelled sentence to review. Give a corpus with labels.")
    name, count = Counter(record["id"] for record in sample).most_common(1)[0]
    if count > 1:
        raise ValueError(
            f"{corpus}: the id {name} occurs more than once, so reviews could not be matched. "
            "Give every document a unique user_data['id']."
        )
    lines = (json.dumps(record, ensure_ascii=False) + "\n" for record in sample)
    replace_file(output, "".join(lines).encode("utf8"), mode=0o600)
    return len(sample)


def _sample(corpus: Path, n: int, seed: int) -> list[dict[str, Any]]:
    """Draw a reservoir sample: each sentence has the same probability, and only the sample is held
    in memory."""
    rng = random.Random(seed)
    sample: list[dict[str, Any]] = []
    seen = 0
    for doc in _docs(corpus):
        if not doc.ents:
            continue
        seen += 1
        if len(sample) < n:
            sample.append(_record(doc))
        elif (place := rng.randrange(seen)) < n:
            sample[place] = _record(doc)
    return sample


def _docs(corpus: Path) -> Iterator[Doc]:
    for file in spacy_files(corpus) or [corpus]:
        # One vocabulary per file, so that memory does not grow with the words of the corpus.
        yield from read_gold(file, Vocab())


def _record(doc: Doc) -> dict[str, Any]:
    name = str(doc.user_data["id"])
    return {
        "id": name,
        "text": doc.text,
        # Prodigy would tokenise the text itself, and fail where its tokens split a mention.
        "tokens": [
            {
                "text": token.text,
                "start": token.idx,
                "end": token.idx + len(token),
                "id": token.i,
                "ws": bool(token.whitespace_),
            }
            for token in doc
        ],
        "spans": [
            {
                "start": ent.start_char,
                "end": ent.end_char,
                "start_offset": ent.start_char,
                "end_offset": ent.end_char,
                "token_start": ent.start,
                "token_end": ent.end - 1,
                "label": ent.label_,
            }
            for ent in doc.ents
        ],
        "meta": {"id": name},
    }


# ---- result ----


def read_review(original: Path, reviewed: Path) -> Review:
    """Compare a sample with its review. A weak mention is right if the reviewer has a mention with
    the same boundaries and label. All mentions of a rejected sentence are wrong.

    original: The file written by `export_review`.
    reviewed: The export of Prodigy or doccano; lines with "answer" are Prodigy's. Sentences are
        matched by id or, if the tool lost it, by text.
    """
    sample = {document.id: document for document in read_jsonl(original)}
    of_text = defaultdict(list)
    for document in sample.values():
        of_text[document.text].append(document.id)
    answers: Counter[str] = Counter()
    total: Counter[str] = Counter()
    right: Counter[str] = Counter()
    added = 0
    unknown: list[str] = []
    lines: dict[str, int] = {}
    for record in _read_reviewed(reviewed):
        same = of_text[record.text]
        named = [name for name in record.names if name in same]
        name = next(iter(named or [name for name in same if name not in lines]), None)
        if name is None:
            unknown.append(record.names[0] if record.names else f"line {record.line}")
            continue
        if name in lines:
            other = lines[name]
            raise ValueError(
                Errors.M164.format(path=reviewed, line=record.line, id=name, other=other)
            )
        lines[name] = record.line
        answers[record.answer] += 1
        if record.answer == "ignore":
            continue
        weak = set(sample[name].mentions)
        theirs = set(record.mentions) if record.answer == "accept" else set()
        total.update(label for _, _, label in weak)
        right.update(label for _, _, label in weak & theirs)
        added += sum(not any(start < e and s < end for s, e, _ in weak) for start, end, _ in theirs)
    sentences = answers["accept"] + answers["reject"]
    if not sentences:
        raise ValueError(
            f"{reviewed} has no reviewed sentence: no sentence of {original} came back accepted "
            "or rejected. Export it again from Prodigy or doccano."
        )
    return Review(
        sentences,
        answers["ignore"],
        Precision(right.total(), total.total()),
        {label: Precision(right[label], total[label]) for label in sorted(total)},
        added,
        [name for name in sample if name not in lines],
        unknown,
    )


def _read_reviewed(path: Path) -> Iterator[_Reviewed]:
    """Yield the lines of an export. `read_jsonl` cannot be used: it leaves out rejected records,
    and rejects a second list of mentions, as doccano may return the one that was imported."""
    for number, record in read_json_lines(path):
        text = record.get("text") if record else None
        if record is None or not isinstance(text, str):
            raise format_error(path, number, "a line is a JSON object with a 'text'")
        answer = record.get("answer", "accept")
        if answer not in ANSWERS:
            raise ValueError(
                f"{path}, line {number}: the answer is not one of {', '.join(ANSWERS)}, which "
                "Prodigy writes."
            )
        keys = ("spans",) if "answer" in record else ("label", "entities", "spans")
        items = next((record[key] for key in keys if isinstance(record.get(key), list)), None)
        if items is None and "answer" not in record:
            raise format_error(path, number, "one of 'label', 'entities' and 'spans' is a list")
        mentions = [parse_mention(item, text, path=path, line=number) for item in items or []]
        yield _Reviewed(number, _names(record), text, answer, mentions)


def _names(record: dict[str, Any]) -> list[str]:
    """Return the ids of a record. The first is that of the sample, if any is: doccano may have
    replaced `id` by its own number."""
    meta = record.get("meta")
    given = [meta.get("id") if isinstance(meta, dict) else None, record.get("id")]
    return [str(name) for name in given if isinstance(name, str | int)]
