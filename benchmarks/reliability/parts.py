"""What the experiments share: rows of the table, a tiny pipeline, processes that are killed."""

import logging
import multiprocessing
import os
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import spacy
import torch
from spacy.language import Language
from spacy.training import Example
from transformers import BertConfig, BertForMaskedLM, BertTokenizerFast

from spacy_mslm.model.optimizer import make_adamw

ROOT = Path(__file__).parents[2]
WORDS = "the patient had acute renal failure after cisplatin no history of asthma with aspirin"
SIGNS = [".", ",", "-", "(", ")", "[", "]", *"abcdefghijklmnopqrstuvwxyz0123456789"]
SENTENCES = [
    ("the patient had acute renal failure after cisplatin .", [(16, 35, "Disease")]),
    ("no history of asthma with aspirin .", [(14, 20, "Disease"), (26, 33, "Chemical")]),
    ("the patient had aspirin .", [(16, 23, "Chemical")]),
]
# Seconds after which a process that does not end is a fault.
LIMIT = 600
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


class Work:
    """What the experiments get.

    Args:
        folder: A folder to work in.

    Attributes:
        at_end: What to undo when all is done.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.at_end = ExitStack()

    @cached_property
    def encoder(self) -> Path:
        """The folder of an encoder with random weights."""
        return build_encoder(self.folder / "encoder")

    @cached_property
    def nlp(self) -> Language:
        """A tiny pipeline that finds the entities of the sentences above."""
        return train_pipeline(self.encoder)

    def new(self, name: str) -> Path:
        """Return a new empty folder."""
        path = self.folder / name
        shutil.rmtree(path, ignore_errors=True)
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


def run_forked(
    function: Callable[[], Any], after: float | None = None, sent: int = signal.SIGKILL
) -> int:
    """Run a function in a fork, and send a signal to it and to the processes that it has started.

    Args:
        function: What to run.
        after: Seconds until the signal is sent; without it, none is sent.
        sent: The signal.

    Returns:
        The exit code: 0 if it has finished, 1 after an exception, -9 if it was killed.
    """
    process = multiprocessing.get_context("fork").Process(target=_quiet, args=(function,))
    process.start()
    if after is not None:
        process.join(after)
        if process.is_alive() and process.pid:
            with suppress(ProcessLookupError):  # it has not its own group yet, or has ended
                os.killpg(process.pid, sent)
    process.join(LIMIT)
    if process.is_alive() and process.pid:
        os.killpg(process.pid, signal.SIGKILL)
        raise TimeoutError(f"a process did not end within {LIMIT} s")
    return process.exitcode or 0


def _quiet(function: Callable[[], Any]) -> None:
    os.setsid()
    # A shell that starts this in the background lets it ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    logging.disable()
    nothing = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nothing, stream)
    function()


def time_of(function: Callable[[], Any]) -> float:
    """Run a function in a fork and return the seconds that it takes."""
    start = time.perf_counter()
    code = run_forked(function)
    if code:
        raise RuntimeError(f"ended with the exit code {code} without being killed")
    return time.perf_counter() - start
