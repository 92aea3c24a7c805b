"""Pipes, labelled sets, text and teacher labels. Each is made once and kept under RUN."""

import gzip
import pickle
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import spacy
import torch
from spacy.language import Language

from spacy_mslm.corpus.readers import make_corpus, select
from spacy_mslm.inference.decoding import bio_spans, decode_bio, transition_scores
from spacy_mslm.masking.views import gold_row
from spacy_mslm.pipeline.component import MSLM
from spacy_mslm.pipeline.find import find_mslm
from spacy_mslm.tasks.sweeping.data import without_sentences
from spacy_mslm.text.sentences import sentence_docs
from spacy_mslm.training.self_training import soft_gold
from spacy_mslm.types import Mention, Pieces, Row

from ..accuracy import ROOT
from ..reference import CONFIGS, SPLITS
from .training import soft

SHARED = (ROOT / "../shared").resolve()
DATA = SHARED / "blurb"
ENCODER = str(SHARED / "encoders" / "biominilm")
RUN = ROOT / "training/arms"
LIMIT, SAMPLE_SEED = 500, 0
CHUNK = 4000  # sentences of text that are labelled at a time


def make_pipe(dataset: str, seed: int) -> tuple[Language, MSLM, list]:
    """An untrained pipeline of vanilla.cfg, initialised on the labelled sentences, and those."""
    overrides = {
        "paths.train": str(DATA / dataset / SPLITS["train"]),
        "paths.dev": str(DATA / dataset / SPLITS["dev"]),
        "vars.encoder": ENCODER,
        "vars.limit": LIMIT,
        "vars.sample_seed": SAMPLE_SEED,
        "system.seed": seed,
        "components.mslm.score_perplexity": False,
    }
    config = spacy.util.load_config(CONFIGS / "vanilla.cfg", overrides, interpolate=True)
    torch.manual_seed(seed)
    nlp = spacy.util.load_model_from_config(config, auto_fill=True)
    pipe = find_mslm(nlp, dataset)[1]
    train = DATA / dataset / SPLITS["train"]
    examples = list(make_corpus(train, LIMIT, SAMPLE_SEED)(nlp))
    pipe.initialize(lambda: examples, nlp=nlp)
    return nlp, pipe, examples


def gold_rows(pipe: MSLM, examples: list) -> list[Row]:
    """A row for each window of the labelled sentences."""
    documents = pipe.shim.wordpieces([example.predicted for example in examples])
    return [
        soft(gold_row(pieces, window, pipe.align(example), pipe.labels))
        for example, pieces in zip(examples, documents, strict=True)
        for window in pipe.windows.cover(pieces)
    ]


# ---- text ----


def text_file() -> Path:
    path = RUN / "text.txt.gz"
    if not path.exists():
        held_out = [p for s in ("dev", "test") for p in DATA.glob(f"*/{SPLITS[s]}")]
        without_sentences(SHARED / "text" / "mtl.txt.gz", held_out, path)
    return path


def text_chunk(index: int, nlp: Language, pipe: MSLM) -> list[Pieces]:
    """Sentences of lines `index * CHUNK:(index + 1) * CHUNK` of the shuffled text, as pieces; those
    that do not fit into one window are left out."""
    path = RUN / "pieces" / f"{index}.pickle"
    if path.exists():
        return pickle.loads(path.read_bytes())
    with gzip.open(text_file(), "rt", encoding="utf8") as file:
        lines = list(select(file, 0, 0))[index * CHUNK : (index + 1) * CHUNK]
    blank = spacy.blank("en", config={"nlp": {"tokenizer": nlp.config["nlp"]["tokenizer"]}})
    docs = []
    for line in lines:
        doc = blank.make_doc(line.strip())
        doc.user_data["id"] = ""
        docs += list(sentence_docs(doc))
    found = pipe.shim.wordpieces(docs)
    found = [p for p in found if 3 <= len(p.ids) <= pipe.model.attrs["window"]]
    found = [p for p in found if len(pipe.windows.cover(p)) == 1]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(found))
    return found


# ---- teachers ----


def teacher_folder(dataset: str, name: str) -> Path:
    return RUN / "teachers" / f"{dataset}-{name}"


def chunk_probabilities(dataset: str, teacher: str, index: int) -> list[np.ndarray]:
    """The teacher's (tokens, 3) probabilities for each sentence of a chunk of the text."""
    path = RUN / "labels" / f"{dataset}-{teacher}-{index}.npz"
    if not path.exists():
        start = time.process_time()
        nlp = spacy.load(teacher_folder(dataset, teacher))
        pipe = find_mslm(nlp, teacher)[1]
        sentences = text_chunk(index, nlp, pipe)
        # Long sentences are not used.
        short = [i for i, pieces in enumerate(sentences) if len(pieces.ids) <= 64]
        found = pipe.predict_pieces([sentences[i] for i in short])
        bio = [np.tile(np.array([0, 0, 1], dtype=np.float32), (len(p.words), 1)) for p in sentences]
        for i, prediction in zip(short, found, strict=True):
            bio[i] = prediction.bio
        path.parent.mkdir(parents=True, exist_ok=True)
        lengths = np.array([len(b) for b in bio])
        np.savez(
            path,
            bio=np.concatenate(bio).astype(np.float32),
            lengths=lengths,
            seconds=time.process_time() - start,
        )
    stored = np.load(path)
    return np.split(stored["bio"], np.cumsum(stored["lengths"])[:-1])


@dataclass
class Labelled:
    """A sentence of the text with what the teachers say: (tokens, 3) mean probabilities, the
    mentions decoded from them and the least probability of a tag in each mention."""

    pieces: Pieces
    bio: np.ndarray
    spans: np.ndarray
    confidence: float


def labelled_text(
    dataset: str,
    teachers: list[str],
    n_with: int,
    n_without: int,
    nlp: Language,
    pipe: MSLM,
    min_confidence: float = 0.0,
    max_pieces: int = 256,
) -> list[Labelled]:
    """The first sentences of the shuffled text with and without mentions, in the text's order."""
    transitions = transition_scores(np.array(pipe.cfg["transitions"]), pipe.transition_weight)
    found: list[Labelled] = []
    left = {True: n_with, False: n_without}
    index = 0
    while any(left.values()):
        sentences = text_chunk(index, nlp, pipe)
        if not sentences:
            break
        bios = zip(*(chunk_probabilities(dataset, t, index) for t in teachers), strict=True)
        for pieces, bio_all in zip(sentences, bios, strict=True):
            if len(pieces.ids) > max_pieces:
                continue
            bio = np.mean(bio_all, axis=0)
            tags = decode_bio(bio[pieces.tagged], transitions)
            spans = bio_spans(tags)
            has = bool(len(spans))
            if not left[has]:
                continue
            chosen = bio[pieces.tagged][np.arange(len(tags)), tags]
            confidence = min((float(np.prod(chosen[s:e])) for s, e in spans), default=1.0)
            if confidence < min_confidence:
                continue
            left[has] -= 1
            tokens = pieces.tagged
            ranges = np.stack([tokens[spans[:, 0]], tokens[spans[:, 1] - 1] + 1], axis=1)
            found.append(Labelled(pieces, bio, ranges, confidence))
        index += 1
    return found


def text_row(pipe: MSLM, labelled: Labelled, sure: float, hard: bool) -> Row:
    """The clean sentence with the probabilities of its tags: tokens of which the teacher is less
    sure carry none."""
    pieces = labelled.pieces
    if len(pipe.labels) > 1:
        raise ValueError("The arms take sets with one entity type.")
    mentions = [Mention(int(s), int(e), pipe.labels[0]) for s, e in labelled.spans]
    gold = soft_gold(labelled.bio, mentions, sure)
    window = pipe.windows.cover(pieces)[0]
    row = gold_row(pieces, window, gold, pipe.labels)
    if hard:
        return soft(row)
    tokens = pieces.token_of[window.start + row.tag_at]
    return replace(row, tags=labelled.bio[tokens].astype(np.float32))
