"""What tests of several packages share, besides the fixtures of `conftest.py`."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import spacy
from spacy.language import Language
from spacy.tokens import Doc, DocBin

from spacy_mslm.model.optimizer import make_adamw
from spacy_mslm.types import BLM, ELM, UNMASKED, Row

from .conftest import make_examples

# Two words that occur in these sentences only: one outside, one inside of mentions.
TRAIN = [
    "the/O patient/O qxsecretname/O had/O acute/B-Disease renal/I-Disease failure/I-Disease ./O",
    "aspirin/B-Chemical and/O heparin/B-Chemical were/O stopped/O on/O day/O three/O ./O",
    "no/O history/O of/O diabetes/B-Disease mellitus/I-Disease or/O asthma/B-Disease ./O",
    "qxsecretdrug/B-Chemical after/O cisplatin/B-Chemical ./O",
    "follow/O up/O in/O two/O weeks/O with/O the/O same/O clinic/O ./O",
]
DEV = [
    "the/O patient/O had/O asthma/B-Disease after/O aspirin/B-Chemical ./O",
    "no/O qxsecretname/O history/O of/O acute/B-Disease renal/I-Disease failure/I-Disease ./O",
]


def write_iob(path: Path, sentences: list[str]) -> None:
    lines = (sentence.replace(" ", "\n").replace("/", "\t") + "\n" for sentence in sentences)
    path.write_text("\n".join(lines), encoding="utf8")


def read_docs(path: Path) -> list[Doc]:
    return list(DocBin().from_disk(path).get_docs(spacy.blank("en").vocab))


def leave_temporary(folder: Path) -> None:
    """Write into a pipeline what a killed process can have left there. It must not be copied."""
    leftover = folder / ".model.0123456789abcdef.partial"
    leftover.mkdir()
    (leftover / "strings.json").write_text('["qxsecretname"]')


def write_terms(path: Path, terms: list[tuple[str, str]]) -> Path:
    lines = ["term\tid\tsource\tsemantic_type", *(f"{name}\tX\tx\t{t}" for name, t in terms)]
    path.write_text("\n".join(lines) + "\n", encoding="utf8")
    return path


def make_rows(sizes: list[int], seed: int) -> list[Row]:
    """Rows whose every piece has an id of its own, tagged throughout, with one mention."""
    generator = np.random.default_rng(seed)
    rows, first = [], 10
    for size in sizes:
        kinds = generator.choice([UNMASKED, BLM, ELM], size=size).astype(np.int8)
        at = np.arange(size)
        rows.append(Row(first + at, kinds, at, at % 3, [(at[: size // 2 + 1], size % 2)]))
        first += size
    return rows


def train(nlp: Language, steps: int = 60) -> list[dict[str, float]]:
    optimizer = make_adamw(1e-3, 1e-2)
    examples = make_examples(nlp)
    return [nlp.update(examples, sgd=optimizer, drop=0.1) for _ in range(steps)]


def answers(docs: Iterable[Doc]) -> list[tuple]:
    """All that a pipe with `token_probabilities` says, to the last bit."""
    return [
        (
            [(e.start, e.end, e.label_, e._.confidence) for e in doc.ents],
            doc._.bio_probabilities.tobytes(),
        )
        for doc in docs
    ]


WORKERS = """
import json, multiprocessing, sys
import spacy, torch

def told(docs):
    return [[(e.start, e.end, e.label_, e._.confidence) for e in doc.ents] for doc in docs]

if __name__ == "__main__":
    method, path, texts = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    multiprocessing.set_start_method(method)
    torch.set_num_threads(2)
    torch.rand(1500, 1500) @ torch.rand(1500, 1500)  # starts torch's second thread
    nlp = spacy.load(path)
    print(json.dumps([told(nlp.pipe(texts, n_process=n, batch_size=3)) for n in (1, 2)]))
"""
