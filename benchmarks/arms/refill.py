"""Arm B: new training sentences, in which a mention of a labelled sentence is replaced by a name.

swap    any other mention of the labelled set
names   any name that the teacher is confident of in the text
lm      of such names, one of the few that the masked LM prefers in the slot
write   about half of the pieces of the mention, written by the masked LM (ranks 2 to 5)

All four make the same number of sentences from the same slots. A sentence is kept if the teacher
finds the new mention exactly. The tagger never reads a mask.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from spacy.tokens import Doc
from spacy.vocab import Vocab

from spacy_mslm.masking.views import gold_row
from spacy_mslm.pieces.collate import batch_rows
from spacy_mslm.pipeline.component import MSLM
from spacy_mslm.types import ELM, Gold, Mention, Pieces, Row

from .data import Labelled
from .training import soft

WAYS = ("swap", "names", "lm", "write")
TRIED = 100  # names of which the masked LM prefers some
TOP = 5


@dataclass
class Sentence:
    """A labelled sentence: its words and (start, end) of its mentions."""

    words: list[str]
    spans: list[tuple[int, int]]

    def replaced(self, at: int, name: list[str]) -> "Sentence":
        """The sentence with another name in place of the mention `at`."""
        start, end = self.spans[at]
        shift = len(name) - (end - start)
        spans = [(s + shift * (s > start), e + shift * (e >= end)) for s, e in self.spans]
        return Sentence([*self.words[:start], *name, *self.words[end:]], spans)


class Refill:
    """Makes new sentences from labelled ones.

    Args:
        pipe: A pipe with the untouched encoder, whose masked LM chooses or writes names.
        teacher: The pipe that checks new sentences.
        examples: The labelled sentences.
        text: Sentences of the text, with what the teacher is confident of.
    """

    def __init__(self, pipe: MSLM, teacher: MSLM, examples: list, text: list[Labelled]) -> None:
        self.pipe = pipe
        self.teacher = teacher
        self.vocab = Vocab()
        self.sentences = []
        for example in examples:
            doc = example.reference
            spans = [(ent.start, ent.end) for ent in doc.ents]
            self.sentences.append(Sentence([token.text for token in doc], spans))
        own = {tuple(s.words[b:e]) for s in self.sentences for b, e in s.spans}
        found = {tuple(t.pieces.words[b:e]) for t in text for b, e in t.spans}
        self.own = [list(name) for name in sorted(own)]
        self.found = [list(name) for name in sorted(found - own)]

    def __call__(self, way: str, wanted: int, seed: int) -> tuple[list[Row], float]:
        """Return the rows of new sentences, and the share that the teacher agreed with."""
        generator = random.Random(seed)
        slots = [(s, i) for s in self.sentences for i in range(len(s.spans))]
        rows: list[Row] = []
        tried = 0
        while len(rows) < wanted and tried < 4 * wanted:
            chosen = [generator.choice(slots) for _ in range(200)]
            new = list(self._new(way, chosen, generator))
            tried += len(new)
            rows += self._kept(new)
        return rows[:wanted], len(rows) / max(tried, 1)

    def _new(
        self, way: str, slots: list[tuple[Sentence, int]], generator: random.Random
    ) -> Iterator[tuple[Sentence, int]]:
        if way == "write":
            yield from self._written(slots, generator)
            return
        names = self.own if way == "swap" else self.found
        if way != "lm":
            for sentence, at in slots:
                yield sentence.replaced(at, generator.choice(names)), at
            return
        pieces = self._pieces([Sentence(n, []) for n in names])
        sizes = [len(p.ids) for p in pieces]
        of_size: dict[int, list[int]] = {}
        for index, size in enumerate(sizes):
            of_size.setdefault(size, []).append(index)
        # A slot as long as a random name: lengths are distributed as in `names`.
        drawn = [sizes[generator.randrange(len(names))] for _ in slots]
        filled = self._slots([s.replaced(at, ["x"]) for s, at in slots], slots, drawn)
        for (sentence, at), size, logs in zip(slots, drawn, filled, strict=True):
            pool = of_size[size]
            tried = generator.sample(pool, min(TRIED, len(pool)))
            ids = np.array([pieces[i].ids for i in tried])
            scores = logs[np.arange(size), ids].mean(axis=1)
            best = np.argsort(-scores)[:TOP].tolist()
            yield sentence.replaced(at, names[tried[generator.choice(best)]]), at

    def _slots(
        self, sentences: list[Sentence], slots: list[tuple[Sentence, int]], sizes: list[int]
    ) -> list[np.ndarray]:
        """(size, vocabulary) log-probabilities for each slot, masked as a whole."""
        rows = []
        for sentence, (_, at), size, p in zip(
            sentences, slots, sizes, self._pieces(sentences), strict=True
        ):
            start, end = sentence.spans[at]
            first, last = int(p.starts[start]), int(p.starts[end])
            ids = np.concatenate([p.ids[:first], np.zeros(size, dtype=np.int64), p.ids[last:]])
            lo = max(0, first - 100)
            kinds = np.zeros(len(ids), dtype=np.int8)
            kinds[first : first + size] = ELM
            rows.append(Row(ids[lo : lo + 240], kinds[lo : lo + 240]))
        return self._logs(rows)

    def _written(
        self, slots: list[tuple[Sentence, int]], generator: random.Random
    ) -> Iterator[tuple[Sentence, int]]:
        tokenizer = self.pipe.shim.wordpieces.tokenizer
        rows, picked = [], []
        documents = self._pieces([s for s, _ in slots])
        for (sentence, at), p in zip(slots, documents, strict=True):
            start, end = sentence.spans[at]
            span = range(int(p.starts[start]), int(p.starts[end]))
            chosen = sorted(generator.sample(span, max(1, len(span) // 2)))
            kinds = np.zeros(len(p.ids), dtype=np.int8)
            kinds[chosen] = ELM
            rows.append(Row(p.ids[:240], kinds[:240]))
            picked.append(chosen)
        for (sentence, at), p, chosen, logs in zip(
            slots, documents, picked, self._logs(rows), strict=True
        ):
            ids = p.ids.copy()
            for place, log in zip(chosen, logs, strict=False):
                ids[place] = generator.choice(np.argsort(-log)[1:5].tolist())
            start, end = sentence.spans[at]
            name: list[str] = []
            for token in range(start, end):
                for index in ids[p.starts[token] : p.starts[token + 1]].tolist():
                    piece = tokenizer.id_to_token(index)
                    if piece.startswith("##") and name:
                        name[-1] += piece[2:]
                    else:
                        name.append(piece.removeprefix("##"))
            yield sentence.replaced(at, name), at

    def _logs(self, rows: list[Row]) -> list[np.ndarray]:
        """Log-probabilities at the masked pieces of each row."""
        found: list[np.ndarray] = []
        network = self.pipe.shim.network
        with torch.inference_mode():
            for row in rows:
                (batch,) = batch_rows([row], self.pipe.batch_pieces, self.pipe.shim.wordpieces)
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    logits = network(batch).mlm
                assert logits is not None
                found.append(logits.float().log_softmax(-1).numpy())
        return found

    def _kept(self, new: list[tuple[Sentence, int]]) -> list[Row]:
        documents = self._pieces([sentence for sentence, _ in new])
        predictions = self.teacher.predict_pieces(documents)
        rows = []
        for (sentence, at), pieces, prediction in zip(new, documents, predictions, strict=True):
            if sentence.spans[at] in {(e.start, e.end) for e in prediction.entities}:
                rows += self._rows(sentence, pieces)
        return rows

    def _rows(self, sentence: Sentence, pieces: Pieces) -> list[Row]:
        tags = np.full(len(sentence.words), 2, dtype=np.int64)
        for start, end in sentence.spans:
            tags[start:end] = 1
            tags[start] = 0
        mentions = [Mention(s, e, self.pipe.labels[0]) for s, e in sentence.spans]
        gold = Gold(tags, mentions, [])
        return [
            soft(gold_row(pieces, window, gold, self.pipe.labels))
            for window in self.pipe.windows.cover(pieces)
        ]

    def _pieces(self, sentences: list[Sentence]) -> list[Pieces]:
        docs = [Doc(self.vocab, words=sentence.words) for sentence in sentences]
        for doc in docs:
            for token in doc[1:]:
                token.is_sent_start = False
        return self.pipe.shim.wordpieces(docs)
