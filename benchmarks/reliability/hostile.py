"""Texts that break tokenizers, and what must hold for the answer to any text."""

import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import spacy
from spacy.language import Language
from spacy.tokens import Doc, DocBin

from spacy_mslm.pipeline.saving import safe_save
from spacy_mslm.tasks import annotate, convert, label
from spacy_mslm.util.lines import LONE_SURROGATE, REPLACEMENT

from .experiment import Run
from .parts import ROOT, SENTENCES, WORDS, Row, Work

Answer = list[tuple[int, int, str]]

PARTS = [
    *WORDS.split(),
    *("[MASK]", "[SEP]", "[PAD]", "[UNK]", "##a", "<script>", "\\", "'s", "US$", "http://a:b@c:1/"),
    *("\u200b", "\u00ad", "\u0301", "\ufe0f", "\u202e", "\u2028", "\x85", "\x00", "\x1f", "\ufeff"),
    *("\U0001f468\u200d\U0001f469", "\U0001f1e6\U0001f1f9", "\U000e0041", "ﷺ", "İ", "ß", "중", "ა"),
    *("\n", "\n\n", "\r\n", "\t", " ", "\u3000", "=" * 90, "_" * 70, "a" * 1100, "1" * 200),
]
SURROGATES = ["\ud800", "\udfff"]
BATCHES = (1, 2, 7, 64)


def hostile_texts(n: int, seed: int, surrogates: bool = True) -> list[str]:
    """Draw texts. Half of them have random characters of any plane of Unicode."""
    draw = random.Random(seed)
    parts = PARTS + SURROGATES * surrogates
    texts = []
    for i in range(n):
        chosen = [draw.choice(parts) for _ in range(draw.randrange(0, 14))]
        if i % 2:
            points = (draw.randrange(0x20, 0x30000) for _ in range(draw.randrange(0, 30)))
            chosen += [chr(p) for p in points if not 0xD800 <= p < 0xE000]
            draw.shuffle(chosen)
        texts.append(draw.choice(("", " ")).join(chosen))
    return texts


def answer(doc: Doc) -> Answer:
    """Return the entities of a document as characters and labels."""
    return [(ent.start_char, ent.end_char, ent.label_) for ent in doc.ents]


def is_legal(doc: Doc, text: str, labels: set[str]) -> bool:
    """Return whether text, offsets and tags are as they must be."""
    read = doc.text  # spaCy joins all tokens for it, each time
    same = read == LONE_SURROGATE.sub(REPLACEMENT, text)
    placed = all(read[t.idx : t.idx + len(t.text)] == t.text for t in doc)
    tags = ["O", *(f"{t.ent_iob_}-{t.ent_type_}" if t.ent_type_ else "O" for t in doc)]
    legal = all(
        not tag.startswith("I-") or before in (tag, "B" + tag[1:]) for before, tag in pairwise(tags)
    )
    known = all(
        ent.label_ in labels and ent.text.strip() and 0 <= ent._.confidence <= 1 for ent in doc.ents
    )
    return same and placed and legal and known and all(t.ent_iob for t in doc)


def fuzz_pipeline(work: Work) -> Run:
    """Each text alone, and in batches of several sizes in random order."""
    nlp = work.nlp
    labels = set(nlp.pipe_labels["mslm"])

    def run(cases: range) -> list[Row]:
        texts = hostile_texts(len(cases), seed=cases.start) + [text for text, _ in SENTENCES]
        with nlp.memory_zone():
            docs = [nlp(text) for text in texts]
            wrong = sum(
                not is_legal(doc, text, labels) for doc, text in zip(docs, texts, strict=True)
            )
            expected = [answer(doc) for doc in docs]
        assert any(expected)
        n = len(cases)
        return [Row("fuzz: nlp", n, n - wrong, wrong=wrong)] + [
            _in_batches(nlp, texts, expected, size, random.Random(cases.start)) for size in BATCHES
        ]

    return run


def _in_batches(
    nlp: Language, texts: list[str], expected: list[Answer], size: int, draw: random.Random
) -> Row:
    order = draw.sample(range(len(texts)), len(texts))
    differ = 0
    seen: Counter[int] = Counter()
    with nlp.memory_zone():
        pairs = ((texts[i], i) for i in order)
        for doc, i in nlp.pipe(pairs, as_tuples=True, batch_size=size):
            seen[i] += 1
            differ += answer(doc) != expected[i]
    return _row(f"fuzz: nlp.pipe, batches of {size}, random order", len(texts), seen, differ)


def _row(name: str, cases: int, seen: Counter, wrong: int) -> Row:
    lost, doubled = cases - len(seen), seen.total() - len(seen)
    return Row(name, cases, cases - lost - doubled - wrong, lost, doubled, wrong)


def fuzz_convert(work: Work) -> Run:
    """Documents with a mention each, through `convert`."""

    def run(cases: range) -> list[Row]:
        folder = work.new("convert")
        texts = _with_mention(cases, surrogates=False)
        with (folder / "in.jsonl").open("w", encoding="utf8") as file:
            for i, text in enumerate(texts):
                mention = {"start": len(text) - 6, "end": len(text), "label": "Disease"}
                file.write(json.dumps({"id": str(i), "text": text, "spans": [mention]}) + "\n")
        convert(folder / "in.jsonl", folder / "out.spacy")
        seen: Counter[int] = Counter()
        wrong = 0
        for doc in _docs_of([folder / "out.spacy"]):
            i = int(doc.user_data["id"])
            seen[i] += 1
            wrong += not (doc.text == texts[i] and _has_mention(doc, must=False))
        return [_row("fuzz: convert", len(texts), seen, wrong)]

    return run


def fuzz_label(work: Work) -> Run:
    """Notes with a name of the terminology each, through `weak label`."""

    def run(cases: range) -> list[Row]:
        folder = work.new("label")
        texts = _with_mention(cases)
        settings = label_settings(folder, texts)
        settings["paths.output"] = str(folder / "out")
        notes_of_corpus = label(ROOT / "configs" / "weak.cfg", settings).statistics["notes"]
        notes: dict[int, list[tuple[int, Doc]]] = {}  # sentences by note
        for doc in _docs_of(folder.glob("out/*/*.spacy")):
            note, number = map(int, doc.user_data["id"].split(":"))
            notes.setdefault(note, []).append((number, doc))
        wrong = 0
        for i, numbered in notes.items():
            sentences = [doc for _, doc in sorted(numbered, key=lambda pair: pair[0])]
            # Sentences of white space only are left out.
            kept = "".join("".join(doc.text for doc in sentences).split())
            is_whole = kept == "".join(LONE_SURROGATE.sub(REPLACEMENT, texts[i]).split())
            wrong += not (is_whole and _has_mention(sentences[-1], must=True))
        # Those that are not valid Unicode are left out and counted.
        refused = {i for i, text in enumerate(texts) if LONE_SURROGATE.search(text)}
        wrong += len(refused & notes.keys())
        wrong += notes_of_corpus["left_out"] != (
            {"not valid UTF-8": len(refused)} if refused else {}
        )
        return [_row("fuzz: weak label", len(texts), Counter([*notes, *refused]), wrong)]

    return run


def fuzz_annotate(work: Work) -> Run:
    """Documents through `annotate`. Those that are not valid Unicode have to be listed."""
    nlp = work.nlp
    model = work.new("annotate model")
    safe_save(nlp, model)

    def run(cases: range) -> list[Row]:
        folder = work.new("annotate")
        texts = _with_mention(cases)
        write_notes(folder / "in.jsonl", texts)
        annotate(str(model), folder / "in.jsonl", folder / "out.jsonl", chunk=300, jobs=1)
        seen: Counter[int] = Counter()
        wrong = 0
        for row in _rows_of(folder / "out.jsonl"):
            i = int(row["id"])
            seen[i] += 1
            with nlp.memory_zone():
                expected = answer(nlp(texts[i]))
            found = [(ent["start"], ent["end"], ent["label"]) for ent in row["entities"]]
            wrong += found != expected
        for row in _rows_of(folder / "out.jsonl.errors.jsonl"):
            i = int(row["id"])
            seen[i] += 1
            wrong += not LONE_SURROGATE.search(texts[i])
        return [_row("fuzz: annotate", len(texts), seen, wrong)]

    return run


def label_settings(folder: Path, texts: list[str]) -> dict[str, Any]:
    """Write notes and a terminology, and return settings of weak labels."""
    write_notes(folder / "notes.jsonl", texts)
    header = "term\tid\tsource\tsemantic_type\n"
    terms = "asthma\tC1\tx\tT047\nrenal failure\tC2\tx\tT047\n"
    (folder / "terms.tsv").write_text(header + terms, encoding="utf8")
    return {
        "paths.notes": str(folder / "notes.jsonl"),
        "paths.terms": str(folder / "terms.tsv"),
        "paths.clusters": str(ROOT / "assets" / "semantic_types.yml"),
        "labelling.chunk": 20,
    }


def write_notes(path: Path, texts: list[str]) -> None:
    """Write notes of which each two have a patient, as JSON lines."""
    rows = ({"text": t, "row_id": i, "subject_id": i // 2} for i, t in enumerate(texts))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf8")


def _with_mention(cases: range, surrogates: bool = True) -> list[str]:
    texts = hostile_texts(len(cases), cases.start + 1, surrogates)
    # A pair of surrogates becomes one character in JSON, which is how the commands read them.
    return [json.loads(json.dumps(f"{text} asthma")) for text in texts]


def _docs_of(paths: Iterable[Path]) -> Iterator[Doc]:
    vocab = spacy.blank("en").vocab
    for path in paths:
        yield from DocBin().from_disk(path).get_docs(vocab)


def _rows_of(path: Path) -> list[dict[str, Any]]:
    # Not `splitlines`, which also splits at signs of other languages.
    lines = path.read_text(encoding="utf8").split("\n") if path.exists() else []
    return [json.loads(line) for line in lines if line]


def _has_mention(doc: Doc, must: bool) -> bool:
    """Return whether the last word is a mention.

    Without `must` it may be left out, as the signs before it can make it a part of a token.
    """
    end = len(doc.text)
    last = [(ent.start_char, ent.end_char) for ent in doc.ents if ent.end_char == end]
    return last == [(end - 6, end)] or (not must and not last)
