"""Head outputs -> entity spans: the best legal BIO sequence, and the spans in it."""

import numpy as np

from ..types import BIO, MISSING, B, I, O

# How many imagined transitions, spread as the tags are, stand beside those that were counted:
# with little data, transitions say little.
SMOOTHING = 10.0


def count_transitions(tags: np.ndarray) -> np.ndarray:
    """(tokens,) gold tags -> (3, 3) how often each tag follows each; across missing ones, never."""
    counts = np.zeros((len(BIO), len(BIO)), dtype=np.int64)
    known = (tags[:-1] != MISSING) & (tags[1:] != MISSING)
    np.add.at(counts, (tags[:-1][known], tags[1:][known]), 1)
    return counts


def transition_scores(counts: np.ndarray, weight: float) -> np.ndarray:
    """(3, 3) `weight * log(P(tag | tag before) / P(tag))`; I after O is out of the question.

    The detection head judges each token by itself and says B twice where one mention has two
    words that often begin one. How tags follow each other in the training set corrects that; it
    is taken relative to how frequent a tag is, since the head knows the latter already.
    """
    scores = np.zeros((len(BIO), len(BIO)))
    if counts.any():
        frequency = (counts.sum(axis=0) + 1) / (counts.sum() + len(BIO))
        follows = (counts + SMOOTHING * frequency) / (counts.sum(axis=1, keepdims=True) + SMOOTHING)
        scores = weight * np.log(follows / frequency)
    scores[O, I] = -np.inf
    return scores


def surely_outside(log: np.ndarray, transitions: np.ndarray) -> np.ndarray:
    """(tokens,) whether a token is O in the best sequence for sure, whatever the others are.

    Let a sequence have another tag there. Make it O and, since I cannot follow, an I after it B:
    that wins what O is above the better of B and I, and loses at most what that I was above B and
    what three transitions can differ by. Where the first is more, the sequence was not the best.

    log: (tokens, 3) log-probabilities of B, I, O.
    """
    won = log[:, O] - np.maximum(log[:, B], log[:, I])
    after = np.append(np.maximum(log[1:, I] - log[1:, B], 0.0), 0.0)
    legal = transitions[np.isfinite(transitions)]
    return won > after + 3 * (legal.max() - legal.min())


def last_surely_outside(probabilities: np.ndarray, transitions: np.ndarray) -> int:
    """The last token of a part that is surely outside whatever follows the part; 0 for none."""
    sure = surely_outside(_log(probabilities), transitions)[:-1]
    return int(np.flatnonzero(sure)[-1]) if sure.any() else 0


def decode_bio(probabilities: np.ndarray, transitions: np.ndarray) -> np.ndarray:
    """The tag sequence with the best sum of log-probabilities and transition scores (Viterbi).

    Most tokens of a text are surely outside. They part the sequence: what is between two of them
    is decoded by itself, with the two as its ends.

    probabilities: (tokens, 3) of B, I, O.
    transitions: (3, 3) from `transition_scores`; no sequence starts with I.
    returns: (tokens,) tags.
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
    # Plain floats: for three tags, numpy's overhead at each token is ten times this loop's.
    for log_b, log_i, log_o in log[1:]:
        to_b = max((b + bb, B), (i + ib, I), (o + ob, O))
        to_i = max((b + bi, B), (i + ii, I))
        to_o = max((b + bo, B), (i + io, I), (o + oo, O))
        came.append((to_b[1], to_i[1], to_o[1]))
        b, i, o = to_b[0] + log_b, to_i[0] + log_i, to_o[0] + log_o
    tag = int(np.argmax([b, i, o]))
    path = [tag]
    for before in reversed(came):
        tag = before[tag]
        path.append(tag)
    return path[::-1]


def bio_spans(tags: np.ndarray) -> np.ndarray:
    """(tokens,) legal tags -> (spans, 2) ranges `start:end`."""
    starts = np.flatnonzero(tags == B)
    # A span ends before the next token that is not inside one.
    stops = np.append(np.flatnonzero(tags != I), len(tags))
    ends = stops[np.searchsorted(stops, starts, side="right")]
    return np.stack([starts, ends], axis=1)
