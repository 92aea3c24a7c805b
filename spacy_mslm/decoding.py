"""Head outputs -> entity spans: the best legal BIO sequence, and the spans in it."""

import numpy as np

from .batches import B, I, O


def decode_bio(probabilities: np.ndarray) -> np.ndarray:
    """The most probable tag sequence in which every I follows a B or an I.

    probabilities: (tokens, 3) of B, I, O.
    returns: (tokens,) tags.

    Where the best tag of every token happens to be legal it is the answer; otherwise Viterbi, in
    which I after O (or at the start) is the only forbidden step.
    """
    tags = probabilities.argmax(axis=1)
    before = np.concatenate([[O], tags[:-1]])
    if not ((tags == I) & (before == O)).any():
        return tags
    log = np.log(np.maximum(probabilities, 1e-30)).tolist()
    score_b, score_i, score_o = log[0][B], -np.inf, log[0][O]
    came: list[tuple[int, int]] = []  # the best tag before (any tag, an I)
    for b, i, o in log[1:]:
        inside, from_inside = (score_b, B) if score_b >= score_i else (score_i, I)
        best, from_best = (inside, from_inside) if inside >= score_o else (score_o, O)
        came.append((from_best, from_inside))
        score_b, score_i, score_o = best + b, inside + i, best + o
    tag = int(np.argmax([score_b, score_i, score_o]))
    path = [tag]
    for from_best, from_inside in reversed(came):
        tag = from_inside if tag == I else from_best
        path.append(tag)
    return np.array(path[::-1])


def bio_spans(tags: np.ndarray) -> np.ndarray:
    """(tokens,) legal tags -> (spans, 2) ranges `start:end`."""
    starts = np.flatnonzero(tags == B)
    # A span ends before the next token that is not inside one.
    stops = np.append(np.flatnonzero(tags != I), len(tags))
    ends = stops[np.searchsorted(stops, starts, side="right")]
    return np.stack([starts, ends], axis=1)
