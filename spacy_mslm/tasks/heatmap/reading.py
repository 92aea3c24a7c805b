"""What a heat map shows (figure 2 of the paper): words shaded by the confidence in their predicted
class, with models below each other on the same words.

This module computes what is shown; `html` and `png` draw it.

    TextBlock   a text: its words, and the readings of each model and of the gold annotation
    Reading     the predictions of one model: a confidence for each word, and the mentions
    segments    the words of a line, grouped by mention
    shade       the colours of a confidence
"""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from spacy.language import Language
from spacy.tokens import Doc
from spacy.vocab import Vocab

from ...pipeline.find import find_mslm, run_pipes_before
from ...types import B, Entity, I, O, Prediction
from ...util.spans import drop_overlapping, most_confident_first

# The number of a word outside of mentions is shown only below this confidence. Most words are above
# it, and would hide the few that are not.
SURE = 0.95
# Longer words are cut, so that one column does not fill the page.
LONGEST = 40
# Font sizes, relative to that of the words.
LABEL_SIZE, NUMBER_SIZE = 0.82, 0.76

Measure = Callable[[str, float, bool], float]


class ShownMention(NamedTuple):
    """A mention: words `start:end` of a block. Gold mentions have no confidence."""

    start: int
    end: int
    label: str
    confidence: float | None

    @property
    def caption(self) -> str:
        return f"{self.label} {number(self.confidence)}".strip()


@dataclass
class Reading:
    """The predictions of a model for the words of a block, or the gold annotation."""

    name: str
    confidences: list[float | None]  # in the class of each word; None if it has none
    mentions: list[ShownMention]  # in order, without overlap
    gold: bool = False


@dataclass
class TextBlock:
    """A text with all its readings."""

    title: str
    words: list[str]
    readings: list[Reading]


# ---- docs -> blocks ----


def make_block(doc: Doc, readings: Sequence[Reading]) -> TextBlock:
    """Return the block of a document. White-space tokens are left out."""
    words = [_shortened(visible(doc[i].text)) for i in _columns(doc)]
    gold = gold_reading(doc)
    return TextBlock(visible(doc.user_data["id"]), words, [*([gold] if gold else []), *readings])


def read_model(nlp: Language, name: str, docs: Sequence[Doc]) -> list[Reading]:
    """Return the predictions of a pipeline's `mslm` pipe in the tokens of each document.

    The pipes before it are run, those after it are not.
    """
    pipe_name, pipe = find_mslm(nlp, name)
    copies = run_pipes_before(nlp, pipe_name, (_copy(doc, nlp.vocab) for doc in docs))
    return [
        _reading(name, doc, prediction, pipe.labels)
        for doc, prediction in zip(docs, pipe.predict(copies), strict=True)
    ]


def gold_reading(doc: Doc) -> Reading | None:
    """Return the gold entities of a document, or None if it is not annotated."""
    if not doc.has_annotation("ENT_IOB"):
        return None
    spans: list[tuple[int, int, str]] = []
    # Not doc.ents: if the annotation is damaged, its error message contains the text.
    for token in doc:
        label = token.ent_type_
        if not label or token.ent_iob_ not in ("B", "I"):
            continue
        if token.ent_iob_ == "I" and spans and spans[-1][1:] == (token.i, label):
            spans[-1] = (spans[-1][0], token.i + 1, label)
        else:
            spans.append((token.i, token.i + 1, label))
    columns = _columns(doc)
    mentions = [_mention(columns, *span, None) for span in spans]
    mentions = [mention for mention in mentions if mention.start < mention.end]
    return Reading("gold", [None] * len(columns), mentions, gold=True)


def _reading(name: str, doc: Doc, prediction: Prediction, labels: Sequence[str]) -> Reading:
    # Of overlapping entities, which a typed model may find, those that doc.ents would have.
    entities = drop_overlapping(sorted(prediction.entities, key=most_confident_first))
    of_token = _token_confidences(prediction, entities)
    columns = _columns(doc)
    confidences: list[float | None] = []
    for i in columns:
        confidence = float(of_token[i])
        # A token without wordpieces counts as O, even inside of a mention.
        confidences.append(confidence if confidence > 0 else None)
    mentions = [_mention(columns, e.start, e.end, labels[e.type], e.confidence) for e in entities]
    return Reading(visible(name), confidences, mentions)


def _token_confidences(prediction: Prediction, entities: Sequence[Entity]) -> np.ndarray:
    """Return (tokens,) the probability of the tag of each token.

    In a typed model, it is that of the entity's type, and outside of entities the product over all
    types.
    """
    typed = prediction.bio.ndim > 2
    values = prediction.bio[..., O].prod(axis=1) if typed else prediction.bio[:, O].copy()
    for entity in entities:
        own = prediction.bio[entity.start : entity.end]
        own = own[:, entity.type] if typed else own
        values[entity.start : entity.end] = own[:, I]
        values[entity.start] = own[0, B]
    return values


def _mention(
    columns: list[int], start: int, end: int, label: str, confidence: float | None
) -> ShownMention:
    first, last = bisect_left(columns, start), bisect_left(columns, end)
    return ShownMention(first, last, visible(label), confidence)


def _columns(doc: Doc) -> list[int]:
    """Return the indices of the tokens that are shown: a bare Vocab has no flag for white space."""
    return [token.i for token in doc if not token.text.isspace()]


def _copy(doc: Doc, vocab: Vocab) -> Doc:
    """Copy tokens and sentences for another pipeline, without any other annotation."""
    return Doc(
        vocab,
        words=[token.text for token in doc],
        spaces=None if doc.has_unknown_spaces else [bool(token.whitespace_) for token in doc],
        sent_starts=[token.is_sent_start for token in doc]
        if doc.has_annotation("SENT_START")
        else None,
    )


# ---- text ----


def legend(blocks: Sequence[TextBlock]) -> str:
    """Explain how to read the heat map."""
    sentences = [
        "The darker a word, the more confident the model is in the class that it predicts for it.",
        "Boxed and bold: a predicted mention, with its label and the confidence in the whole "
        "mention above it, and the probability of each word's tag (B for the first, I for the "
        "others) below it.",
        f"Grey: no mention; the probability is shown only if it is below {number(SURE)}.",
    ]
    if any(reading.gold for block in blocks for reading in block.readings):
        sentences.append("gold: the annotation of the data.")
    return " ".join(sentences)


def name_parts(name: str) -> list[str]:
    """Split the name of a model where a line may break: after - _ / . and spaces."""
    return re.findall(r"[^-_/.\s]+[-_/.\s]*|[-_/.\s]+", name)


def visible(text: str) -> str:
    """Replace characters that break lines, change the direction of text or are invisible by
    U+FFFD."""
    return "".join("\ufffd" if _is_hidden(character) else character for character in text)


def _shortened(word: str) -> str:
    return word if len(word) <= LONGEST else word[: LONGEST - 1] + "…"


def _is_hidden(character: str) -> bool:
    joiners = "\u200c\u200d"  # part of the spelling of Persian, Hindi and others
    hidden = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return unicodedata.category(character) in hidden and character not in joiners


def number(confidence: float | None) -> str:
    """Format a probability in three characters: `.97`, `1.0`."""
    return "" if confidence is None else f"{confidence:.2f}".removeprefix("0")[:3]


def word_number(confidence: float | None, inside: bool) -> str:
    """Return the text below a word, which is inside of a mention or not."""
    if confidence is None or (not inside and round(confidence, 2) >= SURE):
        return ""
    return number(confidence)


# ---- colours ----

LEVELS = 20
# From low to high confidence. One hue that gets darker keeps its order in greyscale and for
# colour-blind readers. The ramp of words outside of mentions stays pale.
MENTION_RAMP = ((239, 243, 255), (107, 174, 214), (8, 48, 107))
OTHER_RAMP = ((255, 255, 255), (232, 232, 232))


def level(confidence: float) -> int:
    """Return the step of a confidence on the ramps, from 0 to `LEVELS`."""
    return round(confidence * LEVELS)


def shade(step: int, inside: bool) -> tuple[str, str]:
    """Return the colours (`#rrggbb`) of a word, black or white, and of its background."""
    ramp = MENTION_RAMP if inside else OTHER_RAMP
    place = step / LEVELS * (len(ramp) - 1)
    left = min(int(place), len(ramp) - 2)
    ground = [
        round(a + (b - a) * (place - left)) for a, b in zip(ramp[left], ramp[left + 1], strict=True)
    ]
    # From this luminance on, black has more contrast than white (WCAG 2.1).
    text = "#000000" if luminance(ground) > 0.179 else "#ffffff"
    return text, "#" + "".join(f"{channel:02x}" for channel in ground)


def luminance(rgb: Sequence[int]) -> float:
    """Return the relative luminance (WCAG 2.1) of channels from 0 to 255."""
    parts = [c / 255 for c in rgb]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


# ---- layout ----


def column_widths(block: TextBlock, measure: Measure, padding: float) -> list[float]:
    """Return the width that each word needs in all readings, including labels.

    Args:
        block: The words and readings.
        measure: Returns the width of a text, given its size (relative to words) and whether it is
            bold.
        padding: Added to the width of each text.
    """
    widths = [measure(word, 1.0, False) + padding for word in block.words]
    for reading in block.readings:
        for mention, columns in segments(reading, range(len(block.words))):
            inside = mention is not None
            for i in columns:
                text = word_number(reading.confidences[i], inside)
                wanted = max(measure(block.words[i], 1.0, inside), measure(text, NUMBER_SIZE, True))
                widths[i] = max(widths[i], wanted + padding)
    for reading in block.readings:
        for mention in reading.mentions:
            columns = range(mention.start, mention.end)
            wanted = measure(mention.caption, LABEL_SIZE, True) + padding
            missing = wanted - sum(widths[i] for i in columns)
            for i in columns:
                widths[i] += max(missing, 0) / len(columns)
    return widths


def break_lines(block: TextBlock, widths: Sequence[float], limit: float) -> list[range]:
    """Break the words into lines of about the same width, at most `limit`.

    No line ends inside of a mention, unless the mention is wider than a line.
    """
    mentions = (mention for reading in block.readings for mention in reading.mentions)
    inside = {i for mention in mentions for i in range(mention.start + 1, mention.end)}
    lines = _fill_lines(inside, widths, limit)
    even = min(sum(widths) / len(lines), limit)
    for tenth in range(10):
        shorter = _fill_lines(inside, widths, even + (limit - even) * tenth / 10)
        if len(shorter) == len(lines) and _cuts(inside, shorter) == _cuts(inside, lines):
            return shorter
    return lines


def _fill_lines(inside: set[int], widths: Sequence[float], limit: float) -> list[range]:
    lines = []
    start, total = 0, 0.0
    for i, width in enumerate(widths):
        while i > start and total + width > limit:
            end = next((k for k in range(i, start, -1) if k not in inside), i)
            lines.append(range(start, end))
            start, total = end, sum(widths[end:i])
        total += width
    return [*lines, range(start, len(widths))]


def _cuts(inside: set[int], lines: list[range]) -> int:
    return sum(line.start in inside for line in lines)


def segments(reading: Reading, line: range) -> Iterator[tuple[ShownMention | None, range]]:
    """Yield the words of a line in order: the part of each mention in it, and the words between
    mentions (None)."""
    at = line.start
    first = bisect_right(reading.mentions, line.start, key=lambda mention: mention.end)
    for mention in reading.mentions[first:]:
        if mention.start >= line.stop:
            break
        words = range(max(mention.start, line.start), min(mention.end, line.stop))
        if at < words.start:
            yield None, range(at, words.start)
        yield mention, words
        at = words.stop
    if at < line.stop:
        yield None, range(at, line.stop)
