"""Shared parts: a tiny BERT with a real WordPiece vocabulary, built from a config, no network."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import spacy
import torch
from spacy.language import Language
from spacy.training import Example
from transformers import BertConfig, BertForMaskedLM, BertTokenizerFast

from spacy_mslm.model.optimizer import make_adamw

# The models here are so small that torch's threads mostly wait for each other: twenty updates take
# 37 s with them and 0.7 s without on a busy machine. Commands that tests start inherit this.
os.environ.setdefault("OMP_NUM_THREADS", "1")
torch.set_num_threads(1)
# A deadline for each example would depend on what else the machine does.
hypothesis.settings.register_profile("no-deadline", deadline=None)
hypothesis.settings.load_profile("no-deadline")

TEXTS = [
    (
        "the patient had acute renal failure after cisplatin .",
        [(16, 35, "Disease"), (42, 51, "Chemical")],
    ),
    ("no history of diabetes mellitus or asthma .", [(14, 31, "Disease"), (35, 41, "Disease")]),
    ("aspirin and heparin were stopped on day three .", [(0, 7, "Chemical"), (12, 19, "Chemical")]),
    ("follow up in two weeks with the same clinic .", []),
]
PIECES = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "the",
    "patient",
    "had",
    "acute",
    "renal",
    "failure",
    "after",
    "cis",
    "##platin",
    ".",
    "no",
    "history",
    "of",
    "diabetes",
    "mell",
    "##itus",
    "or",
    "asthma",
    "as",
    "##pirin",
    "hep",
    "##arin",
    "and",
    "were",
    "stopped",
    "on",
    "day",
    "three",
    "follow",
    "up",
    "in",
    "two",
    "weeks",
    "with",
    "same",
    "clinic",
    "[",
    "]",
    "mask",
    "a",
    "##a",
    "b",
    "##b",
    "c",
    "##c",
    "1",
    "2",
    "##1",
    "##2",
    "-",
    "(",
    ")",
]


# The paper's masking rates and losses.
PAPER = {
    "masking": {"@misc": "spacy_mslm.JointMasking.v1", "elm_rate": 1.0, "blm_rate": 0.075},
    "mask_weights": {
        "@misc": "spacy_mslm.MaskSpecificWeights.v1",
        "threshold": 0.5,
        "temperature": 1.0,
    },
    "loss_weights": {"mlm": 1.0, "ed": 1.0, "el": 1.0},
}


def build_encoder(folder: Path, **config: object) -> Path:
    """A two-layer BERT with a vocabulary that spells the test texts."""
    folder.mkdir(parents=True, exist_ok=True)
    vocab = folder / "vocab.txt"
    vocab.write_text("\n".join(PIECES) + "\n", encoding="utf8")
    tokenizer = BertTokenizerFast.from_pretrained(folder, do_lower_case=True)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    shape = {
        "vocab_size": len(PIECES),
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "max_position_embeddings": 80,
    }
    BertForMaskedLM(BertConfig(**{**shape, **config})).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_encoder(tmp_path_factory.mktemp("encoder"))


def make_examples(nlp: Language) -> list[Example]:
    return [
        Example.from_dict(nlp.make_doc(text), {"entities": entities}) for text, entities in TEXTS
    ]


@pytest.fixture(scope="session")
def make_nlp(encoder: Path) -> Callable[..., Language]:
    """An initialised pipeline with one `mslm` pipe that learns from masks by the paper's settings;
    keyword arguments are config overrides."""

    def make(initialize: bool = True, model: dict | None = None, **config: object) -> Language:
        spacy.util.fix_random_seed(0)
        nlp = spacy.blank("en")
        shape = {"encoder": str(encoder), "window": 40, "context": 8, **(model or {})}
        nlp.add_pipe("mslm", config={**PAPER, "model": shape, **config})
        if initialize:
            nlp.initialize(lambda: make_examples(nlp))
        return nlp

    return make


@pytest.fixture(scope="session")
def train_once(make_nlp: Callable[..., Language]) -> Callable[..., Language]:
    """A pipeline of `make_nlp(**settings)` after some updates on the test texts. It is trained
    once for all tests with the same settings; each call returns a copy."""
    trained: dict[str, bytes] = {}

    def train(steps: int, drop: float = 0.0, **settings: Any) -> Language:
        key = json.dumps([steps, drop, settings], sort_keys=True)
        if key not in trained:
            nlp = make_nlp(**settings)
            optimizer = make_adamw(1e-3, 1e-2)
            for _ in range(steps):
                nlp.update(make_examples(nlp), sgd=optimizer, drop=drop)
            trained[key] = nlp.to_bytes()
        return make_nlp(initialize=False, **settings).from_bytes(trained[key])

    return train
