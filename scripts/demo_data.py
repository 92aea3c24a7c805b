"""Write the demo corpus: short clinical sentences with Disease and Chemical mentions, in IOB2, and
more such sentences without labels.

A seeded generator over our own word lists, so that the demo runs with no data of anybody's. Some
mentions stand only in the test set and in the text without labels. It shows that the pipeline
works, not how well: for figures on real text see the README.

    python scripts/demo_data.py assets/demo
"""

import random
import sys
from pathlib import Path

HEADS = [
    "failure",
    "stenosis",
    "carcinoma",
    "fibrosis",
    "oedema",
    "infarction",
    "neuropathy",
    "abscess",
]
SITES = ["renal", "hepatic", "cardiac", "gastric", "pulmonary", "retinal", "aortic", "spinal"]
GRADES = ["acute", "chronic", "severe", "mild", "recurrent", "bilateral"]
PLAIN = [
    "asthma",
    "diabetes",
    "hypertension",
    "anaemia",
    "sepsis",
    "migraine",
    "psoriasis",
    "gout",
    "epilepsy",
]
STEMS = ["amoxi", "flucon", "meto", "ator", "cef", "riva", "dapa", "ome", "tace", "losa"]
ENDINGS = [
    "cillin",
    "azole",
    "prolol",
    "vastatin",
    "triaxone",
    "roxaban",
    "gliflozin",
    "prazole",
    "tidine",
    "sartan",
]
TEMPLATES = [
    "The patient was admitted with {D} .",
    "She has a history of {D} and {D} .",
    "There was no evidence of {D} on examination .",
    "{C} was started for {D} .",
    "He developed {D} after two doses of {C} .",
    "We stopped {C} and continued {C} 20 mg daily .",
    "Family history is positive for {D} in the mother .",
    "{D} was treated with {C} , which was well tolerated .",
    "The dose of {C} was doubled on day three .",
    "Follow up in two weeks with the same clinic .",
    "Blood pressure was 130 / 80 and the pulse was regular .",
    "The family asked about discharge on Friday .",
]
SPLITS = {"train": 600, "dev": 120, "test": 120}
UNLABELLED = 1000


def disease(rng: random.Random, held_out: bool) -> list[str]:
    if rng.random() < 0.4:
        return [rng.choice(PLAIN if held_out else PLAIN[:-2])]
    head = rng.choice(HEADS if held_out else HEADS[:-1])
    words = [rng.choice(SITES if held_out else SITES[:-1]), head]
    return [rng.choice(GRADES), *words] if rng.random() < 0.5 else words


def chemical(rng: random.Random, held_out: bool) -> list[str]:
    stems = STEMS if held_out else STEMS[:-2]
    return [rng.choice(stems) + rng.choice(ENDINGS)]


def sentence(rng: random.Random, held_out: bool) -> list[tuple[str, str]]:
    """Tokens with IOB2 tags."""
    tagged: list[tuple[str, str]] = []
    for word in rng.choice(TEMPLATES).split():
        if word in ("{D}", "{C}"):
            make, label = (disease, "Disease") if word == "{D}" else (chemical, "Chemical")
            for i, part in enumerate(make(rng, held_out)):
                tagged.append((part, f"{'I' if i else 'B'}-{label}"))
        else:
            tagged.append((word, "O"))
    first, tag = tagged[0]
    return [(first[:1].upper() + first[1:], tag), *tagged[1:]]


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(0)
    seen: set[str] = set()
    for split, size in SPLITS.items():
        blocks = []
        while len(blocks) < size:
            tokens = sentence(rng, held_out=split == "test")
            text = " ".join(word for word, _ in tokens)
            # Mention-free templates repeat within a split, but never across splits.
            if split == "train" or text not in seen:
                blocks.append("\n".join(f"{word}\t{tag}" for word, tag in tokens))
                seen.add(text)
        (folder / f"{split}.tsv").write_text("\n\n".join(blocks) + "\n", encoding="utf8")
    lines: list[str] = []
    while len(lines) < UNLABELLED:
        text = " ".join(word for word, _ in sentence(rng, held_out=True))
        if text not in seen:
            lines.append(text)
    (folder / "text.txt").write_text("\n".join(lines) + "\n", encoding="utf8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
