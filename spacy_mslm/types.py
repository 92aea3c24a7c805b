"""Data classes that flow between the steps. They hold numpy arrays, and no spaCy or torch objects.

Pieces          one document as wordpieces, aligned with its tokens
Mention         a labelled span of tokens or characters
Gold            the annotation of one document: a BIO tag for each token, and the mentions
Window          a range of pieces that goes through the encoder at once
MaskableWindow  one window as a masking strategy sees it
Row             one window in one view: which pieces are masked, and what the heads read
Block           rows of similar length, padded to the same length
PaddedBatch     blocks, with the positions that each head reads
Prediction      the entities of one document with their confidences
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

# The kind of a piece: not masked, masked outside a mention (BLM), masked in a mention (ELM). The
# mask-specific loss weighs masked pieces by their kind.
UNMASKED, BLM, ELM = 0, 1, 2
# The tags of the detection head, and the value for a token without annotation.
B, I, O = 0, 1, 2  # noqa: E741
BIO = ("B", "I", "O")
MISSING = -1


def no_ints(*shape: int) -> np.ndarray:
    """Return an array of integer zeros, empty by default."""
    return np.zeros(shape or (0,), dtype=np.int64)


@dataclass
class Pieces:
    """Wordpieces of one document and their exact alignment with its tokens.

    The pieces of a token are contiguous and in order, so two arrays hold both directions of the
    alignment: piece `p` belongs to token `token_of[p]`, and token `t` has the pieces
    `starts[t]:starts[t + 1]`. This range is empty for tokens without pieces (white space, lone
    control characters).
    """

    ids: np.ndarray  # (pieces,) vocabulary ids
    token_of: np.ndarray  # (pieces,) token index, non-decreasing
    words: list[str]  # the text of each token
    sentences: np.ndarray  # (sentences,) index of the first token of each sentence

    starts: np.ndarray = field(init=False)  # (tokens + 1,) index of the first piece of each token

    def __post_init__(self) -> None:
        self.starts = np.searchsorted(self.token_of, np.arange(len(self.words) + 1))

    @property
    def tagged(self) -> np.ndarray:
        """(tokens with pieces,) The indices of tokens with pieces, which the heads can tag."""
        return np.flatnonzero(np.diff(self.starts))


def one_hot(tags: np.ndarray) -> np.ndarray:
    """Convert (...) tags to (..., 3) probabilities of B, I, O: zeros for MISSING ones."""
    rows = np.concatenate([np.eye(len(BIO)), np.zeros((1, len(BIO)))]).astype(np.float32)
    return rows[np.where(tags == MISSING, len(BIO), tags)]


class Mention(NamedTuple):
    """A labelled span of tokens `start:end`, or of characters if the text is not tokenized yet."""

    start: int
    end: int
    label: str


class Unaligned(NamedTuple):
    """A gold entity that does not fit the document's tokens: character offsets and the reason."""

    start: int
    end: int
    reason: str


@dataclass
class Gold:
    """Annotation of one document, aligned with the tokens of the predicted document."""

    # (tokens,) B, I, O or MISSING; (tokens, types) if the types are tagged separately
    tags: np.ndarray
    mentions: list[Mention]
    unaligned: list[Unaligned]
    annotated: frozenset[str] | None = None  # the annotated types, None if all are
    # (tokens, 3) or (tokens, types, 3) the probabilities of B, I, O to learn instead of the tags;
    # zeros if they are MISSING
    soft: np.ndarray | None = None


class Window(NamedTuple):
    """Pieces `start:end` of a document. The pieces `own_start:own_end` are predicted from here."""

    start: int
    end: int
    own_start: int
    own_end: int


@dataclass
class MaskableWindow:
    """One window as a masking strategy sees it."""

    token_of: np.ndarray  # (pieces,) token index of each piece, non-decreasing
    mentions: np.ndarray  # (mentions, 2) token ranges, which may extend beyond the window
    words: list[str]  # the text of each token of the document, indexed by token_of

    @property
    def tokens(self) -> np.ndarray:
        """(words,) The indices of the tokens in the window."""
        return np.unique(self.token_of)


@dataclass
class Row:
    """A window that is ready for the encoder. It carries the kind of each piece up to the loss."""

    ids: np.ndarray  # (pieces,) vocabulary ids before masking
    kinds: np.ndarray  # (pieces,) UNMASKED, BLM or ELM
    # (n,) positions that the detection head reads, and (n,) or (n, types) the gold tags there, or
    # (n, 3) or (n, types, 3) the probabilities of B, I, O, which are zeros for MISSING tags
    tag_at: np.ndarray = field(default_factory=no_ints)
    tags: np.ndarray = field(default_factory=no_ints)
    # positions and type of each mention to classify
    mentions: list[tuple[np.ndarray, int]] = field(default_factory=list)
    # (n,) positions whose vectors other components read, and (n,) their tokens, numbered over all
    # documents of the update
    shared_at: np.ndarray = field(default_factory=no_ints)
    shared_of: np.ndarray = field(default_factory=no_ints)

    def __len__(self) -> int:
        return len(self.ids)


class Block(NamedTuple):
    """Rows that are padded to the length of the longest."""

    ids: np.ndarray  # (rows, width) vocabulary ids, with masked pieces replaced
    lengths: np.ndarray  # (rows,) number of pieces, special pieces included


@dataclass
class PaddedBatch:
    """The input of one pass through the network.

    The encoder reads one block at a time, each head reads all blocks at once. Positions are indices
    into the padded pieces of all blocks, row by row.
    """

    blocks: list[Block]
    mask_at: np.ndarray  # (masked,) positions that the masked-LM head reads
    mask_ids: np.ndarray  # (masked,) ids before masking
    mask_kinds: np.ndarray  # (masked,) BLM or ELM
    tag_at: np.ndarray  # (tagged,) positions that the detection head reads
    # (tagged,) or (tagged, types) gold tags, or (tagged, 3) or (tagged, types, 3) probabilities of
    # B, I, O
    tags: np.ndarray
    span_at: np.ndarray  # (span pieces,) positions that the classification head pools
    span_of: np.ndarray  # (span pieces,) index of the mention of each
    types: np.ndarray  # (mentions,) gold types
    # (shared,) positions whose vectors other components read, and the token of each
    shared_at: np.ndarray = field(default_factory=no_ints)
    shared_of: np.ndarray = field(default_factory=no_ints)


class Evidence(NamedTuple):
    """What the network says about a predicted mention. All but `tokens` are probabilities.

    Attributes:
        tags: The product of the probabilities of the mention's tags.
        before: That the mention does not begin earlier: 1 after another mention, else the
            probability of O at the token before it.
        after: That the mention does not go on: 1 minus the probability of I at the token after it.
        type: The probability of its type.
        tokens: The number of its tokens.
    """

    tags: float
    before: float
    after: float
    type: float
    tokens: float


class Entity(NamedTuple):
    """A predicted mention: tokens `start:end`, the index of its type, and the probability that the
    mention is right, with what it is computed from."""

    start: int
    end: int
    type: int
    confidence: float
    evidence: Evidence


@dataclass
class Prediction:
    """The predictions of the model for one document."""

    entities: list[Entity]
    bio: np.ndarray  # (tokens, 3) or (tokens, types, 3) probabilities of B, I, O
    # (tokens, hidden) the vectors of tokens, if other components read them
    vectors: np.ndarray | None = None
