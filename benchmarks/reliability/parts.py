"""What the experiments share: rows of the table, a tiny pipeline, processes that are killed."""

import logging
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import spacy
import torch
from spacy.language import Language
from spacy.training import Example
from transformers import BertConfig, BertForMaskedLM, BertTokenizerFast

from spacy_mslm.model.optimizer import make_adamw

WORDS = "the patient had acute renal failure after cisplatin no history of asthma with aspirin"
SIGNS = [".", ",", "-", "(", ")", "[", "]", *"abcdefghijklmnopqrstuvwxyz0123456789"]
SENTENCES = [
    ("the patient had acute renal failure after cisplatin .", [(16, 35, "Disease")]),
    ("no history of asthma with aspirin .", [(14, 20, "Disease"), (26, 33, "Chemical")]),
    ("the patient had aspirin .", [(16, 23, "Chemical")]),
]
TOKENIZER = {"nlp": {"tokenizer": {"@tokenizers": "spacy_mslm.Tokenizer.v1"}}}


class Row(NamedTuple):
    """A line of the table.

    Attributes:
        name: The experiment.
        cases: How often it was done.
        survived: In how many cases all was as it must be.
        lost: Number of documents or files that were lost.
        doubled: Number of documents that are there twice.
        wrong: Number of answers, contents or messages that are wrong.
    """

    name: str
    cases: int
    survived: int
    lost: int = 0
    doubled: int = 0
    wrong: int = 0


class Setup(NamedTuple):
    """What the experiments get.

    Attributes:
        folder: An empty folder to work in.
        size: The share of the full size.
    """

    folder: Path
    size: float

    def count(self, full: int) -> int:
        """Return the number of cases, of which there is at least one."""
        return max(1, round(self.size * full))

    def sub(self, name: str) -> Path:
        """Make a folder for an experiment."""
        path = self.folder / name
        path.mkdir()
        return path


def build_encoder(folder: Path) -> Path:
    """Write a BERT of two layers with random weights, whose vocabulary spells any word."""
    folder.mkdir(parents=True, exist_ok=True)
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS.split(), *SIGNS]
    pieces += [f"##{sign}" for sign in SIGNS]
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf8")
    BertTokenizerFast.from_pretrained(folder).save_pretrained(folder)
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = BertConfig(vocab_size=len(pieces), intermediate_size=64, **shape)
    BertForMaskedLM(config).save_pretrained(folder)
    return folder


def train_pipeline(encoder: Path, steps: int = 60) -> Language:
    """Train a pipeline that finds the entities of the sentences above."""
    spacy.util.fix_random_seed(0)
    nlp = spacy.blank("en", config=TOKENIZER)
    nlp.add_pipe("mslm", config={"model": {"encoder": str(encoder), "window": 64, "context": 8}})
    examples = [Example.from_dict(nlp.make_doc(t), {"entities": e}) for t, e in SENTENCES]
    nlp.initialize(lambda: examples)
    optimizer = make_adamw(1e-3, 1e-2)
    for _ in range(steps):
        nlp.update(examples, sgd=optimizer)
    assert any(nlp(text).ents for text, _ in SENTENCES)
    return nlp


def files_of(folder: Path) -> dict[str, bytes]:
    """Return the content of all files of a folder by name."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def run_forked(function: Callable[[], Any], kill_after: float | None = None) -> int:
    """Run a function in a fork, and kill it after some seconds.

    Returns:
        The exit code: 0 if it has finished, 1 after an exception, -9 if it was killed.
    """
    process = multiprocessing.get_context("fork").Process(target=_quiet, args=(function,))
    process.start()
    if kill_after is not None:
        process.join(kill_after)
        if process.is_alive() and process.pid:
            os.kill(process.pid, signal.SIGKILL)
    process.join()
    return process.exitcode or 0


def _quiet(function: Callable[[], Any]) -> None:
    logging.disable()
    nothing = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nothing, stream)
    function()


def kill_until_done(
    function: Callable[[], Any], kills: int, seed: int, check: Callable[[], bool]
) -> tuple[int, int]:
    """Kill a function at random moments until it was killed so often, and start it again each time.

    Args:
        function: What to run. It is run to its end once, to know how long that takes.
        kills: How often to kill it.
        seed: Seed of the moments.
        check: Returns whether all is as it must be after a kill.

    Returns:
        The number of kills, and after how many of them all was as it must be.
    """
    draw = random.Random(seed)
    start = time.perf_counter()
    assert run_forked(function) == 0
    duration = time.perf_counter() - start
    killed = survived = attempts = 0
    while killed < kills and attempts < 20 * kills:
        attempts += 1
        if run_forked(function, draw.uniform(0, duration)) == -signal.SIGKILL:
            killed += 1
            survived += check()
    return killed, survived
