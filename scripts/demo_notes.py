"""Write the data of the demo: clinical notes in the schema of MIMIC's NOTEEVENTS, a terminology
and annotated notes for development and testing.

    python scripts/demo_notes.py assets/demo
        notes.csv               notes, for weak supervision
        truth.jsonl             the same notes with their true entities
        terms.tsv, patterns.tsv a terminology that has most of their terms, and patterns
        text.jsonl              more notes, without labels
        dev.jsonl, test.jsonl   notes with their entities

The notes are generated at random (with a fixed seed) from our own word lists and contain no data of
any person. They have sections, abbreviations, negations, doses, typing errors, marks of
de-identification, and words that are terms in other contexts ("ST depression"). Some terms are not
in the terminology, so a list of names cannot find them. The demo shows that everything works, not
how well; see the README for results on real text.
"""

import csv
import io
import json
import random
import re
import sys
from pathlib import Path

from spacy_mslm.util.files import replace_files

WORDS = {
    "grades": ["acute", "chronic", "severe", "mild", "recurrent", "bilateral"],
    "sites": ["renal", "hepatic", "cardiac", "gastric", "pulmonary", "retinal", "spinal", "aortic"],
    "heads": ["failure", "stenosis", "carcinoma", "fibrosis", "abscess", "neuropathy"],
    "plain": ["asthma", "diabetes", "hypertension", "anaemia", "sepsis", "migraine", "psoriasis"],
    "short": ["CHF", "COPD", "DVT", "UTI", "AKI"],
    "symptoms": [
        *("fever", "cough", "nausea", "dizziness", "fatigue", "headache", "chest pain", "anxiety"),
        *("shortness of breath", "depression", "palpitations", "night sweats"),
    ],
    "stems": ["amoxi", "flucon", "meto", "ator", "cef", "riva", "dapa", "tace", "losa"],
    "endings": ["cillin", "azole", "prolol", "vastatin", "roxaban", "gliflozin", "prazole"],
}
# The last words of each list, this many, are not in the terminology.
HELD_OUT = {"sites": 1, "heads": 1, "plain": 1, "short": 1, "symptoms": 2, "stems": 2}
KNOWN = {name: words[: len(words) - HELD_OUT.get(name, 0)] for name, words in WORDS.items()}
SECTIONS = {
    "CHIEF COMPLAINT": ["{D}", "Worsening {S}", "r/o {D}", "{S} x 3 days", "{S} and {S}"],
    "HISTORY OF PRESENT ILLNESS": [
        "The patient is a {age} year old {sex} admitted to [**Hospital1 {n}**] with {D}.",
        "{He} has a history of {D} and {D}.",
        "Pt c/o {S}, denies {S} or {S}.",
        "There was no evidence of {D} on examination.",
        "{He} developed {S} after two doses of {T}.",
        "{D} was treated with {T}, which was well tolerated.",
        "Symptoms began two days ago, seen by Dr. [**Last Name (STitle) {age}**] for {S}.",
        "Family history is positive for {D} in the mother.",
        'Describes the pain as "dull"; no {S}.',
    ],
    "MEDICATIONS ON ADMISSION": [
        "{T} {dose} mg PO daily",
        "{T} {dose} mg PO BID prn {S}",
        "{T} ({dose} mg) was held on admission.",
        "No known drug allergies.",
    ],
    "HOSPITAL COURSE": [
        "We stopped {T} and continued {T} {dose} mg daily.",
        "{T} was started for {D}.",
        "The dose of {T} was doubled on [**21{age}-{n}-1{n}**].",
        "Blood pressure was 1{n}0/80 and the pulse was regular.",
        "ECG showed ST depression in leads V{n} to V6.",
        "CT showed {D} without {D}.",
        "s/p IV {T}, {D} resolved.",
        "The family asked about discharge on Friday.",
    ],
    "PLAN": [
        "Continue {T} {dose} mg; follow up in {n} weeks.",
        "Monitor for {D}.",
        "Return if {S} recurs; restart {T}.",
        "Follow up in {n} weeks at the [**Asthma Clinic {n}**].",
        "Fever curve to be kept by the nurse.",
    ],
}
CATEGORIES = ["Discharge summary", "Physician ", "Nursing"]  # MIMIC pads some of them
COLUMNS = (
    *("ROW_ID", "SUBJECT_ID", "HADM_ID", "CHARTDATE", "CHARTTIME", "STORETIME"),
    *("CATEGORY", "DESCRIPTION", "CGID", "ISERROR", "TEXT"),
)
LABELS = {"D": "Disease", "S": "Symptom", "T": "Treatment"}
TYPES = {"Disease": "T047", "Symptom": "T184", "Treatment": "T121"}
PATTERNS = """# What all drugs of a class end in.
T121\t(?i)\\b[a-z]{3,8}(?:cillin|azole|prolol|vastatin|roxaban|gliflozin|prazole)\\b
T184\t(?i)\\bnight sweats?\\b
"""
NOTES, PATIENTS, UNLABELLED, DEV, TEST = 150, 80, 300, 40, 80
TYPOS = 0.02

Words = dict[str, list[str]]
Note = tuple[str, list[tuple[int, int, str]]]  # text, and its mentions


def disease(rng: random.Random, words: Words) -> str:
    kind = rng.choice(["plain", "short", "pair", "pair", "graded"])
    if kind in words:
        return rng.choice(words[kind])
    pair = f"{rng.choice(words['sites'])} {rng.choice(words['heads'])}"
    return pair if kind == "pair" else f"{rng.choice(words['grades'])} {pair}"


def symptom(rng: random.Random, words: Words) -> str:
    return rng.choice(words["symptoms"])


def treatment(rng: random.Random, words: Words) -> str:
    return rng.choice(words["stems"]) + rng.choice(words["endings"])


NAMES = {"D": disease, "S": symptom, "T": treatment}


def sentence(rng: random.Random, words: Words, template: str) -> Note:
    values = {
        "age": str(rng.randint(30, 90)),
        "sex": rng.choice(["man", "woman"]),
        "He": rng.choice(["He", "She", "The patient"]),
        "dose": rng.choice(["5", "20", "40", "100"]),
        "n": str(rng.randint(2, 6)),
    }
    text, mentions = "", []
    for part in re.split(r"(\{\w+\})", template):
        slot = part.strip("{}")
        if slot in NAMES and part != slot:
            name = NAMES[slot](rng, words)
            name = misspell(rng, name[0].upper() + name[1:] if not text else name)
            mentions.append((len(text), len(text) + len(name), LABELS[slot]))
            text += name
        else:
            text += values[slot] if part.startswith("{") else misspell(rng, part)
    return text, mentions


def misspell(rng: random.Random, text: str) -> str:
    """Swap two letters inside of a word, at random."""

    def swap(match: re.Match) -> str:
        word = match[0]
        if rng.random() >= TYPOS:
            return word
        i = rng.randrange(1, len(word) - 2)
        return word[:i] + word[i + 1] + word[i] + word[i + 2 :]

    return re.sub(r"[a-z]{5,}", swap, text)


def note(rng: random.Random, words: Words) -> Note:
    text, mentions = "", []
    for title, templates in SECTIONS.items():
        text += f"{title}:\n"
        for template in rng.sample(templates, rng.randint(1, 3)):
            line, found = sentence(rng, words, template)
            mentions += [(len(text) + start, len(text) + end, label) for start, end, label in found]
            text += line + "\n"
        text += "\n"
    return text, mentions


def terms() -> list[tuple[str, str]]:
    pairs = [f"{site} {head}" for site in KNOWN["sites"] for head in KNOWN["heads"]]
    graded = [f"{grade} {pair}" for grade in KNOWN["grades"] for pair in pairs]
    names = {
        "Disease": [*KNOWN["plain"], *KNOWN["short"], *pairs, *graded],
        "Symptom": KNOWN["symptoms"],
        "Treatment": [stem + ending for stem in KNOWN["stems"] for ending in KNOWN["endings"]],
    }
    return [(name, TYPES[label]) for label, listed in names.items() for name in listed]


def notes_csv(notes: list[Note], rng: random.Random) -> str:
    """Return the notes as CSV, with two more records: one is marked as an error, one is empty."""
    file = io.StringIO()
    writer = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow(COLUMNS)
    texts = [(text, "") for text, _ in notes]
    for i, (text, error) in enumerate([*texts, (texts[0][0], 1), (" ", "")]):
        date = f"21{rng.randint(10, 99)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
        identity = (i + 1, 10_000 + rng.randrange(PATIENTS), 100_000 + i, date, "", "")
        writer.writerow((*identity, rng.choice(CATEGORIES), "Report", "", error, text))
    return file.getvalue()


def jsonl(notes: list[Note], prefix: str) -> str:
    records = [
        json.dumps({"id": f"{prefix}{i}", "text": text, "entities": mentions})
        for i, (text, mentions) in enumerate(notes, start=1)
    ]
    return "\n".join(records) + "\n"


def main(folder: Path) -> None:
    rng = random.Random(0)
    rows = [f"{name}\tDEMO:{i}\tdemo\t{type_}" for i, (name, type_) in enumerate(terms())]
    notes, unlabelled, dev, test = (
        [note(rng, WORDS) for _ in range(size)] for size in (NOTES, UNLABELLED, DEV, TEST)
    )
    files = {
        "terms.tsv": "\n".join(["term\tid\tsource\tsemantic_type", *rows]) + "\n",
        "patterns.tsv": PATTERNS,
        "notes.csv": notes_csv(notes, rng),
        "truth.jsonl": jsonl(notes, ""),
        "text.jsonl": "".join(json.dumps({"text": text}) + "\n" for text, _ in unlabelled),
        "dev.jsonl": jsonl(dev, "dev-"),
        "test.jsonl": jsonl(test, "test-"),
    }
    replace_files({folder / name: text.encode("utf8") for name, text in files.items()})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
