"""The sensitivity picture (figure 2 of the paper): words shaded by the confidence of the class that
a model predicts for them, the models one under the other on the same words.

What is shown is worked out here; `heatmap_html` and `heatmap_png` only draw it.

    Block       a text: its words, and what each model (and the gold) says of them
    Reading     what one model says: a confidence for each word, and the mentions
    segments    the words of a line, by mention
    shade       the colours of a confidence
"""

import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from spacy.language import Language
from spacy.tokens import Doc
from spacy.vocab import Vocab

from ...pipeline.find import find_mslm, run_pipes_before
from ...types import B, I, O, Prediction

# The number of an ordinary word is written below this only: most are surer, and would hide the few
# that are not.
SURE = 0.95
# Longer words are cut, so that one column does not take the page.
LONGEST = 40
# Sizes of the fonts, relative to that of the words.
LABEL_SIZE, NUMBER_SIZE = 0.82, 0.76

Measure = Callable[[str, float, bool], float]


class Mention(NamedTuple):
    """Words `start:end` of a block; gold ones have no confidence."""

    start: int
    end: int
    label: str
    confidence: float | None

    @property
    def caption(self) -> str:
        return f"{self.label} {number(self.confidence)}".strip()


@dataclass
class Reading:
    """What a model says of the words of a block, or the gold."""

    name: str
    confidences: list[float | None]  # of each word's class; None: there is none
    mentions: list[Mention]  # in order, without overlap
    gold: bool = False


@dataclass
class Block:
    """A text with all the readings of it."""

    title: str
    words: list[str]
    readings: list[Reading]


# ---- docs -> blocks ----


def make_block(doc: Doc, readings: Sequence[Reading]) -> Block:
    """The block of a document. White-space tokens are no words."""
    words = [_shortened(visible(doc[i].text)) for i in _columns(doc)]
    gold = gold_reading(doc)
    return Block(visible(doc.user_data["id"]), words, [*([gold] if gold else []), *readings])


def read_model(nlp: Language, name: str, docs: Sequence[Doc]) -> list[Reading]:
    """What a pipeline's `mslm` pipe says of each document, in the document's own tokens.

    The pipes before it run, too, and those after it change nothing.
    """
    pipe_name, pipe = find_mslm(nlp, name)
    copies = run_pipes_before(nlp, pipe_name, (_copy(doc, nlp.vocab) for doc in docs))
    return [
        _reading(name, doc, prediction, pipe.labels)
        for doc, prediction in zip(docs, pipe.predict(copies), strict=True)
    ]


def gold_reading(doc: Doc) -> Reading | None:
    """The entities of a document, if it is annotated."""
    if not doc.has_annotation("ENT_IOB"):
        return None
    spans: list[tuple[int, int, str]] = []
    # Not doc.ents: on damaged annotation it fails with the text in its message.
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
    tags = [O] * len(doc)
    for entity in prediction.entities:
        tags[entity.start : entity.end] = [B] + [I] * (entity.end - entity.start - 1)
    columns = _columns(doc)
    confidences: list[float | None] = []
    for i in columns:
        confidence = float(prediction.bio[i, tags[i]])
        # A token without wordpieces counts as O, also where a mention runs across it.
        confidences.append(confidence if confidence > 0 else None)
    mentions = [
        _mention(columns, e.start, e.end, labels[e.type], e.confidence) for e in prediction.entities
    ]
    return Reading(visible(name), confidences, mentions)


def _mention(
    columns: list[int], start: int, end: int, label: str, confidence: float | None
) -> Mention:
    first, last = bisect_left(columns, start), bisect_left(columns, end)
    return Mention(first, last, visible(label), confidence)


def _columns(doc: Doc) -> list[int]:
    """The tokens that are shown. By their text: a bare Vocab has no flag for white space."""
    return [token.i for token in doc if not token.text.isspace()]


def _copy(doc: Doc, vocab: Vocab) -> Doc:
    """The same tokens and sentences for another pipeline, without any other annotation."""
    return Doc(
        vocab,
        words=[token.text for token in doc],
        spaces=None if doc.has_unknown_spaces else [bool(token.whitespace_) for token in doc],
        sent_starts=[token.is_sent_start for token in doc]
        if doc.has_annotation("SENT_START")
        else None,
    )


# ---- what is written ----


def legend(blocks: Sequence[Block]) -> str:
    """How to read the picture."""
    sentences = [
        "The darker a word, the surer the model is of the class that it predicts for it.",
        "Boxed and bold: a predicted mention; over it its label and the confidence in the whole "
        "mention, under each word the probability of its tag (B for the first, I for the others).",
        f"Grey: no mention; the number is written where it is below {number(SURE)}.",
    ]
    if any(reading.gold for block in blocks for reading in block.readings):
        sentences.append("gold: the annotation of the data.")
    return " ".join(sentences)


def visible(text: str) -> str:
    """A text as it is shown: characters that break lines, turn the direction of what follows or
    are not seen at all become U+FFFD."""
    return "".join("\ufffd" if _is_hidden(character) else character for character in text)


def _shortened(word: str) -> str:
    return word if len(word) <= LONGEST else word[: LONGEST - 1] + "…"


def _is_hidden(character: str) -> bool:
    joiners = "\u200c\u200d"  # part of the spelling of Persian, Hindi and others
    hidden = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return unicodedata.category(character) in hidden and character not in joiners


def number(confidence: float | None) -> str:
    """A probability in three characters: `.97`, `1.0`."""
    return "" if confidence is None else f"{confidence:.2f}".removeprefix("0")[:3]


def word_number(confidence: float | None, inside: bool) -> str:
    """What is written under a word, inside of a mention or not."""
    if confidence is None or (not inside and round(confidence, 2) >= SURE):
        return ""
    return number(confidence)


# ---- colours ----

LEVELS = 20
# From unsure to sure. One hue, ever darker: the order stays in grey and for colour-blind readers.
# The ordinary words' ramp ends where it does not yet catch the eye.
MENTION_RAMP = ((239, 243, 255), (107, 174, 214), (8, 48, 107))
OTHER_RAMP = ((255, 255, 255), (232, 232, 232))


def level(confidence: float) -> int:
    """The step of a confidence on the ramps, from 0 to `LEVELS`."""
    return round(confidence * LEVELS)


def shade(step: int, inside: bool) -> tuple[str, str]:
    """The colours of a word and its ground, `#rrggbb`: black or white, what is easier to read."""
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
    """Relative luminance after WCAG 2.1, of channels from 0 to 255."""
    parts = [c / 255 for c in rgb]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


# ---- layout ----


def column_widths(block: Block, measure: Measure, padding: float) -> list[float]:
    """How wide each word's column must be for all its readings, labels included.

    measure: The width of a text in a size (relative to the words') and a weight (bold or not).
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


def break_lines(block: Block, widths: Sequence[float], limit: float) -> list[range]:
    """Lines of words of about the same width, at most `limit`, of which none ends in a mention
    unless that is wider than a line."""
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


def segments(reading: Reading, line: range) -> Iterator[tuple[Mention | None, range]]:
    """The words of a line in order: those of each mention, as far as it is in the line, and those
    between (None)."""
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
