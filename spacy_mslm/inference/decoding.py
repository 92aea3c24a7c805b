"""Tag probabilities -> entity spans: the best valid BIO sequence, and the spans in it."""

import numpy as np

from ..types import BIO, MISSING, B, I, O

# The number of pseudo-counts, distributed like the tags, that are added to the counted transitions.
# They reduce the influence of transitions that were counted on little data.
SMOOTHING = 10.0


def count_transitions(tags: np.ndarray) -> np.ndarray:
    """Count how often each tag follows each other tag.

    Args:
        tags: (tokens,) or (tokens, types) Gold tags. Pairs with a MISSING tag are not counted.

    Returns:
        (3, 3) or (types, 3, 3) The counts, by the first and the second tag.
    """
    counts = np.zeros((*tags.shape[1:], len(BIO), len(BIO)), dtype=np.int64)
    if tags.ndim > 1:
        for column, of_type in zip(tags.T, counts, strict=True):
            of_type[:] = count_transitions(column)
        return counts
    known = (tags[:-1] != MISSING) & (tags[1:] != MISSING)
    np.add.at(counts, (tags[:-1][known], tags[1:][known]), 1)
    return counts


def transition_scores(counts: np.ndarray, weight: float) -> np.ndarray:
    """Return (3, 3) transition scores: `weight * log(P(tag | previous tag) / P(tag))`.

    I after O has a score of minus infinity. The detection head tags each token independently and
    may tag two tokens of one mention as B if both often begin a mention. The transitions of the
    training set correct this. They are relative to the frequency of a tag because the head has
    already learnt that.

    Args:
        counts: (3, 3) Counts from `count_transitions`.
        weight: The weight of the transitions.
    """
    scores = np.zeros((len(BIO), len(BIO)))
    if counts.any():
        frequency = (counts.sum(axis=0) + 1) / (counts.sum() + len(BIO))
        follows = (counts + SMOOTHING * frequency) / (counts.sum(axis=1, keepdims=True) + SMOOTHING)
        scores = weight * np.log(follows / frequency)
    scores[O, I] = -np.inf
    return scores


def surely_outside(log: np.ndarray, transitions: np.ndarray) -> np.ndarray:
    """Return whether a token is O in the best sequence, whatever the other tags are.

    Take any sequence with another tag at this token. Change it to O and, since I cannot follow O,
    change an I after it to B. This gains the difference between O and the better of B and I. It
    loses at most the difference between I and B at the next token and three times the largest
    difference between transitions. If the gain is larger than the loss, the sequence was not the
    best one.

    Args:
        log: (tokens, 3) Log-probabilities of B, I, O; (tokens, columns, 3) for several sequences.
        transitions: (3, 3) Transition scores; (columns, 3, 3) for several sequences.

    Returns:
        (tokens,) or (tokens, columns) Whether the token is surely O.
    """
    won = log[..., O] - np.maximum(log[..., B], log[..., I])
    after = np.zeros_like(won)
    after[:-1] = np.maximum(log[1:, ..., I] - log[1:, ..., B], 0.0)
    least = np.where(np.isfinite(transitions), transitions, np.inf).min((-2, -1))
    return won > after + 3 * (transitions.max((-2, -1)) - least)


def last_surely_outside(probabilities: np.ndarray, transitions: np.ndarray) -> int:
    """Return the last token of a part that is O whatever follows the part, 0 if there is none.

    Args:
        probabilities: (tokens, columns, 3) Probabilities of B, I, O.
        transitions: (columns, 3, 3) Transition scores. The token is O in all columns.
    """
    sure = surely_outside(_log(probabilities), transitions)[:-1].all(axis=1)
    return int(np.flatnonzero(sure)[-1]) if sure.any() else 0


def columns_with_mentions(probabilities: np.ndarray, transitions: np.ndarray) -> list[int]:
    """Return the columns that may have a mention: those with a token that is not surely O.

    Args:
        probabilities: (tokens, columns, 3) Probabilities of B, I, O.
        transitions: (columns, 3, 3) Transition scores.
    """
    sure = surely_outside(_log(probabilities), transitions).all(axis=0)
    return np.flatnonzero(~sure).tolist()


def decode_bio(probabilities: np.ndarray, transitions: np.ndarray) -> np.ndarray:
    """Find the tags with the highest sum of log-probabilities and transition scores (Viterbi).

    Most tokens of a text are surely outside. They divide the sequence: the tokens between two of
    them are decoded separately, with the two as the ends.

    Args:
        probabilities: (tokens, 3) Probabilities of B, I, O.
        transitions: (3, 3) Transition scores from `transition_scores`. A sequence cannot start with
            I.

    Returns:
        (tokens,) The tags.
    """
    log = _log(probabilities)
    tags = np.full(len(log), O)
    open_ = np.flatnonzero(~surely_outside(log, transitions))
    if len(open_):
        gaps = np.flatnonzero(np.diff(open_) > 1)
        starts = np.maximum(open_[np.append(0, gaps + 1)] - 1, 0).tolist()
        ends = np.minimum(open_[np.append(gaps, len(open_) - 1)] + 2, len(log)).tolist()
        for start, end in zip(starts, ends, strict=True):
            tags[start:end] = _viterbi(log[start:end].tolist(), transitions)
    return tags


def _log(probabilities: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(probabilities, 1e-30))


def _viterbi(log: list[list[float]], transitions: np.ndarray) -> list[int]:
    bb, bi, bo, ib, ii, io, ob, _, oo = transitions.ravel().tolist()
    b, i, o = log[0][B], -np.inf, log[0][O]
    came: list[tuple[int, int, int]] = []  # the best tag before a B, an I, an O
    # Python floats, because numpy would take ten times longer for three tags.
    for log_b, log_i, log_o in log[1:]:
        to_b, before_b = _best(b + bb, i + ib, o + ob)
        to_i, before_i = (b + bi, B) if b + bi > i + ii else (i + ii, I)  # I cannot follow O
        to_o, before_o = _best(b + bo, i + io, o + oo)
        came.append((before_b, before_i, before_o))
        b, i, o = to_b + log_b, to_i + log_i, to_o + log_o
    tag = B if b >= i and b >= o else I if i >= o else O
    path = [tag]
    for before in reversed(came):
        tag = before[tag]
        path.append(tag)
    return path[::-1]


def _best(b: float, i: float, o: float) -> tuple[float, int]:
    """Return the highest of three scores and its tag, the last one of equal scores."""
    if b > i:
        return (b, B) if b > o else (o, O)
    return (i, I) if i > o else (o, O)


def bio_spans(tags: np.ndarray) -> np.ndarray:
    """Return (spans, 2) ranges `start:end` of (tokens,) valid tags."""
    starts = np.flatnonzero(tags == B)
    # A span ends before the next token that is not tagged I.
    stops = np.append(np.flatnonzero(tags != I), len(tags))
    ends = stops[np.searchsorted(stops, starts, side="right")]
    return np.stack([starts, ends], axis=1)
