"""What flows between the steps: plain carriers of numpy arrays, no spaCy and no torch in them.

Pieces          one document as wordpieces, aligned with its tokens
Gold            one document's annotation: a BIO tag for each token and the mentions
Window          a stretch of pieces that goes through the encoder at once
Row             one window as one view of it is trained on: which pieces are masked, and how
Block           rows of similar length side by side
PaddedBatch     blocks, with the positions that each head reads
Prediction      one document's entities with their confidences
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

# Kinds of a piece under masking; the mask-specific loss needs to know which is which.
UNMASKED, BLM, ELM = 0, 1, 2
# Detection labels, and the mark of a token that carries no annotation.
B, I, O = 0, 1, 2  # noqa: E741
BIO = ("B", "I", "O")
MISSING = -1


def no_ints(*shape: int) -> np.ndarray:
    return np.zeros(shape or (0,), dtype=np.int64)


@dataclass
class Pieces:
    """Wordpieces of one document and their exact alignment with its tokens.

    The pieces of a token are contiguous and in order, so both directions are two arrays: piece
    `p` belongs to token `token_of[p]`, token `t` has the pieces `starts[t]:starts[t + 1]`, which
    is an empty range for tokens that have none (white space, lone control characters).
    """

    ids: np.ndarray  # (pieces,) vocabulary ids
    token_of: np.ndarray  # (pieces,) token index, non-decreasing
    words: list[str]  # the tokens' texts
    sentences: np.ndarray  # (sentences,) the first token of each, 0 first

    starts: np.ndarray = field(init=False)  # (tokens + 1,)

    def __post_init__(self) -> None:
        self.starts = np.searchsorted(self.token_of, np.arange(len(self.words) + 1))

    @property
    def tagged(self) -> np.ndarray:
        """(tokens with pieces,) the indices of the tokens that the heads can see."""
        return np.flatnonzero(np.diff(self.starts))


class Mention(NamedTuple):
    """A labelled span of tokens `start:end`, or of characters where a text is not tokenised yet."""

    start: int
    end: int
    label: str


class Unaligned(NamedTuple):
    """A gold entity that the document's tokens cannot express: character offsets and why."""

    start: int
    end: int
    reason: str


@dataclass
class Gold:
    """Annotation of one document, in the predicted document's tokens."""

    tags: np.ndarray  # (tokens,) of B, I, O, MISSING
    mentions: list[Mention]
    unaligned: list[Unaligned]


class Window(NamedTuple):
    """Pieces `start:end` of a document, of which `own_start:own_end` are predicted from here."""

    start: int
    end: int
    own_start: int
    own_end: int


@dataclass
class MaskableWindow:
    """One window as a masking strategy sees it."""

    token_of: np.ndarray  # (pieces,) token index of each piece, non-decreasing
    mentions: np.ndarray  # (mentions, 2) token ranges; a range may reach out of the window
    words: list[str]  # the whole document's token texts, indexed by token_of

    @property
    def tokens(self) -> np.ndarray:
        """(words,) the indices of the words in the window."""
        return np.unique(self.token_of)


@dataclass
class Row:
    """A window ready for the encoder. `kinds` travels with it up to the loss."""

    ids: np.ndarray  # (pieces,) ids before masking
    kinds: np.ndarray  # (pieces,) UNMASKED, BLM or ELM
    tag_at: np.ndarray  # (n,) pieces read by the detection head; empty: not tagged
    tags: np.ndarray  # (n,) their gold tags
    mentions: list[tuple[np.ndarray, int]]  # pieces and type of each mention to classify

    def __len__(self) -> int:
        return len(self.ids)


class Block(NamedTuple):
    """Rows side by side, padded to the longest."""

    ids: np.ndarray  # (rows, width) masked pieces already replaced
    lengths: np.ndarray  # (rows,) with the special pieces


@dataclass
class PaddedBatch:
    """What goes through the network at once: the encoder reads block by block, the heads read all.
    A position is one in the padded pieces of all blocks, row by row."""

    blocks: list[Block]
    mask_at: np.ndarray  # (masked,) positions that the masked-LM head reads
    mask_ids: np.ndarray  # (masked,) what stood there
    mask_kinds: np.ndarray  # (masked,) BLM or ELM
    tag_at: np.ndarray  # (tagged,) positions that the detection head reads
    tags: np.ndarray  # (tagged,)
    span_at: np.ndarray  # (span pieces,) positions pooled by the classification head
    span_of: np.ndarray  # (span pieces,) which mention each belongs to
    types: np.ndarray  # (mentions,)


class Entity(NamedTuple):
    """A predicted mention: tokens `start:end`, index of its type, probability."""

    start: int
    end: int
    type: int
    confidence: float


@dataclass
class Prediction:
    """What the model says of one document."""

    entities: list[Entity]
    bio: np.ndarray  # (tokens, 3) probabilities of B, I, O
