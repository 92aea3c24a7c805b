"""Docs -> wordpieces, with an alignment that is exact for every input.

Each spaCy token is split into pieces by itself, so a piece never belongs to two tokens and both
directions of the alignment are arrays (see `Pieces`). For the same reason a word is split once and
its pieces are remembered: what is done for each token is done by numpy. The fast Rust tokenizer is
used directly: it is thread-safe as long as nobody sets truncation or padding on it, which we never
do.
"""

import itertools
import json
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass, field

import numpy as np
from spacy.attrs import IS_SPACE, ORTH, SPACY
from spacy.tokens import Doc
from tokenizers import Tokenizer

from ..text.sentences import sentence_starts
from ..types import Pieces, no_ints

TOKEN_ATTRIBUTES = [ORTH, SPACY, IS_SPACE]
# Words whose pieces are remembered, for each way of standing after a space: some 30 MB.
WORDS_KNOWN = 100_000


@dataclass
class Wordpieces:
    """A fast tokenizer with what else is needed to feed its encoder.

    tokenizer: splits words; it never adds special pieces and takes a literal `[MASK]` in a note
        as the plain text that it is.
    prefix, suffix: the special pieces around a sequence ([CLS] and [SEP] for BERT).
    mask, pad: ids of those pieces.
    max_length: how many pieces the encoder takes, special ones included.
    first_space: the tokenizer marks the first word of a text as if a space stood before it.
    """

    tokenizer: Tokenizer
    prefix: list[int]
    suffix: list[int]
    mask: int
    pad: int
    max_length: int
    first_space: bool

    _known: tuple[dict[int, list[int]], dict[int, list[int]]] = field(
        init=False, repr=False, compare=False, default_factory=lambda: ({}, {})
    )

    @classmethod
    def from_tokenizer(
        cls, tokenizer: Tokenizer, mask: int, pad: int, max_length: int
    ) -> "Wordpieces":
        """Prepare a checkpoint's tokenizer: the special pieces are read off its own template."""
        example = tokenizer.encode("a")
        special = example.special_tokens_mask
        inner = special.index(0) if 0 in special else len(special)
        last = len(special) - special[::-1].index(0) if 0 in special else len(special)
        spec = json.loads(tokenizer.to_str())
        first_space = _leave_spaces_to_us(spec.get("pre_tokenizer"))
        if _marks_spaces(spec.get("pre_tokenizer")):
            _keep_first_space(spec.get("normalizer"))
        spec["truncation"] = spec["padding"] = None
        return cls(
            _plain(Tokenizer.from_str(json.dumps(spec))),
            prefix=example.ids[:inner],
            suffix=example.ids[last:],
            mask=mask,
            pad=pad,
            max_length=max_length,
            first_space=first_space,
        )

    @property
    def extra(self) -> int:
        """How many special pieces stand around those of a window."""
        return len(self.prefix) + len(self.suffix)

    @property
    def room(self) -> int:
        """How many pieces of text fit into one window."""
        return self.max_length - self.extra

    def __call__(self, docs: SequenceOf[Doc]) -> list[Pieces]:
        """Split documents. White-space tokens get no pieces, whatever the tokenizer.

        A token that the vocabulary cannot spell, or that is longer than WordPiece's own limit of
        100 characters, is one unknown piece; other vocabularies split it without a limit.
        """
        if not docs:
            return []
        tokens = [doc.to_array(TOKEN_ATTRIBUTES).reshape(-1, len(TOKEN_ATTRIBUTES)) for doc in docs]
        offsets = np.cumsum([0, *map(len, tokens)])
        orths, followed, is_space = np.concatenate(tokens).T
        # As the tokenizer meets them in running text: byte-level and sentence-piece vocabularies
        # know words by the space before them; for WordPiece it makes no difference.
        spaced = np.concatenate([[0], followed[:-1] | is_space[:-1]]).astype(bool)
        spaced[offsets[:-1][offsets[:-1] < len(spaced)]] = self.first_space
        pool: list[int] = []  # pieces of all words that occur
        counts, sources = no_ints(len(orths)), no_ints(len(orths))
        for space in (False, True):
            at = np.flatnonzero((spaced == space) & (is_space == 0))
            words, firsts, which = np.unique(orths[at], return_index=True, return_inverse=True)
            split = self._split(words.tolist(), at[firsts], space, docs, offsets)
            sizes = np.array([len(ids) for ids in split], dtype=np.int64)
            counts[at] = sizes[which]
            sources[at] = (len(pool) + np.cumsum(sizes) - sizes)[which]
            pool.extend(itertools.chain.from_iterable(split))
        starts = np.concatenate([[0], np.cumsum(counts)])
        places = np.repeat(sources - starts[:-1], counts) + np.arange(starts[-1])
        ids = np.array(pool, dtype=np.int64)[places]
        token_of = np.repeat(np.arange(len(orths)), counts)
        return [
            Pieces(
                ids[starts[first] : starts[end]],
                token_of[starts[first] : starts[end]] - first,
                [doc.vocab.strings[orth] for orth in orths[first:end].tolist()],
                sentence_starts(doc),
            )
            for doc, (first, end) in zip(docs, itertools.pairwise(offsets.tolist()), strict=True)
        ]

    def _split(
        self,
        words: list[int],
        at: np.ndarray,
        space: bool,
        docs: SequenceOf[Doc],
        offsets: np.ndarray,
    ) -> list[list[int]]:
        """Pieces of distinct words, with or without a space before them: each is split once, for as
        long as it is remembered.

        words: spaCy's ids of them.
        at: where each occurs, as a token of all documents.
        offsets: the first token of each document.
        """
        known = self._known[space]
        # Another thread may clear `known` at any time.
        found = {word: ids for word in words if (ids := known.get(word)) is not None}
        new = [i for i, word in enumerate(words) if word not in found]
        if new:
            of = np.searchsorted(offsets, at[new], side="right") - 1
            texts = [docs[d][i].text for d, i in zip(of, at[new] - offsets[of], strict=True)]
            encoding = self.tokenizer.encode(
                [f" {text}" if space else text for text in texts],
                is_pretokenized=True,
                add_special_tokens=False,
            )
            bounds = np.searchsorted(encoding.word_ids, np.arange(len(new) + 1)).tolist()
            for i, (start, end) in zip(new, itertools.pairwise(bounds), strict=True):
                found[words[i]] = encoding.ids[start:end]
            if len(known) + len(new) > WORDS_KNOWN:
                known.clear()
            known.update((words[i], found[words[i]]) for i in new[:WORDS_KNOWN])
        return [found[word] for word in words]

    def __reduce__(self) -> tuple:
        # The Rust object forgets on pickling that special pieces are plain text.
        return Wordpieces.from_json, (self.to_json(),)

    def to_json(self) -> str:
        facts = {k: v for k, v in vars(self).items() if k not in ("tokenizer", "_known")}
        return json.dumps({**facts, "tokenizer": self.tokenizer.to_str()})

    @classmethod
    def from_json(cls, text: str | bytes) -> "Wordpieces":
        try:
            facts = json.loads(text)
            return cls(_plain(Tokenizer.from_str(facts.pop("tokenizer"))), **facts)
        except (ValueError, TypeError, KeyError) as err:
            raise ValueError(
                f"The stored wordpieces cannot be read ({err}). Save the pipeline again, or "
                "retrain it."
            ) from err


def _plain(tokenizer: Tokenizer) -> Tokenizer:
    tokenizer.encode_special_tokens = True
    return tokenizer


def _leave_spaces_to_us(spec: dict | None) -> bool:
    """Switch off a pre-tokenizer's own guess at the space before a word (in place), since
    `Wordpieces` knows it. Returns whether a text's first word is marked as well."""
    if not spec:
        return False
    if spec["type"] == "Sequence":
        first = any([_leave_spaces_to_us(part) for part in spec["pretokenizers"]])
        if _marks_spaces(spec):  # XLM-RoBERTa: words are cut out first, marked then
            spec["pretokenizers"] = [
                part for part in spec["pretokenizers"] if part["type"] != "WhitespaceSplit"
            ]
        return first
    if spec["type"] == "ByteLevel":
        first, spec["add_prefix_space"] = spec["add_prefix_space"], False
        return bool(first)
    if spec["type"] == "Metaspace":
        first = spec.get("prepend_scheme", "always") != "never"
        spec["prepend_scheme"] = "never"
        spec.pop("add_prefix_space", None)
        return first
    return False


def _marks_spaces(spec: dict | None) -> bool:
    """Whether a pre-tokenizer makes the space before a word a part of it."""
    if not spec:
        return False
    if spec["type"] == "Sequence":
        return any(_marks_spaces(part) for part in spec["pretokenizers"])
    return spec["type"] in ("ByteLevel", "Metaspace")


def _keep_first_space(spec: dict | None) -> None:
    """Let a normalizer that strips a text (DeBERTa) not take the mark off each word (in place)."""
    for part in (spec or {}).get("normalizers", [spec] if spec else []):
        if part["type"] == "Sequence":
            _keep_first_space(part)
        elif part["type"] == "Strip":
            part["strip_left"] = False
