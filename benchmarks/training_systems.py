"""The trainings whose speed is compared, each in its own process: see `systems`.

A run has `updates` updates of `BATCH` sentences each. The data is read before.
"""

import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import spacy
import torch
from spacy.training import Example

sys.path.insert(0, str(Path(__file__).parents[1]))  # it is run as a file

from benchmarks.systems import answer_requests
from spacy_mslm.corpus.formats.iob import read_iob
from spacy_mslm.corpus.formats.records import Sentence
from spacy_mslm.corpus.readers import make_corpus
from spacy_mslm.model.optimizer import make_adamw
from spacy_mslm.pieces.collate import batch_rows
from spacy_mslm.pipeline.component import MSLM
from spacy_mslm.pipeline.find import find_mslm
from spacy_mslm.training.losses import Terms

BATCH = 16
LABELS = ["O", "B-Disease", "I-Disease"]
PAPER_LENGTH = 256
# The paper's masks and losses, whatever the defaults of the pipe.
PAPER = {
    "masking": {"@misc": "spacy_mslm.JointMasking.v1", "elm_rate": 1.0, "blm_rate": 0.075},
    "loss_weights": {"mlm": 1.0, "ed": 1.0, "el": 1.0},
}
Request = dict[str, Any]


def ours(train: str, encoder: str, **config: Any) -> Callable[[Request], dict[str, float]]:
    """Train an `mslm` pipe; `data` is the share of time outside of encoder and heads."""
    nlp = spacy.blank("en")
    nlp.add_pipe("mslm", config={**PAPER, "model": {"encoder": encoder}, **config})
    examples = list(make_corpus(train, seed=0)(nlp))
    nlp.initialize(lambda: examples[:500])
    optimizer = make_adamw(1e-4, 5e-4)
    _, pipe = find_mslm(nlp, "benchmark")

    def run(request: Request) -> dict[str, float]:
        batches = _batches(examples, request)
        start = time.perf_counter()
        for batch in batches:
            nlp.update(batch, sgd=optimizer, drop=0.1)
        seconds = time.perf_counter() - start
        start = time.perf_counter()
        for batch in batches:
            _prepare(pipe, batch)
        return {"seconds": seconds, "data": (time.perf_counter() - start) / seconds}

    return run


def _prepare(pipe: MSLM, batch: list[Example]) -> None:
    """Run the part of an update that comes before the encoder."""
    rows = list(pipe._training_rows(batch, Terms(1.0, 1.0, 1.0), np.random.default_rng(0)))
    list(batch_rows(rows, pipe.batch_pieces, pipe.shim.wordpieces))


def spacy_ner(train: str, encoder: str) -> Callable[[Request], dict[str, float]]:
    """Train the pipeline of configs/spacy_ner.cfg."""
    from spacy.util import load_config, load_model_from_config

    path = Path(__file__).parents[1] / "configs" / "spacy_ner.cfg"
    overrides = {"vars.encoder": encoder, "paths.train": train, "paths.dev": train}
    nlp = load_model_from_config(load_config(path, overrides=overrides), auto_fill=True)
    examples = list(make_corpus(train, seed=0)(nlp))
    optimizer = nlp.initialize(lambda: examples[:500])

    def run(request: Request) -> dict[str, float]:
        batches = _batches(examples, request)
        start = time.perf_counter()
        for batch in batches:
            nlp.update(batch, sgd=optimizer, drop=0.1)
        return {"seconds": time.perf_counter() - start}

    return run


def _batches(examples: list[Example], request: Request) -> list[list[Example]]:
    """Copy the examples: a pipe that gets a document twice might cache it."""
    first = request["first"] * BATCH
    chosen = examples[first : first + request["updates"] * BATCH]
    copies = [Example(eg.predicted.copy(), eg.reference.copy()) for eg in chosen]
    return [copies[i : i + BATCH] for i in range(0, len(copies), BATCH)]


def hf_trainer(train: str, encoder: str) -> Callable[[Request], dict[str, float]]:
    """Train a token classifier with the Hugging Face `Trainer`, padded to the longest sentence.
    Tokenization is not timed."""
    from transformers import (
        AutoModelForTokenClassification,
        AutoTokenizer,
        DataCollatorForTokenClassification,
        Trainer,
        TrainerCallback,
        TrainingArguments,
    )

    tokenizer = AutoTokenizer.from_pretrained(encoder)
    model = AutoModelForTokenClassification.from_pretrained(encoder, num_labels=len(LABELS))
    features = [_features(tokenizer, sentence) for sentence in _sentences(train)]

    class Clock(TrainerCallback):
        """Start the clock at the first update: the rest is done once per training."""

        def __init__(self) -> None:
            self.start = self.end = 0.0

        def on_step_begin(self, *args: Any, **kwargs: Any) -> None:
            self.start = self.start or time.perf_counter()

        def on_step_end(self, *args: Any, **kwargs: Any) -> None:
            self.end = time.perf_counter()

    def run(request: Request) -> dict[str, float]:
        first = request["first"] * BATCH
        clock = Clock()
        trainer = Trainer(
            model,
            TrainingArguments(
                output_dir="unused",
                per_device_train_batch_size=BATCH,
                max_steps=request["updates"],
                save_strategy="no",
                logging_strategy="no",
                report_to=[],
                disable_tqdm=True,
                use_cpu=True,
            ),
            train_dataset=features[first : first + request["updates"] * BATCH],
            data_collator=DataCollatorForTokenClassification(tokenizer),
            callbacks=[clock],
        )
        trainer.train()
        return {"seconds": clock.end - clock.start}

    return run


def paper(train: str, encoder: str) -> Callable[[Request], dict[str, float]]:
    """Train as the authors of the paper do: masks are drawn once, every sentence is padded to 256,
    all positions are projected to the vocabulary, the tagging head reads the masked sentence."""
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(encoder)
    lm = AutoModelForMaskedLM.from_pretrained(encoder).train()
    head = torch.nn.Linear(lm.config.hidden_size, len(LABELS))
    parameters = [*lm.parameters(), *head.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=5e-5)
    generator = np.random.default_rng(0)
    rows = []
    for sentence in _sentences(train):
        found = _features(tokenizer, sentence)
        size = min(len(found["input_ids"]), PAPER_LENGTH)
        ids = np.full(PAPER_LENGTH, tokenizer.pad_token_id)
        tags = np.full(PAPER_LENGTH, -100)
        ids[:size], tags[:size] = found["input_ids"][:size], found["labels"][:size]
        masked = (tags > 0) | ((tags == 0) & (generator.random(PAPER_LENGTH) < 0.075))
        targets = np.where(masked, ids, -100)
        attention = np.arange(PAPER_LENGTH) < size
        rows.append((np.where(masked, tokenizer.mask_token_id, ids), attention, targets, tags))
    loss = partial(torch.nn.functional.cross_entropy, ignore_index=-100)

    def run(request: Request) -> dict[str, float]:
        first = request["first"] * BATCH
        start = time.perf_counter()
        for at in range(first, first + request["updates"] * BATCH, BATCH):
            ids, attention, targets, tags = (
                torch.from_numpy(np.stack(part).astype(np.int64))
                for part in zip(*rows[at : at + BATCH], strict=True)
            )
            outputs = lm(input_ids=ids, attention_mask=attention, output_hidden_states=True)
            total = loss(outputs.logits.flatten(0, 1), targets.flatten())
            tagged = head(outputs.hidden_states[-1]).flatten(0, 1)
            (total + loss(tagged, tags.flatten())).backward()
            optimizer.step()
            optimizer.zero_grad()
        return {"seconds": time.perf_counter() - start}

    return run


def _sentences(train: str) -> list[Sentence]:
    """Return the sentences in the order of our examples."""
    from spacy_mslm.corpus.readers import select

    return list(select(read_iob(Path(train)), 0, 0))


def _features(tokenizer: Any, sentence: Sentence) -> dict[str, list[int]]:
    """Return the labels, at the first piece of each word."""
    tags = [0] * len(sentence.words)
    for start, end, _ in sentence.mentions:
        tags[start:end] = [1] + [2] * (end - start - 1)
    found = tokenizer(sentence.words, is_split_into_words=True, truncation=True, max_length=512)
    words = [None, *found.word_ids()]
    labels = [
        tags[word] if word is not None and word != before else -100
        for before, word in zip(words, islice(words, 1, None), strict=False)
    ]
    return {**found, "labels": labels}


SYSTEMS = {"ours": ours, "spacy_ner": spacy_ner, "hf_trainer": hf_trainer, "paper": paper}

if __name__ == "__main__":
    answer_requests(SYSTEMS)
