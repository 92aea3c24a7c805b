"""A human look at weak labels: a random sample of sentences goes out to an annotation tool, and
what comes back tells how many of the labels are right.

A line of the sample is a sentence, its mentions under the names of both tools:

    {"id": "17:3", "text": "Denies fever.", "tokens": [...], "meta": {"id": "17:3"},
     "spans": [{"start": 7, "end": 12, "start_offset": 7, "end_offset": 12, "label": "Symptom",
                "token_start": 1, "token_end": 1}]}

Prodigy: `prodigy ner.manual SET blank:en sample.jsonl --label Disease,Symptom,Treatment`. Correct
the spans and accept; reject a sentence in which nothing is right; ignore what cannot be told. Then
`prodigy db-out SET > reviewed.jsonl`.

doccano: a project for sequence labelling, "count grapheme clusters as one character" off; import as
JSONL with the column of data "text" and the column of labels "spans". Export as JSONL, only what
is approved: doccano does not tell a sentence that was left as it was from one nobody has seen.
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

from ..corpus.formats.jsonl import read_jsonl
from ..corpus.formats.records import check_mention
from ..corpus.label_schemes import Mention
from ..corpus.readers import read_gold
from ..errors import Errors
from ..util.files import replace_file
from ..util.lines import read_lines

ANSWERS = ("accept", "reject", "ignore")
# Of the normal distribution, for an interval of 95 %.
Z = 1.959964


class Precision(NamedTuple):
    """How many of the weak mentions are right."""

    right: int
    total: int

    @property
    def value(self) -> float | None:
        return self.right / self.total if self.total else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Wilson's, of 95 %."""
        if not self.total:
            return None
        share, square = self.right / self.total, Z * Z / self.total
        middle = share + square / 2
        half = Z * sqrt((share * (1 - share) + square / 4) / self.total)
        return max(0.0, (middle - half) / (1 + square)), min(1.0, (middle + half) / (1 + square))


class Review(NamedTuple):
    """What a reviewer says of a sample.

    sentences: accepted or rejected ones; the figures are of these.
    added: mentions of the reviewer that overlap no weak one.
    missing: ids of sentences of the sample that did not come back.
    unknown: ids of sentences that are not in the sample, or have another text there; the line's
        number where there is no id.
    """

    sentences: int
    ignored: int
    overall: Precision
    labels: dict[str, Precision]
    added: int
    missing: list[str]
    unknown: list[str]


class _Reviewed(NamedTuple):
    """A line that came back; the mentions of one that was rejected mean nothing."""

    line: int
    names: list[str]
    text: str
    answer: str
    mentions: list[Mention]


# ---- out ----


def export_review(corpus: Path, output: Path, n: int, seed: int) -> int:
    """Write `n` sentences of a corpus that have labels, or all where there are fewer, drawn at
    random, always the same ones for a seed; returns how many.

    corpus: a `.spacy` file or a folder of them, a document a sentence.
    output: a `.jsonl` file, which only its owner can read, as it has text of notes in it.
    """
    if n < 1:
        raise ValueError(f"A review needs at least 1 sentence, but {n} are asked for.")
    sample = _sample(corpus, n, seed)
    if not sample:
        raise ValueError(
            f"{corpus} has no labelled sentence to review. Give a corpus in which something "
            "was found."
        )
    name, count = Counter(record["id"] for record in sample).most_common(1)[0]
    if count > 1:
        raise ValueError(
            f"{corpus}: the id {name} is there more than once, so that a review could not be "
            "told from the other. Give every document its own user_data['id']."
        )
    lines = (json.dumps(record, ensure_ascii=False) + "\n" for record in sample)
    replace_file(output, "".join(lines).encode("utf8"), mode=0o600)
    return len(sample)


def _sample(corpus: Path, n: int, seed: int) -> list[dict[str, Any]]:
    """A reservoir: each sentence is in the sample with the same probability, and no others are
    held in memory."""
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
    files = sorted(f for f in corpus.rglob("*.spacy") if f.is_file() and f.name[0] != ".")
    for file in files or [corpus]:
        # Each has its own vocabulary, so that the words of a large corpus do not pile up.
        yield from read_gold(file, Vocab())


def _record(doc: Doc) -> dict[str, Any]:
    name = str(doc.user_data["id"])
    return {
        "id": name,
        "text": doc.text,
        # Prodigy would make its own, and fail where a mention is none of them.
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


# ---- back ----


def read_review(original: Path, reviewed: Path) -> Review:
    """Compare a sample with what came back: a weak mention is right if the reviewer has one with
    the same boundaries and label. All mentions of a sentence that was rejected are wrong.

    original: the file of `export_review`.
    reviewed: the export of Prodigy or doccano, told apart by Prodigy's "answer". Sentences are
        known by their id, or where the tool has lost it, by their text; a
        changed text is unknown.
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
            f"{reviewed} has no reviewed sentence: of {original}, none came back accepted or "
            "rejected. Export it again from Prodigy or doccano."
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
    """The lines of an export. Not by `read_jsonl`, which leaves out what was rejected, and takes no
    second list of mentions beside the first, as doccano may send back the one it was given."""
    for number, line in read_lines(path):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict) or not isinstance(record.get("text"), str):
            raise _refusal(path, number, "a line is a JSON object with a 'text'")
        answer = record.get("answer", "accept")
        if answer not in ANSWERS:
            raise ValueError(
                f"{path}, line {number}: the answer is not one of {', '.join(ANSWERS)}, as "
                "Prodigy has them."
            )
        keys = ("spans",) if "answer" in record else ("label", "entities", "spans")
        items = next((record[key] for key in keys if isinstance(record.get(key), list)), None)
        if items is None and "answer" not in record:
            raise _refusal(path, number, "one of 'label', 'entities' and 'spans' is a list")
        text = record["text"]
        mentions = [_mention(item, text, path, number) for item in items or []]
        yield _Reviewed(number, _names(record), text, answer, mentions)


def _names(record: dict[str, Any]) -> list[str]:
    """The first is ours, if any is: doccano may have put its own number in place of `id`."""
    meta = record.get("meta")
    given = [meta.get("id") if isinstance(meta, dict) else None, record.get("id")]
    return [str(name) for name in given if isinstance(name, str | int)]


def _mention(item: Any, text: str, path: Path, line: int) -> Mention:
    if isinstance(item, dict):
        start = item.get("start", item.get("start_offset"))
        item = [start, item.get("end", item.get("end_offset")), item.get("label")]
    if not isinstance(item, list) or [type(value) for value in item] != [int, int, str]:
        raise _refusal(path, line, "a mention has a start, an end and a label")
    mention = item[0], item[1], item[2].strip()
    check_mention(mention, text, path=path, line=line)
    return mention


def _refusal(path: Path, line: int, rule: str) -> ValueError:
    return ValueError(Errors.M163.format(path=path, line=line, rule=rule))
