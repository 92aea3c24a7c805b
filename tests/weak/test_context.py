"""Contexts of mentions: cues, their scopes, forms, and the policies."""

import json
import time
from collections import Counter
from importlib.resources import files

import numpy as np
import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.tokens import Doc

from spacy_mslm.text.sentences import sentence_starts
from spacy_mslm.weak.concepts import WeakMention
from spacy_mslm.weak.context import KINDS, Context, _expand

NLP = spacy.blank("en")
NLP.max_length = 10_000_000


def make_doc(text: str) -> Doc:
    doc = NLP.make_doc(text)
    # All at once: the setter of a token loops over the whole Doc.
    starts = np.full((len(doc), 1), -1)
    starts[sentence_starts(doc)[: len(doc)]] = 1
    return doc.from_array(["SENT_START"], starts.astype(np.uint64))


def marked(text: str) -> tuple[Doc, list[WeakMention]]:
    """Return a Doc, and a mention for each part of the text in {braces}."""
    pieces, spans, at = [], [], 0
    for i, piece in enumerate(text.replace("}", "{").split("{")):
        pieces.append(piece)
        if i % 2:
            spans.append((at, at + len(piece)))
        at += len(piece)
    doc = make_doc("".join(pieces))
    mentions = []
    for start, end in spans:
        span = doc.char_span(start, end)
        assert span is not None, "a test's mention must be of whole tokens"
        mentions.append(WeakMention(span.start, span.end, "X", "C1", "s", 1.0))
    return doc, mentions


def kinds(text: str) -> list[str]:
    """Return the kinds of each mention, such as "family negated"."""
    found = []
    doc, mentions = marked(text)
    for mention in mentions:
        _, counts = Context()(doc, [mention])
        found.append(" ".join(kind for kind in sorted(KINDS) if counts[kind]))
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # A cue before the mention, and the end of its scope.
        ("No {fever}, {chills} or {cough}.", ["negated"] * 3),
        ("Denies {fever}, but has a {cough}.", ["negated", ""]),
        ("The patient has {asthma} and no {fever}.", ["", "negated"]),
        ("No {fever}. Has {cough}.", ["negated", ""]),
        ("She doesn't have {asthma}.", ["negated"]),
        ("She doesn’t have {asthma}.", ["negated"]),
        ("NO EVIDENCE OF {PNEUMONIA}.", ["negated"]),
        ("(-) {fever}, (+) {cough}", ["negated", ""]),
        ("Denies {fever}; reports {cough}.", ["negated", ""]),
        ("No {fever}\n\n{Asthma}", ["negated", ""]),
        ("no {fever}\n- {asthma}", ["negated", ""]),
        ("no {fever}\nAssessment: {asthma}", ["negated", ""]),
        ("No {fever},\n{cough} or {chills}", ["negated"] * 3),
        ("No {fever} today.urology, {kidney stone}", ["negated", ""]),
        ("He had no {aspirin} left, so we wrote for {Plavix}.", ["negated", ""]),
        # A cue after the mention, with a short scope.
        ("{PE} was ruled out.", ["negated"]),
        ("{Effusion} is not seen.", ["negated"]),
        ("{Fever} and a cough that came with it for several days; {PE} unlikely.", ["", "negated"]),
        ("{Asthma}, but {PE} was ruled out.", ["", "negated"]),
        ("{Fever}: no", ["negated"]),
        ("{Fever}: none.", ["negated"]),
        ("{Hypertension}: no changes to the regimen", [""]),
        # Words of cues that are not cues here.
        ("No increase in {edema}.", [""]),
        ("Not only {fever} but {cough}.", ["", ""]),
        ("Gram negative {sepsis}.", [""]),
        ("Cannot rule out {pneumonia}.", [""]),
        ("No change and no {effusion}.", ["negated"]),
        ("She is not feeling well, {nausea}, no {fever}.", ["", "negated"]),
        ("Not clear whether it is {gout}; not responsive to {aspirin}.", ["", ""]),
        ("No {infection} since he has been on {Proscar}.", ["negated", ""]),
        ("She can no longer bend and her {back pain} is severe.", [""]),
        ("No increase without {effusion}.", ["negated"]),  # negspacy: not negated
        ("Risks include, but are not limited to, {infection}.", ["hypothetical"]),
        ("{Sleep apnea} versus {asthma}.", ["", ""]),
        ("Possible {pneumonia}.", [""]),
        # Hypothetical.
        ("Return if {fever} or {bleeding} occurs.", ["hypothetical"] * 2),
        ("CT to rule out {appendicitis}.", ["hypothetical"]),
        ("R/o {MI}.", ["hypothetical"]),
        ("Monitor for {bleeding}.", ["hypothetical"]),
        ("Oxycodone prn {pain}.", ["hypothetical"]),
        ("Tylenol as needed for {pain} or {fever}, {aspirin} daily.", [*["hypothetical"] * 2, ""]),
        ("{Norco} q.4h. p.r.n., {atenolol} 50 mg daily.", ["", ""]),
        ("Atarax p.r.n. and {Elocon} daily. {Drug} screen positive.", ["", ""]),
        ("A man with signs and symptoms of {gout}.", [""]),
        ("Watch for signs and symptoms of {gout}.", ["hypothetical"]),
        ("{Seizure} precautions.", ["hypothetical"]),
        ("She does not know if it is {gout}.", ["negated"]),
        # Family.
        ("Mother had {breast cancer}.", ["family"]),
        ("Family history of {diabetes}.", ["family"]),
        ("No family history of {diabetes}.", ["family negated"]),
        ("{Breast cancer} in her mother.", ["family"]),
        ("Mother's {asthma} is mild; patient has {gout}.", ["family", ""]),
        ("Mother reports {fever}.", [""]),
        ("Mother denies {fever}.", ["negated"]),
        ("Parents were told to use {aspirin}.", [""]),
        ("Mother and baby are well after {preeclampsia}.", [""]),
        ("A family history of {gout} and a personal history of {asthma}.", ["family", ""]),
        ("Family History: {Gout} Social History: {alcoholism}", ["family", ""]),
        ("FHX: {Gout} in his family.SHX: {alcoholism}.", ["family", ""]),
        ("{Fever} according to the patient's daughter, with {cough}.", ["", ""]),
        ("Family History:\nMother: {asthma}\n{Stroke}\nSocial History: {alcoholism}", [
            "family", "family", ""
        ]),
        ("SH: none.FAMILY HISTORY: {Stroke}. {Gout}.EXAM: {edema}", ["family", "family", ""]),
        # Forms.
        ("[ ] {diabetes}  [x] {asthma}  [ ] {stroke}", ["template", "", "template"]),
        ("☐ {diabetes} ☑ {asthma}", ["template", ""]),
        ("( ) history of {diabetes}", ["template"]),
        ("{Diabetes}: ____", ["template"]),
        ("{Diabetes}: ___\n", ["template"]),
        ("{Pneumonia}: ___ started vancomycin", [""]),  # MIMIC-IV's mark of a removed date
        ("{Diabetes} ____  {Asthma} ____", ["template"] * 2),
        ("{Contusion} ______ of the femoral condyle.", [""]),  # what was not understood
        ("{Diabetes} (Y/N)", ["template"]),
        ("{Diabetes}: yes / no", ["template"]),
        ("{Diabetes}? [ ] yes [ ] no", ["template"]),
        ("{Diabetes}? [x] yes [ ] no", [""]),
        ("{Diabetes}? [ ] yes [x] no", ["template"]),
        ("Have you ever had {asthma}?", ["template"]),
        ("[ ] seen. Has {asthma}", [""]),
    ],
)  # fmt: skip
def test_kinds(text: str, expected: list[str]) -> None:
    assert kinds(text) == expected


def test_a_cue_inside_of_a_mention_is_none() -> None:
    doc, mentions = marked("{no reflow phenomenon} was treated")
    assert Context()(doc, mentions) == (mentions, Counter())


TEXT = "No {fever}. Rule out {MI}. Mother had {gout}.\n\n[ ] {asthma}\n\nHas {cough}."


def test_keeping_is_the_default_and_still_counts() -> None:
    doc, mentions = marked(TEXT)
    kept, counts = Context()(doc, mentions)
    assert kept == mentions
    assert counts == {"negated": 1, "hypothetical": 1, "family": 1, "template": 1}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_can_be_dropped_and_labelled(kind: str) -> None:
    doc, mentions = marked(TEXT)
    place = ["negated", "hypothetical", "family", "template"].index(kind)
    dropped, counts = Context(**{kind: "drop"})(doc, mentions)
    assert dropped == mentions[:place] + mentions[place + 1 :]
    assert counts[kind] == 1
    for policy, label in (("No{label}", "NoX"), ("Other", "Other")):
        labelled, _ = Context(**{kind: policy})(doc, mentions)
        assert labelled[place] == mentions[place]._replace(label=label)
        assert [m.label for m in labelled if m.label != "X"] == [label]


def test_a_mention_of_two_kinds() -> None:
    doc, mentions = marked("No family history of {gout}.")
    assert Context(family="drop", negated="Not{label}")(doc, mentions)[0] == []
    assert Context(negated="drop", family="Of{label}")(doc, mentions)[0] == []
    (both,), counts = Context(family="Of{label}", negated="Not{label}")(doc, mentions)
    assert both.label == "OfX" and counts == {"family": 1, "negated": 1}
    assert Context(negated="Not{label}")(doc, mentions)[0][0].label == "NotX"


@pytest.mark.parametrize("policy", ["", " ", "Keep", "DROP", "Not{Label}", "Not{label", "{}"])
def test_a_wrong_policy_is_told(policy: str) -> None:
    with pytest.raises(ValueError, match=r"The context family is .*'keep', 'drop', or a label"):
        Context(family=policy)


def test_the_document_stays_as_it_was() -> None:
    doc, mentions = marked(TEXT)
    before = doc.to_bytes()
    Context(negated="drop")(doc, mentions)
    assert doc.to_bytes() == before


def test_no_mentions() -> None:
    assert Context()(make_doc(""), []) == ([], Counter())
    assert Context()(make_doc("No fever."), []) == ([], Counter())


def test_mentions_keep_their_order_and_may_overlap_or_cross_sentences() -> None:
    doc = make_doc("No fever. Has cough. No gout.")
    spans = [(8, 9), (1, 2), (1, 5), (0, 9)]
    mentions = [WeakMention(start, end, "X", "", "s", 1.0) for start, end in spans]
    kept, counts = Context()(doc, mentions)
    assert kept == mentions and counts == {"negated": 3}


def test_every_phrase_of_the_table_is_found() -> None:
    """Each applies to a mention, unless it is neutral or ends a scope; none is listed twice."""
    data = json.loads((files("spacy_mslm") / "data/context.json").read_text("utf8"))
    context = Context()
    for kind in ("negated", "hypothetical", "family"):
        for role in ("before", "after", "next", "stop"):
            phrases = data[kind].get(role, [])
            assert len(set(phrases)) == len(phrases) and phrases == [p.lower() for p in phrases]
        for role in ("before", "after", "next"):
            for words in _expand(data[kind].get(role, []), data["groups"]):
                cue = " ".join(words)
                text = f"{{gout}} {cue}" if role == "after" else f"{cue} {{gout}}"
                doc, mentions = marked(text)
                assert context(doc, mentions)[1][kind] == 1, text
    for words in _expand(data["neutral"], data["groups"]):
        doc, mentions = marked(f"{' '.join(words)} {{gout}}")
        assert context(doc, mentions)[1] == {}, words


@given(st.lists(st.sampled_from([
    "no", "if", "mother", "but", "[ ]", "gout", "\n\n", ".", "ruled out", "FAMILY HISTORY:", "___:",
])))  # fmt: skip
@settings(deadline=None)
def test_whatever_the_text(parts: list[str]) -> None:
    doc = make_doc(" ".join(parts))
    mentions = [WeakMention(t.i, t.i + 1, "X", "", "s", 1.0) for t in doc if t.text == "gout"]
    kept, counts = Context()(doc, mentions)
    assert kept == mentions
    assert all(counts[kind] <= len(mentions) for kind in counts) and set(counts) <= set(KINDS)
    dropped, _ = Context(*["drop"] * 4)(doc, mentions)
    assert len(mentions) - counts.total() <= len(dropped) <= len(mentions)
    assert [m for m in mentions if m in dropped] == dropped


@pytest.mark.parametrize(
    "sentence",
    [
        "No fever, denies gout but has gout if gout. ",
        "no gout ",  # never ends
        "prn gout ",
        "fh: gout ",
        "[ ] gout ",
        "\n ",
    ],
)
def test_time_grows_with_the_length_only(sentence: str) -> None:
    """Four times the text takes about four times as long: 16 times if it were quadratic. The floor
    keeps the noise of a busy machine out."""

    def seconds(length: int) -> float:
        doc = make_doc(sentence * (length // len(sentence)))
        mentions = [WeakMention(t.i, t.i + 1, "X", "", "s", 1.0) for t in doc if t.text == "gout"]
        began = time.process_time()
        kept, _ = Context()(doc, mentions)
        taken = time.process_time() - began
        assert kept == mentions
        return taken

    assert seconds(400_000) < 10 * max(seconds(100_000), 0.3)
