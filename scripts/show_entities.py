"""Load a pipeline and print what it finds in a text, with confidences.

python scripts/show_entities.py training/demo/model-best "She was given amoxicillin."
"""

import sys

import spacy


def main(model: str, text: str) -> None:
    doc = spacy.load(model)(text)
    for ent in doc.ents:
        print(f"{ent.text:<30} {ent.label_:<10} {ent._.confidence:.2f}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
