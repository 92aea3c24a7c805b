"""Texts that break tokenizers, and what must hold for the answer to any text."""

import json
import random
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import spacy
from spacy.language import Language
from spacy.tokens import Doc, DocBin

from spacy_mslm.tasks import convert
from spacy_mslm.util.lines import LONE_SURROGATE, REPLACEMENT

from .parts import SENTENCES, WORDS, Row, Setup

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


def answer(doc: Doc) -> list[tuple[int, int, str]]:
    """Return the entities of a document as characters and labels."""
    return [(ent.start_char, ent.end_char, ent.label_) for ent in doc.ents]


def is_legal(doc: Doc, text: str, labels: set[str]) -> bool:
    """Return whether text, offsets and tags are as they must be."""
    same = doc.text == LONE_SURROGATE.sub(REPLACEMENT, text)
    placed = all(doc.text[t.idx : t.idx + len(t.text)] == t.text for t in doc)
    tags = ["O", *(f"{t.ent_iob_}-{t.ent_type_}" if t.ent_type_ else "O" for t in doc)]
    legal = all(
        not tag.startswith("I-") or before in (tag, "B" + tag[1:]) for before, tag in pairwise(tags)
    )
    known = all(
        ent.label_ in labels and ent.text.strip() and 0 <= ent._.confidence <= 1 for ent in doc.ents
    )
    return same and placed and legal and known and all(t.ent_iob for t in doc)


def fuzz_pipeline(setup: Setup, nlp: Language) -> Iterator[Row]:
    """Each text alone, and in batches of several sizes in random order."""
    texts = hostile_texts(setup.count(100_000), seed=1)
    texts += [text for text, _ in SENTENCES]
    labels = set(nlp.pipe_labels["mslm"])
    expected: list[list[tuple[int, int, str]]] = []
    wrong = 0
    for start in range(0, len(texts), 500):
        with nlp.memory_zone():
            for text in texts[start : start + 500]:
                doc = nlp(text)
                wrong += not is_legal(doc, text, labels)
                expected.append(answer(doc))
    assert any(expected)
    yield Row("fuzz: nlp", len(texts), len(texts) - wrong, wrong=wrong)
    draw = random.Random(2)
    for size in BATCHES:
        order = draw.sample(range(len(texts)), len(texts))
        differ = 0
        seen: Counter[int] = Counter()
        for start in range(0, len(order), 500):
            part = order[start : start + 500]
            with nlp.memory_zone():
                pairs = ((texts[i], i) for i in part)
                for doc, i in nlp.pipe(pairs, as_tuples=True, batch_size=size):
                    seen[i] += 1
                    differ += answer(doc) != expected[i]
        lost = len(texts) - len(seen)
        doubled = seen.total() - len(seen)
        name = f"fuzz: nlp.pipe, batches of {size}, random order"
        yield Row(name, len(texts), len(texts) - lost - differ, lost, doubled, differ)


def fuzz_convert(setup: Setup) -> Iterator[Row]:
    """Documents with a mention each, through `convert` and back."""
    folder = setup.sub("convert")
    texts = hostile_texts(setup.count(100_000), seed=3, surrogates=False)
    texts = [f"{text} asthma" for text in texts]
    with (folder / "in.jsonl").open("w", encoding="utf8") as file:
        for i, text in enumerate(texts):
            mention = {"start": len(text) - 6, "end": len(text), "label": "Disease"}
            file.write(json.dumps({"id": str(i), "text": text, "spans": [mention]}) + "\n")
    convert(folder / "in.jsonl", folder / "out.spacy")
    seen: Counter[int] = Counter()
    wrong = 0
    for doc in DocBin().from_disk(folder / "out.spacy").get_docs(spacy.blank("en").vocab):
        i = int(doc.user_data["id"])
        seen[i] += 1
        spans = [(ent.start_char, ent.end_char) for ent in doc.ents]
        right = doc.text == texts[i] and spans in ([], [(len(doc.text) - 6, len(doc.text))])
        wrong += not right
    lost, doubled = len(texts) - len(seen), seen.total() - len(seen)
    yield Row("fuzz: convert", len(texts), len(texts) - lost - wrong, lost, doubled, wrong)
