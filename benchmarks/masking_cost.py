"""Measure the time to draw the masks of a batch, as a share of a training step."""

import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Annotated

import numpy as np
import spacy
import typer
from spacy.training import Example
from wasabi import msg

from spacy_mslm.corpus.gold import align_gold
from spacy_mslm.corpus.readers import make_corpus, read_docs
from spacy_mslm.masking.collocations import write_collocations
from spacy_mslm.masking.pmi import find_vocabulary
from spacy_mslm.masking.strategies import (
    JointMasking,
    Masking,
    NoMasking,
    PMIMasking,
    SpanMasking,
    TokenMasking,
)
from spacy_mslm.masking.views import maskable
from spacy_mslm.model.optimizer import make_adamw
from spacy_mslm.pipeline.find import find_mslm

from .machine import write_result

RESULTS = Path(__file__).parent / "results" / "masking_cost.json"
BATCH = 16
ENTRIES = 16_000  # about as many as the paper's vocabulary has


def masking_cost(
    encoder: Annotated[Path, typer.Argument(help="Encoder folder, or hub name")],
    train: Annotated[Path, typer.Argument(help="Training set: IOB or .spacy file")],
    batches: Annotated[int, typer.Option(help="Batches to time")] = 20,
) -> None:
    """Time each strategy's masks, and a training step of the mslm pipe, on the same batches."""
    nlp = spacy.blank("en")
    nlp.add_pipe("mslm", config={"model": {"encoder": str(encoder)}})
    examples = list(islice(make_corpus(train)(nlp), BATCH * batches))
    nlp.initialize(lambda: examples)
    groups = [examples[i : i + BATCH] for i in range(0, len(examples), BATCH)]
    optimizer = make_adamw(1e-4, 5e-4)
    step = _median_ms(groups, lambda group: nlp.update(group, sgd=optimizer))
    with TemporaryDirectory() as folder:
        vocabulary = Path(folder) / "pmi.txt"
        entries = _write_vocabulary(train, vocabulary)
        strategies: dict[str, Masking] = {
            "none": NoMasking(),
            "BLM": TokenMasking(),
            "joint": JointMasking(),
            "SPAN": SpanMasking(),
            f"PMI, {entries:,} entries": PMIMasking(str(vocabulary)),
        }
        costs = {name: _cost(nlp, groups, masking) for name, masking in strategies.items()}
    found = {"step_ms": step, "masking_ms": costs, "batch": BATCH, "batches": len(groups)}
    write_result(RESULTS, found)
    rows = [(name, f"{ms:.2f}", f"{ms / step:.2%}") for name, ms in costs.items()]
    header = ("strategy", "ms per batch", "of a step")
    msg.info(f"Training step: {step:.0f} ms ({BATCH} texts, median of {len(groups)})")
    msg.table(rows, header=header, divider=True, aligns=("l", "r", "r"))


def _write_vocabulary(train: Path, path: Path) -> int:
    """Write ENTRIES n-grams, unfiltered: only their number matters here."""
    nlp = spacy.blank("en")
    found = find_vocabulary(read_docs(train, nlp.vocab), nlp.vocab, min_count=2, min_chars=0)
    write_collocations(path, found[-ENTRIES:], [])
    return len(found[-ENTRIES:])


def _cost(nlp: spacy.Language, groups: list[list[Example]], masking: Masking) -> float:
    """Return the milliseconds to draw the masks of a batch from its wordpieces and gold."""
    pipe = find_mslm(nlp, "benchmark")[1]
    batches = []
    for group in groups:
        documents = pipe.shim.wordpieces([example.predicted for example in group])
        batches.append(
            [
                (pieces, window, align_gold(example, None))
                for example, pieces in zip(group, documents, strict=True)
                for window in pipe.windows.cover(pieces)
            ]
        )
    generator = np.random.default_rng(0)

    def draw(batch: list) -> None:
        for pieces, window, gold in batch:
            masking(maskable(pieces, window, gold), generator)

    draw(batches[0])  # reads the vocabulary
    return _median_ms(batches, draw)


def _median_ms(items: list, run: Callable) -> float:
    times = []
    for item in items:
        start = time.perf_counter()
        run(item)
        times.append(1000 * (time.perf_counter() - start))
    return median(times)
