"""Threads, worker processes, and memory over many documents."""

import gc
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from spacy.language import Language

from .hostile import BATCHES, answer, hostile_texts
from .parts import SENTENCES, Row, Setup

THREADS = 8


def use_threads(setup: Setup, nlp: Language) -> Iterator[Row]:
    """One pipeline in eight threads."""
    texts = [text for text, _ in SENTENCES] + hostile_texts(20, seed=5, surrogates=False)
    expected = {text: answer(nlp(text)) for text in texts}
    calls = setup.count(1000)

    def ask(seed: int) -> int:
        draw = random.Random(seed)
        chosen = [draw.choice(texts) for _ in range(calls)]
        return sum(answer(nlp(text)) != expected[text] for text in chosen)

    with ThreadPoolExecutor(THREADS) as pool:
        wrong = sum(pool.map(ask, range(THREADS)))
    n = THREADS * calls
    yield Row(f"{THREADS} threads x {calls} calls", n, n - wrong, wrong=wrong)


def use_processes(setup: Setup, nlp: Language) -> Iterator[Row]:
    """Worker processes, with several sizes of batches."""
    texts = hostile_texts(max(64, setup.count(2000)), seed=6, surrogates=False)
    texts += [text for text, _ in SENTENCES]
    expected = [answer(nlp(text)) for text in texts]
    for size in BATCHES:
        docs = [answer(doc) for doc in nlp.pipe(texts, n_process=2, batch_size=size)]
        wrong = sum(a != b for a, b in zip(docs, expected, strict=False))
        name = f"nlp.pipe, n_process 2 (fork), batches of {size}"
        missing = len(texts) - len(docs)
        right = len(docs) - wrong
        yield Row(name, len(texts), right, max(0, missing), max(0, -missing), wrong)


def grow(setup: Setup, nlp: Language) -> Iterator[tuple[int, float]]:
    """Yield the number of documents with new words so far, and resident memory in MB."""
    draw = random.Random(7)
    letters = "abcdefghijklmnop"
    total = setup.count(200_000)
    for start in range(0, total, 200):
        words = ("".join(draw.choices(letters, k=draw.randint(4, 10))) for _ in range(200 * 40))
        pool = list(words)
        texts = [" ".join(pool[i : i + 40]) for i in range(0, len(pool), 40)]
        with nlp.memory_zone():
            for _ in nlp.pipe(texts):
                pass
        if start // 200 % max(1, total // 2000) == 0:  # about ten times
            gc.collect()
            yield start + 200, resident()


def resident() -> float:
    """Return the resident memory of this process in MB (Linux only)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024
