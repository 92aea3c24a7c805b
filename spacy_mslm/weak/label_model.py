"""Merging of the mentions of several annotators by skweak's hidden Markov model, which estimates
the reliability of each annotator from their agreement."""

import contextlib
import io
import json
import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from spacy.tokens import Doc

from .aggregation import Priority, spans_by_token
from .concepts import MentionsBySource, WeakMention

if TYPE_CHECKING:
    from skweak.generative import HMM

_PRIORITY = Priority()


class LabelModel:
    """`spacy_mslm.LabelModel.v1`: labels by a hidden Markov model. Its states are the true tags of
    the tokens, its observations the tags of each annotator.

    An annotator that finds nothing at a token votes for "outside". Mentions with a label that did
    not occur in the sample are not voted on, and are kept where they overlap no other mention.
    """

    def __init__(self) -> None:
        self._labels: list[str] = []
        self._sources: list[str] = []
        self._model: HMM | None = None

    def fit(self, found: Iterable[tuple[Doc, MentionsBySource]]) -> bytes:
        """Fit the model to documents, and return its parameters. Only tags are held in memory."""
        import_skweak()
        sample = [(len(doc), _one_each(doc, mentions)) for doc, mentions in found]
        used = [(n, mentions) for n, mentions in sample if any(mentions.values())]
        if not used:
            raise ValueError(
                f"The label model has nothing to learn from: no annotator found a mention in the "
                f"{len(sample)} documents of the sample. Check the annotators and the clusters, or "
                "give more notes."
            )
        self._labels = sorted({m.label for _, by in used for ms in by.values() for m in ms})
        self._sources = list(dict.fromkeys(source for _, by in used for source in by))
        import pandas

        model = self._make()
        tables = [
            pandas.DataFrame({name: self._tags(by.get(name, []), n) for name in self._sources})
            for n, by in used
        ]
        # skweak prints its progress.
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            model._fit(tables)
        self._model = model
        state = {
            "labels": self._labels,
            "sources": self._sources,
            "start": model.hmm.startprob_.tolist(),
            "transitions": model.hmm.transmat_.tolist(),
            "emissions": [model.emit_probs[source].tolist() for source in self._sources],
        }
        # JSON instead of skweak's pickle, as loading a pickle can run code.
        return json.dumps(state).encode("utf8")

    def load(self, state: bytes) -> None:
        """Restore the parameters that `fit` returned."""
        try:
            data = json.loads(state)
            self._labels, self._sources = list(data["labels"]), list(data["sources"])
            size = 1 + 2 * len(self._labels)
            start = _array(data["start"], size)
            transitions = _array(data["transitions"], size, size)
            emissions = _array(data["emissions"], len(self._sources), size, size)
        except (ValueError, KeyError, TypeError) as err:
            # The type only: the message may hold the data.
            raise ValueError(
                f"The parameters of the label model cannot be read ({type(err).__name__}). Delete "
                "the file, so that the model is fitted again."
            ) from None
        import_skweak()
        model = self._make()
        model.hmm.startprob_, model.hmm.transmat_ = start, transitions
        model.emit_probs = dict(zip(self._sources, emissions, strict=True))
        # skweak only reads the keys, to know the sources.
        model.emit_counts = model.emit_probs
        self._model = model

    def __call__(self, doc: Doc, found: MentionsBySource) -> list[WeakMention]:
        """Return mentions that do not overlap, in the order of the text. Each has the concept and
        the source of the most similar annotator mention with the same label. Its score is the
        model's lowest probability among its tokens."""
        if self._model is None:
            raise ValueError(
                "The label model is not fitted yet. Call fit, or load the state that fit returned."
            )
        unknown = sorted(found.keys() - set(self._sources))
        if unknown:
            raise ValueError(
                f"The label model was fitted without {', '.join(unknown)}. Fit it again with all "
                "annotators of the config."
            )
        given = _one_each(doc, found)
        if not any(given.values()):
            return []
        size = 1 + 2 * len(self._labels)
        one_hots = {
            source: np.eye(size, dtype=bool)[self._tags(given.get(source, []), len(doc))]
            for source in self._sources
        }
        probabilities = self._model.get_posteriors(one_hots)
        candidates = [mention for mentions in given.values() for mention in mentions]
        near = spans_by_token(candidates)
        voted = [
            _with_concept(near, start, end, self._labels[label], score)
            for start, end, label, score in _decode(probabilities)
        ]
        unseen = [mention for mention in candidates if mention.label not in self._labels]
        return _PRIORITY(doc, {"voted": voted, "unseen": unseen}) if unseen else voted

    def _make(self) -> "HMM":
        from skweak.generative import HMM

        # No redundancy weights: skweak computes them from the similarity of the annotators' names,
        # which the user chose.
        return HMM("label_model", list(self._labels), redundancy_factor=0.0)

    def _tags(self, mentions: list[WeakMention], n: int) -> np.ndarray:
        """Return tags (n,): 0 outside, 1 + 2 * label at a mention's start, 2 + 2 * label inside."""
        tags = np.zeros(n, dtype=np.int64)
        for mention in mentions:
            if mention.label in self._labels:
                tag = 1 + 2 * self._labels.index(mention.label)
                tags[mention.start] = tag
                tags[mention.start + 1 : mention.end] = tag + 1
        return tags


def import_skweak() -> None:
    """Import skweak. Raises an ImportError that says how to install it."""
    try:
        # Its import changes the warning filters of the whole process.
        with warnings.catch_warnings():
            import skweak.generative  # noqa: F401
    except ImportError as err:
        raise ImportError(
            f"The label model needs skweak ({err}). Install it with 'pip install "
            '"spacy-mslm[skweak]"\', or use spacy_mslm.Priority.v1.'
        ) from err


def _one_each(doc: Doc, found: MentionsBySource) -> MentionsBySource:
    """Keep the longest of the overlapping mentions of each source, so that it has one tag per
    token."""
    return {source: _PRIORITY(doc, {source: mentions}) for source, mentions in found.items()}


def _decode(probabilities: np.ndarray) -> list[tuple[int, int, int, float]]:
    """Decode probabilities (tokens, tags) to the start, end, label and score of each mention."""
    spans: list[tuple[int, int, int, float]] = []
    tags, best = probabilities.argmax(axis=1), probabilities.max(axis=1)
    for i in tags.nonzero()[0].tolist():
        label, inside = divmod(int(tags[i]) - 1, 2)
        score = float(best[i])
        if inside and spans and spans[-1][1] == i and spans[-1][2] == label:
            start, _, _, least = spans[-1]
            spans[-1] = (start, i + 1, label, min(least, score))
        else:
            spans.append((i, i + 1, label, score))
    return spans


def _with_concept(
    near: dict[int, list[WeakMention]], start: int, end: int, label: str, score: float
) -> WeakMention:
    """Create a mention with the concept and the source of the most similar one in `near`. There is
    one, as the model only gives tags that a source has."""

    def similarity(mention: WeakMention) -> tuple[float, float]:
        common = min(end, mention.end) - max(start, mention.start)
        return common / (max(end, mention.end) - min(start, mention.start)), mention.score

    candidates = [m for i in range(start, end) for m in near.get(i, ()) if m.label == label]
    best = max(candidates, key=similarity)
    return WeakMention(start, end, label, best.concept, best.source, score)


def _array(values: Any, *shape: int) -> np.ndarray:
    array = np.asarray(values, dtype=np.float64)
    if array.shape != shape or not np.isfinite(array).all():
        raise ValueError
    return array
