"""Precision and recall at each threshold."""

import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc, Span
from spacy.training import Example

import spacy_mslm.pipeline.component  # noqa: F401  (sets the extension `span._.confidence`)
from spacy_mslm.scoring.curve import MAX_POINTS, precision_recall
from spacy_mslm.scoring.scorer import judge

VOCAB = spacy.blank("en").vocab


def judged(mentions: list[tuple[str, float, bool]], missed: int = 0) -> list:
    """A document with these predicted mentions, and gold mentions that were not found."""
    words = ["w"] * (len(mentions) + missed)
    gold, predicted = (Doc(VOCAB, words=words) for _ in range(2))
    ents = [Span(predicted, i, i + 1, label=label) for i, (label, _, _) in enumerate(mentions)]
    for span, (_, confidence, _) in zip(ents, mentions, strict=True):
        span._.confidence = confidence
    predicted.set_ents(ents)
    right = [Span(gold, i, i + 1, label=m[0]) for i, m in enumerate(mentions) if m[2]]
    gold.set_ents(
        right
        + [Span(gold, len(mentions) + i, len(mentions) + i + 1, label="A") for i in range(missed)]
    )
    return [judge(Example(predicted, gold), None)]


def test_by_hand():
    mentions = [("A", 0.9, True), ("A", 0.4, False), ("B", 0.7, True), ("A", 0.7, False)]
    curve = precision_recall(judged(mentions, missed=1))
    assert [tuple(point) for point in curve.points] == [
        (0.4, 2 / 4, 2 / 3, 4 / 7),
        (0.7, 2 / 3, 2 / 3, 4 / 6),
        (0.9, 1 / 1, 1 / 3, 2 / 4),
    ]
    assert curve.at_precision(0.6).threshold == 0.7
    assert curve.at_precision(0.9).threshold == 0.9
    of_b = precision_recall(judged(mentions, missed=1), "B")
    assert [tuple(point) for point in of_b.points] == [(0.7, 1.0, 1.0, 1.0)]
    assert precision_recall(judged([("A", 0.9, False)])).at_precision(0.1) is None
    assert precision_recall([]).points == []


@given(st.lists(st.tuples(st.just("A"), st.floats(0, 1), st.booleans()), min_size=1))
def test_each_point_is_what_the_threshold_leaves(mentions):
    points = precision_recall(judged(mentions)).points
    assert [p.threshold for p in points] == sorted({value for _, value, _ in mentions})
    for point in points:
        kept = [right for _, value, right in mentions if value >= point.threshold]
        assert point.precision == sum(kept) / len(kept)
        assert point.recall == sum(kept) / max(sum(r for _, _, r in mentions), 1)


def test_a_long_curve_is_thinned():
    curve = precision_recall(judged([("A", i / 1000, i % 3 > 0) for i in range(1000)]))
    points = curve.thin()
    assert len(points) == MAX_POINTS
    assert (points[0], points[-1]) == (curve.points[0], curve.points[-1])
