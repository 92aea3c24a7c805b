"""A generative model of annotators: skweak's HMM, which learns from their agreement alone how far
each can be believed, and gives the most likely labels."""

import contextlib
import io
import json
import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from spacy.tokens import Doc

from .aggregation import Priority, cover
from .concepts import Mention

if TYPE_CHECKING:
    from skweak.generative import HMM

Found = dict[str, list[Mention]]

_PRIORITY = Priority()


class LabelModel:
    """`spacy_mslm.LabelModel.v1`: labels by a hidden Markov model, whose states are the true tags
    of the tokens, and whose observations are what each annotator says of them.

    An annotator that finds nothing at a token says that nothing is there. A label that the sample
    has not shown is not voted on: such mentions are kept where nothing else is.
    """

    def __init__(self) -> None:
        self._labels: list[str] = []
        self._sources: list[str] = []
        self._model: HMM | None = None

    def fit(self, found: Iterable[tuple[Doc, Found]]) -> bytes:
        """Learn from documents, of which only the tags are held in memory."""
        import_skweak()
        sample = [(len(doc), _one_each(doc, mentions)) for doc, mentions in found]
        told = [(n, mentions) for n, mentions in sample if any(mentions.values())]
        if not told:
            raise ValueError(
                f"The label model has nothing to learn from: in the {len(sample)} documents of "
                "the sample nothing was found. Check the annotators and the clusters, or give "
                "more notes."
            )
        self._labels = sorted({m.label for _, by in told for ms in by.values() for m in ms})
        self._sources = list(dict.fromkeys(source for _, by in told for source in by))
        import pandas

        model = self._make()
        tables = [
            pandas.DataFrame({name: self._tags(by.get(name, []), n) for name in self._sources})
            for n, by in told
        ]
        # It prints its progress.
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            model._fit(tables)
        self._model = model
        learnt = {
            "labels": self._labels,
            "sources": self._sources,
            "start": model.hmm.startprob_.tolist(),
            "transitions": model.hmm.transmat_.tolist(),
            "emissions": [model.emit_probs[source].tolist() for source in self._sources],
        }
        # Not pickled, as skweak would: what is read back may run no code.
        return json.dumps(learnt).encode("utf8")

    def load(self, learnt: bytes) -> None:
        """learnt: what `fit` has returned."""
        try:
            data = json.loads(learnt)
            self._labels, self._sources = list(data["labels"]), list(data["sources"])
            size = 1 + 2 * len(self._labels)
            start = _array(data["start"], size)
            transitions = _array(data["transitions"], size, size)
            emissions = _array(data["emissions"], len(self._sources), size, size)
        except (ValueError, KeyError, TypeError) as err:
            # Only its name: the message may have the data in it.
            raise ValueError(
                f"What the label model has learnt cannot be read ({type(err).__name__}). "
                "Delete the file, so that it is learnt again."
            ) from None
        import_skweak()
        model = self._make()
        model.hmm.startprob_, model.hmm.transmat_ = start, transitions
        model.emit_probs = dict(zip(self._sources, emissions, strict=True))
        # Only its keys are looked at, for the sources that the model knows.
        model.emit_counts = model.emit_probs
        self._model = model

    def __call__(self, doc: Doc, found: Found) -> list[Mention]:
        """Each mention has the concept and the source of the annotator's mention, of the same
        label, that is most like it; its score is the model's probability of the least likely of
        its tokens."""
        if self._model is None:
            raise ValueError(
                "The label model has learnt nothing yet. Call fit, or load what was learnt before."
            )
        unknown = sorted(found.keys() - set(self._sources))
        if unknown:
            raise ValueError(
                f"The label model has not learnt what {', '.join(unknown)} find. Let it learn "
                "again, of all the annotators of the config."
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
        near = cover(candidates)
        voted = [
            _like(near, start, end, self._labels[label], score)
            for start, end, label, score in _decode(probabilities)
        ]
        unseen = [mention for mention in candidates if mention.label not in self._labels]
        return _PRIORITY(doc, {"voted": voted, "unseen": unseen}) if unseen else voted

    def _make(self) -> "HMM":
        from skweak.generative import HMM

        # Sources are weighed down for redundancy by the likeness of their names, which are the
        # user's: not done.
        return HMM("label_model", list(self._labels), redundancy_factor=0.0)

    def _tags(self, mentions: list[Mention], n: int) -> np.ndarray:
        """(n,) 0 outside, 1 + 2 * label where a mention begins, 2 + 2 * label inside."""
        tags = np.zeros(n, dtype=np.int64)
        for mention in mentions:
            if mention.label in self._labels:
                tag = 1 + 2 * self._labels.index(mention.label)
                tags[mention.start] = tag
                tags[mention.start + 1 : mention.end] = tag + 1
        return tags


def import_skweak() -> None:
    """Import it, or say how to install it."""
    try:
        # It silences warnings, for everybody, when it is imported.
        with warnings.catch_warnings():
            import skweak.generative  # noqa: F401
    except ImportError as err:
        raise ImportError(
            f"The label model needs skweak ({err}). Install it with 'pip install "
            '"spacy-mslm[skweak]"\', or aggregate by spacy_mslm.Priority.v1.'
        ) from err


def _one_each(doc: Doc, found: Found) -> Found:
    """What each source says of a token is one thing: the longest of its mentions there."""
    return {source: _PRIORITY(doc, {source: mentions}) for source, mentions in found.items()}


def _decode(probabilities: np.ndarray) -> list[tuple[int, int, int, float]]:
    """(tokens, tags) probabilities -> start, end, label and score of the mentions."""
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


def _like(
    near: dict[int, list[Mention]], start: int, end: int, label: str, score: float
) -> Mention:
    """A mention with what the most like one of those `near` has besides. There is one: the model
    gives no tag that no source has."""

    def likeness(mention: Mention) -> tuple[float, float]:
        common = min(end, mention.end) - max(start, mention.start)
        return common / (max(end, mention.end) - min(start, mention.start)), mention.score

    candidates = [m for i in range(start, end) for m in near.get(i, ()) if m.label == label]
    best = max(candidates, key=likeness)
    return Mention(start, end, label, best.concept, best.source, score)


def _array(values: Any, *shape: int) -> np.ndarray:
    array = np.asarray(values, dtype=np.float64)
    if array.shape != shape or not np.isfinite(array).all():
        raise ValueError
    return array
