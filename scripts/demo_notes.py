"""Write the demo's data: clinical notes in the schema of MIMIC's NOTEEVENTS, a terminology, and
annotated notes to choose and to score by.

    python scripts/demo_notes.py assets/demo
        notes.csv               notes that nobody has annotated
        terms.tsv               a terminology that knows most of their terms, but not all
        dev.jsonl, test.jsonl   notes with the entities at their offsets

A seeded generator over our own word lists: nothing here is anybody's data. The notes have sections,
abbreviations, negations, doses and typing errors. Some terms are not in the terminology, nor in the
first quarter of the notes, which is what training sees with labels: a model can find them, a list
of names cannot. It shows that everything works, not how well: for figures on real text see the
README.
"""

import csv
import io
import json
import random
import re
import sys
from pathlib import Path

from spacy_mslm.files import replace_files

WORDS = {
    "grades": ["acute", "chronic", "severe", "mild", "recurrent", "bilateral"],
    "sites": ["renal", "hepatic", "cardiac", "gastric", "pulmonary", "retinal", "spinal", "aortic"],
    "heads": ["failure", "stenosis", "carcinoma", "fibrosis", "abscess", "neuropathy"],
    "plain": ["asthma", "diabetes", "hypertension", "anaemia", "sepsis", "migraine", "psoriasis"],
    "short": ["CHF", "COPD", "DVT", "UTI", "AKI"],
    "stems": ["amoxi", "flucon", "meto", "ator", "cef", "riva", "dapa", "tace", "losa"],
    "endings": ["cillin", "azole", "prolol", "vastatin", "roxaban", "gliflozin", "prazole"],
}
# So many of the last of each list are held out.
HELD_OUT = {"sites": 1, "heads": 1, "plain": 1, "short": 1, "stems": 2}
KNOWN = {name: words[: len(words) - HELD_OUT.get(name, 0)] for name, words in WORDS.items()}
SECTIONS = {
    "CHIEF COMPLAINT": ["{D}", "Worsening {D}", "r/o {D}", "{D} x 3 days"],
    "HISTORY OF PRESENT ILLNESS": [
        "The patient is a {age} year old {sex} admitted with {D}.",
        "{He} has a history of {D} and {D}.",
        "Pt c/o fatigue, denies {D}.",
        "There was no evidence of {D} on examination.",
        "{He} developed {D} after two doses of {C}.",
        "{D} was treated with {C}, which was well tolerated.",
        "Symptoms began two days ago; no fever or chills.",
        "Family history is positive for {D} in the mother.",
    ],
    "MEDICATIONS ON ADMISSION": [
        "{C} {dose} mg PO daily",
        "{C} {dose} mg PO BID prn",
        "{C} ({dose} mg) was held on admission.",
        "No known drug allergies.",
    ],
    "HOSPITAL COURSE": [
        "We stopped {C} and continued {C} {dose} mg daily.",
        "{C} was started for {D}.",
        "The dose of {C} was doubled on day {n}.",
        "Blood pressure was 1{n}0/80 and the pulse was regular.",
        "CT showed {D} without {D}.",
        "s/p IV {C}, {D} resolved.",
        "The family asked about discharge on Friday.",
    ],
    "PLAN": [
        "Continue {C} {dose} mg; follow up in {n} weeks.",
        "Monitor for {D}.",
        "If {D} recurs, restart {C}.",
        "Follow up in {n} weeks with the same clinic.",
    ],
}
CATEGORIES = ["Discharge summary", "Physician ", "Nursing"]  # MIMIC pads some of them
COLUMNS = (
    *("ROW_ID", "SUBJECT_ID", "HADM_ID", "CHARTDATE", "CHARTTIME", "STORETIME"),
    *("CATEGORY", "DESCRIPTION", "CGID", "ISERROR", "TEXT"),
)
LABELS = {"D": "Disease", "C": "Chemical"}
NOTES, DEV, TEST = 400, 40, 80
TYPOS = 0.02

Words = dict[str, list[str]]
Note = tuple[str, list[tuple[int, int, str]]]  # text, and its mentions


def disease(rng: random.Random, words: Words) -> str:
    kind = rng.choice(["plain", "short", "pair", "pair", "graded"])
    if kind in words:
        return rng.choice(words[kind])
    pair = f"{rng.choice(words['sites'])} {rng.choice(words['heads'])}"
    return pair if kind == "pair" else f"{rng.choice(words['grades'])} {pair}"


def chemical(rng: random.Random, words: Words) -> str:
    return rng.choice(words["stems"]) + rng.choice(words["endings"])


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
        if part in ("{D}", "{C}"):
            name = disease(rng, words) if slot == "D" else chemical(rng, words)
            name = misspell(rng, name[0].upper() + name[1:] if not text else name)
            mentions.append((len(text), len(text) + len(name), LABELS[slot]))
            text += name
        else:
            text += values[slot] if part.startswith("{") else misspell(rng, part)
    return text, mentions


def misspell(rng: random.Random, text: str) -> str:
    """Swap two letters inside of a word, now and then."""

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
    drugs = [stem + ending for stem in KNOWN["stems"] for ending in KNOWN["endings"]]
    diseases = [*KNOWN["plain"], *KNOWN["short"], *pairs, *graded]
    return [(name, "Disease") for name in diseases] + [(name, "Chemical") for name in drugs]


def notes_csv(rng: random.Random) -> str:
    file = io.StringIO()
    writer = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow(COLUMNS)
    for i in range(NOTES):
        date = f"21{rng.randint(10, 99)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
        text, _ = note(rng, KNOWN if i < NOTES / 4 else WORDS)
        identity = (i + 1, 10_000 + rng.randrange(200), 100_000 + i, date, "", "")
        writer.writerow((*identity, rng.choice(CATEGORIES), "Report", "", "", text))
    return file.getvalue()


def gold_jsonl(rng: random.Random, size: int, prefix: str) -> str:
    records = []
    for i in range(size):
        text, mentions = note(rng, WORDS)
        records.append(json.dumps({"id": f"{prefix}-{i}", "text": text, "entities": mentions}))
    return "\n".join(records) + "\n"


def main(folder: Path) -> None:
    rng = random.Random(0)
    rows = [f"{name}\tDEMO:{i}\tdemo\t{label}" for i, (name, label) in enumerate(terms())]
    files = {
        "terms.tsv": "\n".join(["term\tid\tsource\tsemantic_type", *rows]) + "\n",
        "notes.csv": notes_csv(rng),
        "dev.jsonl": gold_jsonl(rng, DEV, "dev"),
        "test.jsonl": gold_jsonl(rng, TEST, "test"),
    }
    replace_files({folder / name: text.encode("utf8") for name, text in files.items()})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
