"""Detection of mentions that are not findings of the patient: negated, hypothetical, of the family,
or part of a form that is not filled in.

The rules are those of NegEx and ConText: a cue ("denies", "rule out") applies to the mentions after
it, or before it, in its sentence, up to a word that ends its scope ("but"):

    Denies fever, chills or cough, but has a sore throat.
    ------ ~~~~~  ~~~~~~    ~~~~~  ===

The cues are in `data/context.json`. negspacy implements the same rules, but its run time is
quadratic in the length of a note (18 s for 200,000 characters), the scope of a cue after a mention
begins at the sentence's start, and its terms treat "rule out" and "versus" as negations.

Uncertain mentions ("possible") have no context here. As in ConText, hypothetical mentions are those
that may occur later, or that are looked for ("if", "monitor for", "rule out").
"""

import json
import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from itertools import product
from operator import itemgetter
from typing import NamedTuple, Protocol

from spacy.tokens import Doc

from ..text.sentences import sentence_starts
from ..util.extensions import CONTEXTS
from .concepts import WeakMention

# Kinds of context, in the order of precedence: a mention of several kinds gets the label of the
# first that sets one.
KINDS = CONTEXTS
KEEP, DROP = "keep", "drop"

# Maximum distance of a mention before its cue, in characters: cues rarely apply to mentions farther
# away.
REACH = 40
# Number of characters beside a mention that are searched for boxes and blanks of a form.
LINE = 120
# Maximum length of a section on family history, in characters.
SECTION = 2000


class Context:
    """`spacy_mslm.Context.v1`: keeps, drops or relabels mentions by their context.

    Each argument is "keep", "drop", or a new label, in which {label} stands for the mention's
    label ("Negated{label}"). A mention of several kinds is dropped if one of them is "drop". The
    rules take about 0.1 ms per sentence that has mentions.

    negated: Policy for negated mentions ("no fever").
    hypothetical: Policy for mentions that may occur, or are looked for ("rule out sepsis").
    family: Policy for mentions of relatives ("mother had breast cancer").
    template: Policy for mentions in a form that is not filled in ("[ ] diabetes").
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
                    f"The context {kind} is {policy!r}, but must be 'keep', 'drop', or a label, in "
                    "which {label} stands for the mention's label, such as 'Negated{label}'."
                )
        self._policies = given
        self._rules = ContextRules()

    def __call__(
        self, doc: Doc, mentions: Sequence[WeakMention]
    ) -> tuple[list[WeakMention], Counter[str]]:
        """Apply the policies to the mentions of a document with sentence boundaries.

        Returns the remaining mentions with their labels, in the given order, and the number of
        mentions of each kind before the policies were applied.
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

# A word of a cue, or the plus or minus sign of "(-) fever".
_WORD = re.compile(r"[(\[][-+][)\]]|\w+(?:['/]\w+)*")
# Breaks end every scope: the end of a paragraph, a list item, a heading, or a full stop without a
# space after it.
_HEADING = r"^[ \t]*(?!{relatives})[A-Z][A-Za-z /&,]{{1,40}}:|(?<!\w)[A-Z][A-Z /&]{{2,40}}:"
_BREAK = r"\n\s*\n|\n\s*(?:[-*•]|\d+[.)])\s|(?<=[a-z]{{3}})\.(?=[A-Za-z]{{2}})|{heading}"
# Headings that can be anywhere in a line.
_SECTION = (
    r"(?<!\w)(?i:(?:social|medical|surgical|past) history|review of systems|allergies|medications"
    r"|(?:physical )?exam(?:ination)?|impression|assessment|plan)\s*:"
)
# Ends the scope of a cue that applies to the next mention only: "pain p.r.n., aspirin daily".
_CLAUSE = re.compile(r"[,;:\n]")
_FAMILY = re.compile(r"\b(?:family (?:medical )?(?:history|hx)|fhx?)\s*:", re.IGNORECASE)

# The roles of a cue: kinds, each with a field of its _Scopes.
_Roles = list[tuple[str, str]]


class _Scopes(NamedTuple):
    """The cues of one kind in a sentence, as sorted character offsets.

    before: Ends of cues that apply to mentions after them.
    after: Starts of cues that apply to mentions before them.
    stop: Offsets across which no cue applies.
    next: Ranges in which cues apply that are for the next mention only.
    """

    before: list[int]
    after: list[int]
    stop: list[int]
    next: list[tuple[int, int]]

    def hold(self, start: int, end: int) -> bool:
        """Return whether a cue applies to the characters `start:end`."""
        cue, stop = bisect_right(self.before, start), bisect_right(self.stop, start)
        if cue and (not stop or self.before[cue - 1] > self.stop[stop - 1]):
            return True
        cue = bisect_right(self.next, start, key=itemgetter(0))
        if cue and start < self.next[cue - 1][1]:
            return True
        cue, stop = bisect_left(self.after, end), bisect_left(self.stop, end)
        limit = min([end + REACH, *self.stop[stop : stop + 1]])
        return cue < len(self.after) and self.after[cue] < limit


class TokenRange(Protocol):
    """A mention at tokens `start:end` of a document: a `WeakMention`, or a `Span`."""

    @property
    def start(self) -> int:
        """The first token."""
        ...

    @property
    def end(self) -> int:
        """The token after the last."""
        ...


class ContextRules:
    """Finds the kinds of context of mentions."""

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

    def __call__(self, doc: Doc, mentions: Sequence[TokenRange]) -> Iterator[list[str]]:
        """Yield the kinds of each mention, in the order of KINDS."""
        if not mentions:
            return
        text = doc.text
        firsts = sentence_starts(doc).tolist()
        sections = self._family_sections(text)
        sentences: dict[int, dict[str, _Scopes]] = {}
        for mention in mentions:
            start, end = doc[mention.start].idx, doc[mention.start : mention.end].end_char
            number = bisect_right(firsts, mention.start)
            begin = doc[firsts[number - 1]].idx
            close = doc[firsts[number]].idx if number < len(firsts) else len(text)
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
        """Yield the cues of a text, without overlaps: the cue "no increase" hides the cue "no"."""
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
        """Return the ranges from a heading such as "Family history:" to the next heading, or to the
        end of the paragraph."""
        sections = []
        for match in _FAMILY.finditer(text):
            limit = min(match.end() + SECTION, len(text))
            heading = self._heading.search(text, match.end(), limit)
            sections.append((match.end(), heading.start() if heading else limit))
        return sections


def _expand(phrases: Iterable[str], groups: dict[str, list[str]]) -> Iterator[tuple[str, ...]]:
    """Yield the words of phrases, with the name of a group replaced by each of its words."""
    for phrase in phrases:
        names = re.findall(r"{(\w+)}", phrase)
        for values in product(*(groups[name] for name in names)):
            filled = phrase.format(**dict(zip(names, values, strict=True)))
            yield tuple(_normal(word) for word in _WORD.findall(filled))


def _normal(word: str) -> str:
    return word.lower().removesuffix("'s")


# ---- forms ----

# An empty box, and a ticked one.
_EMPTY, _TICKED = r"(?:\[[ _]*\]|\([ _]*\)|[☐□◻])", r"(?:\[[xX✓✔]\]|\([xX✓✔]\)|[☑☒■])"
_LAST_BOX = re.compile(rf"({_EMPTY})|{_TICKED}")
# After a mention: "Diabetes: ____", "Diabetes: Y/N", "Diabetes (yes / no)", "Diabetes? [ ] yes".
# Three underscores count at the end of a line only: MIMIC-IV has ___ in place of names and dates.
# A blank inside a sentence is a word that was not understood: "fracture ____ of the hip".
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
    """Return the text before and after a mention in its line, at most LINE characters of each."""
    before = text[max(0, start - LINE) : start].rpartition("\n")[2]
    after = text[end : end + LINE].partition("\n")[0]
    return before, after


def _is_template(before: str, after: str) -> bool:
    """Return whether a mention is in a form that is not filled in: beside an empty box, or before a
    blank or a choice.

    "[ ] Diabetes  [x] Asthma": the last box before a mention belongs to it. The text after the
    mention counts only if there is no box before it.
    """
    boxes = list(_LAST_BOX.finditer(before))
    if boxes and not re.search(r"[.;]\s", before[boxes[-1].end() :]):
        return boxes[-1][1] is not None
    if _BLANK.match(after):
        return True
    return bool(_CHOICE.match(after)) and not _TICKED_YES.search(after)


def _is_question(before: str, after: str) -> bool:
    """Return whether a mention is in a question to the patient."""
    return bool(_ASKED.search(before)) and "?" in after
