"""Docs -> wordpieces, with an alignment that is exact for every input.

Each spaCy token is split into pieces on its own, so a piece never belongs to two tokens and two
arrays hold the alignment (see `Pieces`). The pieces of a word do not depend on its neighbours, so
they are cached, and the work per token is done in numpy. The fast Rust tokenizer is used directly.
It is thread-safe as long as truncation and padding are not set.
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
# The maximum number of cached words, once with a space before them and once without: about 30 MB.
WORDS_KNOWN = 100_000
# How the ids of a word's pieces are cached: as bytes, which take a quarter of the memory of a list.
_CACHED = np.dtype(np.int32)


@dataclass
class Wordpieces:
    """A fast tokenizer with the facts that are needed to prepare input for its encoder.

    Attributes:
        tokenizer: Splits words. It never adds special pieces, and treats a literal `[MASK]` in a
            document as plain text.
        prefix: The special pieces before a sequence ([CLS] for BERT).
        suffix: The special pieces after a sequence ([SEP] for BERT).
        mask: The id of the mask piece.
        pad: The id of the padding piece.
        max_length: The maximum number of pieces that the encoder takes, special pieces included.
        first_space: Whether the tokenizer treats the first word of a text as if a space preceded
            it.
    """

    tokenizer: Tokenizer
    prefix: list[int]
    suffix: list[int]
    mask: int
    pad: int
    max_length: int
    first_space: bool

    _known: tuple[dict[int, bytes], dict[int, bytes]] = field(
        init=False, repr=False, compare=False, default_factory=lambda: ({}, {})
    )

    @classmethod
    def from_tokenizer(
        cls, tokenizer: Tokenizer, mask: int, pad: int, max_length: int
    ) -> "Wordpieces":
        """Prepare the tokenizer of a checkpoint. The special pieces are read from its template."""
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
        """The number of special pieces around a window."""
        return len(self.prefix) + len(self.suffix)

    @property
    def room(self) -> int:
        """The maximum number of text pieces in a window."""
        return self.max_length - self.extra

    def __call__(self, docs: SequenceOf[Doc]) -> list[Pieces]:
        """Split documents into wordpieces.

        White-space tokens have no pieces. A token that the vocabulary cannot spell, or that exceeds
        WordPiece's limit of 100 characters, becomes one unknown piece. Other vocabularies split it
        without a limit.

        Args:
            docs: The documents.

        Returns:
            The pieces of each document, in order.
        """
        if not docs:
            return []
        tokens = [doc.to_array(TOKEN_ATTRIBUTES).reshape(-1, len(TOKEN_ATTRIBUTES)) for doc in docs]
        offsets = np.cumsum([0, *map(len, tokens)])
        orths, followed, is_space = np.concatenate(tokens).T
        # Byte-level and SentencePiece vocabularies distinguish words with and without a space
        # before them. For WordPiece this makes no difference.
        spaced = np.concatenate([[0], followed[:-1] | is_space[:-1]]).astype(bool)
        spaced[offsets[:-1][offsets[:-1] < len(spaced)]] = self.first_space
        pool: list[bytes] = []  # the pieces of all distinct words
        n_pool = 0
        counts, sources = no_ints(len(orths)), no_ints(len(orths))
        for space in (False, True):
            at = np.flatnonzero((spaced == space) & (is_space == 0))
            words, firsts, which = np.unique(orths[at], return_index=True, return_inverse=True)
            split = self._split(words.tolist(), at[firsts], space, docs, offsets)
            sizes = np.array([len(ids) for ids in split], dtype=np.int64) // _CACHED.itemsize
            counts[at] = sizes[which]
            sources[at] = (n_pool + np.cumsum(sizes) - sizes)[which]
            n_pool += int(sizes.sum())
            pool += split
        starts = np.concatenate([[0], np.cumsum(counts)])
        places = np.repeat(sources - starts[:-1], counts) + np.arange(starts[-1])
        ids = np.frombuffer(b"".join(pool), dtype=_CACHED).astype(np.int64)[places]
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
    ) -> list[bytes]:
        """Return the pieces of distinct words, as the bytes of 32-bit integers.

        Args:
            words: (words,) The hashes of the words.
            at: (words,) The index of one occurrence of each, in the tokens of all documents.
            space: Whether a space precedes the words.
            docs: The documents.
            offsets: (documents + 1,) The index of the first token of each document.
        """
        known = self._known[space]
        # Other threads may clear `known` at any time.
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
            bounds = np.searchsorted(encoding.word_ids, np.arange(len(new) + 1)) * _CACHED.itemsize
            ids = np.array(encoding.ids, dtype=_CACHED).tobytes()
            for i, (start, end) in zip(new, itertools.pairwise(bounds.tolist()), strict=True):
                found[words[i]] = ids[start:end]
            if len(known) + len(new) > WORDS_KNOWN:
                known.clear()
            known.update((words[i], found[words[i]]) for i in new[:WORDS_KNOWN])
        return [found[word] for word in words]

    def for_running_text(self) -> Tokenizer:
        """Return a tokenizer for text that is not divided into words, with special pieces.

        Words that a single space separates have the pieces that they have here.
        """
        spec = json.loads(self.tokenizer.to_str())
        if _marks_spaces(spec.get("pre_tokenizer")):
            _handle_spaces(spec["pre_tokenizer"], self.first_space)
        return Tokenizer.from_str(json.dumps(spec))

    def __reduce__(self) -> tuple:
        # A pickled Rust tokenizer loses the setting that special pieces are plain text.
        return Wordpieces.from_json, (self.to_json(),)

    def to_json(self) -> str:
        """Return the tokenizer and the other facts as JSON, for `from_json`."""
        facts = {k: v for k, v in vars(self).items() if k not in ("tokenizer", "_known")}
        return json.dumps({**facts, "tokenizer": self.tokenizer.to_str()})

    @classmethod
    def from_json(cls, text: str | bytes) -> "Wordpieces":
        """Load what `to_json` returned. Raises a ValueError if it cannot be read."""
        try:
            facts = json.loads(text)
            return cls(_plain(Tokenizer.from_str(facts.pop("tokenizer"))), **facts)
        except Exception as err:  # tokenizers raises nothing more specific
            raise ValueError(
                f"Could not read the stored wordpieces ({type(err).__name__}). Save the pipeline "
                "again, or retrain it."
            ) from err


def _plain(tokenizer: Tokenizer) -> Tokenizer:
    tokenizer.encode_special_tokens = True
    return tokenizer


def _leave_spaces_to_us(spec: dict | None) -> bool:
    """Switch off a pre-tokenizer's handling of spaces (in place): `Wordpieces` knows the spaces.

    Returns:
        Whether the pre-tokenizer treats the first word of a text as if a space preceded it.
    """
    if not spec:
        return False
    if spec["type"] == "Sequence":
        first = any([_leave_spaces_to_us(part) for part in spec["pretokenizers"]])
        if _marks_spaces(spec):  # XLM-RoBERTa splits at white space before it marks spaces
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


def _handle_spaces(spec: dict, first_space: bool) -> None:
    """Switch on a pre-tokenizer's handling of spaces (in place), see `_leave_spaces_to_us`."""
    for part in spec.get("pretokenizers", [spec]):
        if part["type"] == "Sequence":
            _handle_spaces(part, first_space)
        elif part["type"] == "ByteLevel":
            part["add_prefix_space"] = first_space
        elif part["type"] == "Metaspace":
            part["prepend_scheme"] = "first" if first_space else "never"


def _marks_spaces(spec: dict | None) -> bool:
    """Return whether a pre-tokenizer makes the space before a word a part of the word."""
    if not spec:
        return False
    if spec["type"] == "Sequence":
        return any(_marks_spaces(part) for part in spec["pretokenizers"])
    return spec["type"] in ("ByteLevel", "Metaspace")


def _keep_first_space(spec: dict | None) -> None:
    """Keep a normalizer that strips text (DeBERTa) from removing a word's space (in place)."""
    for part in (spec or {}).get("normalizers", [spec] if spec else []):
        if part["type"] == "Sequence":
            _keep_first_space(part)
        elif part["type"] == "Strip":
            part["strip_left"] = False
