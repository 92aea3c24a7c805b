"""Run one trial: `python -m benchmarks.arms.trial '{"name": ..., "set": ..., "seed": ..., ...}'`.

Fields and their defaults are those of `Settings`. A stage that was run (teacher, labels, student)
is read from RUN. Rows are in the format of `benchmarks accuracy`.
"""

import json
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np
import spacy
import torch
from spacy.language import Language

from spacy_mslm.masking.even import EvenMasking, Unit
from spacy_mslm.pipeline.component import MSLM
from spacy_mslm.pipeline.find import find_mslm
from spacy_mslm.scoring.counts import pack
from spacy_mslm.tasks.sweeping.results import row_key
from spacy_mslm.tasks.sweeping.scores import score
from spacy_mslm.training.swap import confirmed, swap_mentions
from spacy_mslm.types import UNMASKED, MaskableWindow, Row
from spacy_mslm.util.locks import append_line, read_lines

from ..accuracy import ROOT
from ..machine import describe_machine
from ..reference import SPLITS
from .data import (
    DATA,
    LIMIT,
    RUN,
    SAMPLE_SEED,
    Labelled,
    gold_rows,
    labelled_text,
    make_pipe,
    teacher_folder,
    text_row,
)
from .training import make_optimizer, update

RESULTS = ROOT / "benchmarks/results/accuracy/arms.jsonl"
SEED_OFFSET = 1_000_003


@dataclass
class Settings:
    name: str
    set: str
    seed: int = 0
    kind: str = "adapt"  # or vanilla
    # Adaptation.
    teachers: list[str] = field(default_factory=list)  # [] is the vanilla of the same seed
    steps: int = 300
    repeat: int = 1  # how often each sentence of the text is read, with other masks each time
    batch: int = 16
    gold: int = 4  # of the batch: labelled sentences
    without: float = 1 / 3  # share of the sentences of the text in which the teacher finds nothing
    sure: float = 0.9  # tokens of which the teacher is less sure carry no target
    min_confidence: float = 0.0  # sentences with a mention below it are left out
    hard: bool = False
    max_pieces: int = 56  # longer sentences of the text are left out: they cost the most
    unit: Unit | Literal["none"] = "none"  # what is masked
    rate: float = 0.3
    masked_share: float = 1.0  # of the sentences that are masked at all
    rate_lr: float = 2e-4
    rate_head: float = 5e-4
    # Fine-tuning.
    ft: int = 312
    ft_lr: float = 1e-4
    ft_head: float = 5e-4
    refill: str = ""  # labelled sentences with a swapped mention: swap, or rows (unchecked)
    refilled: int = 500  # their number
    student: str = ""  # start fine-tuning from the student of this trial
    bf16: bool = True

    @property
    def key(self) -> str:
        return f"{self.name}-{self.set}-s{self.seed}"


def main(text: str) -> None:
    settings = Settings(**json.loads(text))
    RUN.mkdir(parents=True, exist_ok=True)
    if settings.key in {row_key(row) for row in read_lines(RESULTS)}:
        return
    kinds = {"vanilla": run_vanilla, "adapt": run_adapt}
    kinds[settings.kind](settings)


def run_vanilla(settings: Settings) -> None:
    start = time.process_time()
    nlp, pipe, examples = make_pipe(settings.set, settings.seed)
    torch.manual_seed(settings.seed)
    rows = gold_rows(pipe, examples)
    finetune(settings, pipe, rows)
    folder = teacher_folder(settings.set, f"s{settings.seed}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    nlp.to_disk(folder)
    store(settings, settings.name, nlp, time.process_time() - start, 0)


def run_adapt(settings: Settings) -> None:
    nlp, pipe, examples = make_pipe(settings.set, settings.seed)
    rows = gold_rows(pipe, examples)
    folder = RUN / "students" / settings.key
    if settings.student:
        folder = RUN / "students" / f"{settings.student}-{settings.set}-s{settings.seed}"
    if (folder / "meta.json").exists():
        pipe.from_disk(folder / "mslm")
        seconds = json.loads((folder / "arm.json").read_text())["seconds"]
    else:
        start = time.process_time()
        facts = adapt(settings, nlp, pipe, rows)
        seconds = round(time.process_time() - start)
        folder.parent.mkdir(parents=True, exist_ok=True)
        nlp.to_disk(folder)
        facts = {"seconds": seconds, "settings": asdict(settings), **facts}
        (folder / "arm.json").write_text(json.dumps(facts, indent=2))
        store(settings, f"{settings.name}@student", nlp, 0, seconds)
    if settings.ft:
        start = time.process_time()
        torch.manual_seed(settings.seed)
        finetune(settings, pipe, rows)
        store(settings, settings.name, nlp, time.process_time() - start, seconds)


def adapt(settings: Settings, nlp: Language, pipe: MSLM, rows: list[Row]) -> dict[str, Any]:
    """Train a pipe on text with the teacher's soft tags and on labelled sentences; with `refill`,
    also on copies of those with a swapped mention."""
    per_batch = settings.batch - settings.gold
    wanted = settings.steps * per_batch // settings.repeat
    without = round(settings.without * wanted)
    teachers = settings.teachers or [f"s{settings.seed}"]
    text = labelled_text(
        settings.set,
        teachers,
        wanted - without,
        without,
        nlp,
        pipe,
        settings.min_confidence,
        settings.max_pieces,
    )
    log(f"{len(text)} sentences of text, {sum(len(t.spans) for t in text)} mentions")
    lengths = [
        int(t.pieces.starts[end] - t.pieces.starts[start]) for t in text for start, end in t.spans
    ]
    masking = None
    if settings.unit != "none":
        masking = EvenMasking(settings.unit, settings.rate, lengths)
    generator = np.random.default_rng([settings.seed, 18])
    torch.manual_seed(settings.seed + SEED_OFFSET)
    order = random.Random(settings.seed).sample(text, len(text))
    order = [t for _ in range(settings.repeat) for t in order]
    if settings.refill:
        generate = random.Random(settings.seed)
        new = swap_mentions(rows, 2 * settings.refilled, pipe.windows.size, generate)
        if settings.refill == "swap":  # else "rows": no teacher checks them
            folder = teacher_folder(settings.set, teachers[0])
            teacher = find_mslm(spacy.load(folder), "teacher")[1]
            new = list(confirmed(new, teacher.predict_pieces))
        rows = rows + new[: settings.refilled]
        log(f"{len(new)} of {2 * settings.refilled} sentences with a swapped mention")
    golds = batches_of(rows, settings.gold, settings.seed + 500) if settings.gold else None
    optimizer = make_optimizer(settings.steps, settings.rate_lr, settings.rate_head)
    total = 0.0
    for step in range(settings.steps):
        batch = list(next(golds)) if golds is not None else []
        for k in range(per_batch):
            t = order[(step * per_batch + k) % len(order)]
            row = text_row(pipe, t, settings.sure, settings.hard)
            if masking is not None and generator.random() < settings.masked_share:
                row = masked(pipe, row, t, masking, generator)
            batch.append(row)
        total += update(pipe, batch, optimizer, bf16=settings.bf16)
        if step % 50 == 49:
            log(f"adapt {step + 1}: {total / 50:.4f}")
            total = 0.0
    return {"sentences": len(text), "mentions": len(lengths)}


def masked(
    pipe: MSLM, row: Row, labelled: Labelled, masking: EvenMasking, generator: np.random.Generator
) -> Row:
    """Mask a sentence of the text; no head reads its masks."""
    pieces = labelled.pieces
    kinds = masking(MaskableWindow(pieces.token_of, labelled.spans, pieces.words), generator)
    return replace(row, ids=np.where(kinds == UNMASKED, row.ids, pipe.shim.wordpieces.mask))


def finetune(settings: Settings, pipe: MSLM, rows: list[Row]) -> None:
    optimizer = make_optimizer(settings.ft, settings.ft_lr, settings.ft_head)
    batches = batches_of(rows, 16, settings.seed)
    total = 0.0
    for step in range(settings.ft):
        total += update(pipe, next(batches), optimizer, bf16=settings.bf16)
        if step % 50 == 49:
            log(f"fine-tune {step + 1}: {total / 50:.4f}")
            total = 0.0


def batches_of(rows: list[Row], size: int, seed: int) -> Iterator[list[Row]]:
    """Yield batches without end, in a new order every epoch."""
    generator = random.Random(seed)
    left: list[Row] = []
    while True:
        while len(left) < size:
            left += generator.sample(rows, len(rows))
        yield left[:size]
        left = left[size:]


def store(settings: Settings, name: str, nlp: Language, seconds: float, adaptation: float) -> None:
    data = DATA / settings.set
    scores, counts = score(nlp, data / SPLITS["dev"], data / SPLITS["train"], LIMIT, SAMPLE_SEED)
    row: dict[str, Any] = {
        "trial": name,
        "set": settings.set,
        "seed": settings.seed,
        "split": "dev",
        "config": "arms",
        **scores,
        "cpu_seconds": round(seconds),
        "adaptation_cpu_seconds": round(adaptation),
        "machine": describe_machine(),
        "settings": {k: v for k, v in asdict(settings).items() if k not in ("name", "set", "seed")},
        "counts": pack(counts),
    }
    append_line(RESULTS, row)
    log(
        f"{name} {settings.set} s{settings.seed}: "
        + " ".join(f"{key} {100 * row[key]:.2f}" for key in ("p", "f", "em", "em_unseen", "ece"))
    )


def log(text: str) -> None:
    print(time.strftime("%H:%M:%S"), text, flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(sys.argv[1])
