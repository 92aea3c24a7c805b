"""Mentions that are not findings of the patient: negated, hypothetical, of the family, or part of
a form that nobody has filled in.

The rules are those of NegEx and ConText: a cue ("denies", "rule out") reaches the mentions behind
it, or before it, in its sentence, up to a word that ends its scope ("but"):

    Denies fever, chills or cough, but has a sore throat.
    ------ ~~~~~  ~~~~~~    ~~~~~  ===

Cues are data: `data/context.json`. negspacy has the same rules, and was tried: its time grows with
the square of a note's length (18 s for 200,000 characters), a cue behind a mention reaches back to
the sentence's start, and its terms take "rule out" and "versus" for negations.

"Possible" and the like are no context here: ConText tells what is uncertain from what is
hypothetical, which is a thing that may come, or that is looked for ("if", "monitor for", "rule
out").
"""

import json
import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from itertools import product
from operator import itemgetter
from typing import NamedTuple

from spacy.tokens import Doc

from .concepts import Mention

# A mention of several kinds has the label of the first of them that gives one: a form says nothing,
# what a relative has is not the patient's, and so on.
KINDS = ("template", "family", "hypothetical", "negated")
KEEP, DROP = "keep", "drop"

# How far a cue reaches back to mentions before it, in characters: what is farther off in a long
# sentence is seldom meant. And how much of a line is looked at for the marks of forms.
REACH = 40
LINE = 120
# How long a section on the family may be.
SECTION = 2000


class Context:
    """`spacy_mslm.Context.v1`: what becomes of mentions in a context, each "keep", "drop", or a
    label, in which {label} stands for that of the mention ("Negated{label}").

    A mention of several kinds is dropped if one of them is dropped. Only sentences with mentions
    are looked at, which takes about 0.1 ms each, whatever is done with them.
    """

    def __init__(
        self,
        negated: str = KEEP,
        hypothetical: str = KEEP,
        family: str = KEEP,
        template: str = KEEP,
    ) -> None:
        given = {
            "template": template,
            "family": family,
            "hypothetical": hypothetical,
            "negated": negated,
        }
        for kind, policy in given.items():
            if not _is_policy(policy):
                raise ValueError(
                    f"The context {kind} is {policy!r}, but must be 'keep', 'drop', or a "
                    "label, in which {label} stands for the mention's own, such as "
                    "'Negated{label}'."
                )
        self._policies = given
        self._rules = _Rules()

    def __call__(self, doc: Doc, mentions: Sequence[Mention]) -> tuple[list[Mention], Counter[str]]:
        """doc: its sentences are set. It is not changed.

        Returns the mentions that are left, with their labels, in the order given; and how many
        there were of each kind before.
        """
        counts: Counter[str] = Counter()
        left = []
        for mention, kinds in zip(mentions, self._rules(doc, mentions), strict=True):
            counts.update(kinds)
            policies = [self._policies[kind] for kind in kinds]
            if DROP not in policies:
                label = next((policy for policy in policies if policy != KEEP), "{label}")
                left.append(mention._replace(label=label.replace("{label}", mention.label)))
        return left, counts


def _is_policy(policy: str) -> bool:
    rest = policy.replace("{label}", "")
    misspelt = policy.lower() in (KEEP, DROP) and policy not in (KEEP, DROP)
    return bool(policy.strip()) and not misspelt and "{" not in rest and "}" not in rest


# ---- sentences ----

# Words as cues have them, and the plus and minus signs of "(-) fever".
_WORD = re.compile(r"[(\[][-+][)\]]|\w+(?:['/]\w+)*")
# No scope goes beyond the end of a paragraph, an item of a list, a heading, or a full stop after
# which the space was forgotten.
_HEADING = r"^[ \t]*(?!{relatives})[A-Z][A-Za-z /&,]{{1,40}}:|(?<!\w)[A-Z][A-Z /&]{{2,40}}:"
_BREAK = r"\n\s*\n|\n\s*(?:[-*•]|\d+[.)])\s|(?<=[a-z]{{3}})\.(?=[A-Za-z]{{2}})|{heading}"
# Headings that are such wherever in a line they are.
_SECTION = (
    r"(?<!\w)(?i:(?:social|medical|surgical|past) history|review of systems|allergies|medications"
    r"|(?:physical )?exam(?:ination)?|impression|assessment|plan)\s*:"
)
# What ends the reach of a cue that is for the next mention only: "pain p.r.n., aspirin daily".
_CLAUSE = re.compile(r"[,;:\n]")
_FAMILY = re.compile(r"\b(?:family (?:medical )?(?:history|hx)|fhx?)\s*:", re.IGNORECASE)

# What a cue does: (kind, field of its _Scopes).
_Roles = list[tuple[str, str]]


class _Scopes(NamedTuple):
    """Of one kind in a sentence, as sorted offsets: the ends of cues for what is behind them, the
    starts of cues for what is before them, what neither reaches over; and from where to where the
    cues reach that are for what comes next only."""

    before: list[int]
    after: list[int]
    stop: list[int]
    next: list[tuple[int, int]]

    def hold(self, start: int, end: int) -> bool:
        """Whether a cue reaches the characters `start:end`."""
        cue, stop = bisect_right(self.before, start), bisect_right(self.stop, start)
        if cue and (not stop or self.before[cue - 1] > self.stop[stop - 1]):
            return True
        cue = bisect_right(self.next, start, key=itemgetter(0))
        if cue and start < self.next[cue - 1][1]:
            return True
        cue, stop = bisect_left(self.after, end), bisect_left(self.stop, end)
        limit = min([end + REACH, *self.stop[stop : stop + 1]])
        return cue < len(self.after) and self.after[cue] < limit


class _Rules:
    """Tells the kinds of mentions."""

    def __init__(self) -> None:
        data = json.loads((files("spacy_mslm") / "data/context.json").read_text("utf8"))
        groups = data["groups"]
        roles: dict[tuple[str, ...], _Roles] = defaultdict(list)
        cued = [kind for kind in KINDS if kind in data]
        for phrase in _expand(data["neutral"], groups):
            roles[phrase] = []
        for phrase in _expand(data["stop"], groups):
            roles[phrase] += [(kind, "stop") for kind in cued]
        for kind, role in product(cued, _Scopes._fields):
            for phrase in _expand(data[kind].get(role, ()), groups):
                roles[phrase].append((kind, role))
        # First word -> the cues that begin with it, the longest first.
        self._cues: dict[str, list[tuple[tuple[str, ...], _Roles]]] = defaultdict(list)
        for phrase in sorted(roles, key=len, reverse=True):
            self._cues[phrase[0]].append((phrase, roles[phrase]))
        relatives = "|".join(rf"(?i:{name})\b" for name in groups["relative"])
        heading = f"{_HEADING.format(relatives=relatives)}|{_SECTION}"
        self._heading = re.compile(rf"\n\s*\n|{heading}", re.MULTILINE)
        self._break = re.compile(_BREAK.format(heading=heading), re.MULTILINE)
        self._kinds = cued

    def __call__(self, doc: Doc, mentions: Sequence[Mention]) -> Iterator[list[str]]:
        """The kinds of each mention, in the order of KINDS."""
        if not mentions:
            return
        text = doc.text
        firsts = [0, *(doc.to_array("SENT_START")[1:] == 1).nonzero()[0] + 1]
        sections = self._family_sections(text)
        sentences: dict[int, dict[str, _Scopes]] = {}
        for mention in mentions:
            start, end = doc[mention.start].idx, doc[mention.start : mention.end].end_char
            number = bisect_right(firsts, mention.start)
            begin = doc[int(firsts[number - 1])].idx
            close = doc[int(firsts[number])].idx if number < len(firsts) else len(text)
            if number not in sentences:
                sentences[number] = self._scopes(text, begin, close)
            kinds = {kind for kind, scopes in sentences[number].items() if scopes.hold(start, end)}
            section = bisect_right(sections, (start, len(text)))
            if section and start < sections[section - 1][1]:
                kinds.add("family")
            before, after = _line(text, start, end)
            if _ANSWERED_NO.match(after):
                kinds.add("negated")
            asked = text[max(begin, start - LINE) : start], text[end : min(close, end + LINE)]
            if _is_template(before, after) or _is_question(*asked):
                kinds.add("template")
            yield [kind for kind in KINDS if kind in kinds]

    def _scopes(self, text: str, begin: int, end: int) -> dict[str, _Scopes]:
        scopes = {kind: _Scopes([], [], [], []) for kind in self._kinds}
        for first, last, roles in self._find(text[begin:end]):
            for kind, role in roles:
                if role == "next":
                    limit = min(begin + last + REACH, end)
                    clause = _CLAUSE.search(text, begin + last, limit)
                    reach = (begin + last, clause.start() if clause else limit)
                    scopes[kind].next.append(reach)
                else:
                    place = last if role == "before" else first
                    getattr(scopes[kind], role).append(begin + place)
        breaks = [match.start() for match in self._break.finditer(text, begin, end)]
        for scope in scopes.values():
            scope.stop[:] = sorted([*scope.stop, *breaks])
        return scopes

    def _find(self, text: str) -> Iterator[tuple[int, int, _Roles]]:
        """Cues in their order, none in another: "no increase" has no "no" in it."""
        matches = list(_WORD.finditer(text.replace("’", "'")))
        words = [_normal(match[0]) for match in matches]
        i = 0
        while i < len(words):
            for phrase, roles in self._cues.get(words[i], ()):
                end = i + len(phrase)
                if tuple(words[i:end]) == phrase:
                    yield matches[i].start(), matches[end - 1].end(), roles
                    i = end
                    break
            else:
                i += 1

    def _family_sections(self, text: str) -> list[tuple[int, int]]:
        """From a heading such as "Family history:" to the next one, or the paragraph's end."""
        sections = []
        for match in _FAMILY.finditer(text):
            limit = min(match.end() + SECTION, len(text))
            heading = self._heading.search(text, match.end(), limit)
            sections.append((match.end(), heading.start() if heading else limit))
        return sections


def _expand(phrases: Iterable[str], groups: dict[str, list[str]]) -> Iterator[tuple[str, ...]]:
    """The words of phrases, with each word of a group in place of its name."""
    for phrase in phrases:
        names = re.findall(r"{(\w+)}", phrase)
        for values in product(*(groups[name] for name in names)):
            filled = phrase.format(**dict(zip(names, values, strict=True)))
            yield tuple(_normal(word) for word in _WORD.findall(filled))


def _normal(word: str) -> str:
    return word.lower().removesuffix("'s")


# ---- forms ----

# An empty box, and one with a mark in it.
_EMPTY, _TICKED = r"(?:\[[ _]*\]|\([ _]*\)|[☐□◻])", r"(?:\[[xX✓✔]\]|\([xX✓✔]\)|[☑☒■])"
_LAST_BOX = re.compile(rf"({_EMPTY})|{_TICKED}")
# Behind a mention. "Diabetes: ____", three only at the end of a line: MIMIC-IV has ___ in place of
# names and dates. "Diabetes: Y/N", "Diabetes (yes / no)", "Diabetes? [ ] yes [ ] no".
# A blank in a sentence that goes on is a word that nobody understood: "fracture ____ of the hip".
_BLANK = re.compile(
    r"\s*(?:[:=?]\s*_+\s*$|[:=?]\s*_{4,}|_{4,}(?!_*\s*(?-i:[a-z]))"
    r"|[:=?]?\s*\(?\b(?:y|yes)\s*/\s*(?:n|no)\b)",
    re.IGNORECASE,
)
_CHOICE = re.compile(rf"\s*[:=?]?\s*(?:{_EMPTY}|{_TICKED})\s*(?:y|yes|n|no)\b", re.IGNORECASE)
_TICKED_YES = re.compile(rf"{_TICKED}\s*(?:y|yes)\b", re.IGNORECASE)
_ANSWERED_NO = re.compile(
    r"\s*[:=]\s*(?:no|none|neg|negative|denies|denied|absent|nil|n)\s*(?:[.,;(]|$)", re.IGNORECASE
)
# "Do you have, or have you ever had, diabetes?"
_ASKED = re.compile(r"\b(?:do|did|have|are|were) you\b", re.IGNORECASE)


def _line(text: str, start: int, end: int) -> tuple[str, str]:
    """What is before and behind a mention in its line, or the nearest part of that."""
    before = text[max(0, start - LINE) : start].rpartition("\n")[2]
    after = text[end : end + LINE].partition("\n")[0]
    return before, after


def _is_template(before: str, after: str) -> bool:
    """Whether a mention is of a form: beside an empty box, or before a blank or a choice.

    "[ ] Diabetes  [x] Asthma": the last box before a mention is its own. Only where there is none
    may the choice behind it be.
    """
    boxes = list(_LAST_BOX.finditer(before))
    if boxes and not re.search(r"[.;]\s", before[boxes[-1].end() :]):
        return boxes[-1][1] is not None
    if _BLANK.match(after):
        return True
    return bool(_CHOICE.match(after)) and not _TICKED_YES.search(after)


def _is_question(before: str, after: str) -> bool:
    """Whether a mention is in a question to the patient."""
    return bool(_ASKED.search(before)) and "?" in after
