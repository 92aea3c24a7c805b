"""Docs -> wordpieces, with an alignment that is exact for every input.

Each spaCy token is split into pieces by itself, so a piece never belongs to two tokens and both
directions of the alignment are arrays (see `Pieces`). The fast Rust tokenizer is used directly:
it is thread-safe as long as nobody sets truncation or padding on it, which we never do.
"""

import json
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass

import numpy as np
from spacy.tokens import Doc
from tokenizers import Tokenizer

from .batches import Pieces
from .errors import Errors
from .sentences import sentence_starts


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
        texts = [[token.text for token in doc] for doc in docs]
        marked = [self._mark_spaces(doc) for doc in docs]
        encodings = self.tokenizer.encode_batch(
            marked, is_pretokenized=True, add_special_tokens=False
        )
        return [
            Pieces(
                np.asarray(encoding.ids, dtype=np.int64),
                np.asarray(encoding.word_ids, dtype=np.int64),
                words,
                sentence_starts(doc),
            )
            for doc, encoding, words in zip(docs, encodings, texts, strict=True)
        ]

    def _mark_spaces(self, doc: Doc) -> list[str]:
        """Token texts as the tokenizer meets them in running text: byte-level and sentence-piece
        vocabularies know words by the space before them; for WordPiece it makes no difference."""
        marked = []
        space = self.first_space
        for token in doc:
            if token.is_space:
                marked.append("")
                space = True
            else:
                marked.append(f" {token.text}" if space else token.text)
                space = bool(token.whitespace_)
        return marked

    def __reduce__(self) -> tuple:
        # The Rust object forgets on pickling that special pieces are plain text.
        return Wordpieces.from_json, (self.to_json(),)

    def to_json(self) -> str:
        facts = {k: v for k, v in vars(self).items() if k != "tokenizer"}
        return json.dumps({**facts, "tokenizer": json.loads(self.tokenizer.to_str())})

    @classmethod
    def from_json(cls, text: str) -> "Wordpieces":
        try:
            facts = json.loads(text)
            tokenizer = _plain(Tokenizer.from_str(json.dumps(facts.pop("tokenizer"))))
            return cls(tokenizer, **facts)
        except (ValueError, TypeError, KeyError) as err:
            raise ValueError(Errors.M002.format(error=err)) from err


def _plain(tokenizer: Tokenizer) -> Tokenizer:
    tokenizer.encode_special_tokens = True
    return tokenizer


def _leave_spaces_to_us(spec: dict | None) -> bool:
    """Switch off a pre-tokenizer's own guess at the space before a word (in place), since
    `_mark_spaces` knows it. Returns whether a text's first word is marked as well."""
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
