"""Label the sentences of notes with the names of a terminology: a stand-in for weak supervision.

python scripts/weak_labels.py assets/demo/notes.csv assets/demo/terms.tsv corpus/demo
    train.spacy     sentences of the first quarter of the notes, with what was found in them
    text.txt        sentences of the others, for pretraining and adaptation
"""

import csv
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import spacy
from spacy.tokens import Doc, DocBin
from wasabi import msg

from spacy_mslm.files import replace_files
from spacy_mslm.sentences import sentence_starts
from spacy_mslm.terminology import Terminology
from spacy_mslm.tokenizer import make_tokenizer

LABELLED = 0.25


def read_notes(path: Path) -> Iterator[tuple[str, str]]:
    """Row id and text of each note that is not marked as an error."""
    csv.field_size_limit(sys.maxsize)  # a note may be longer than csv's 131,072 characters
    with path.open(encoding="utf8", newline="") as file:
        for row in csv.DictReader(file, strict=True):
            if row["ISERROR"] != "1":
                yield row["ROW_ID"], row["TEXT"]


def sentences(doc: Doc) -> Iterator[Doc]:
    for start, end in pairwise([*sentence_starts(doc).tolist(), len(doc)]):
        if doc[start:end].text.strip():
            yield doc[start:end].as_doc()


def main(notes: Path, terms: Path, folder: Path) -> None:
    nlp = spacy.blank("en")
    nlp.tokenizer = make_tokenizer()(nlp)
    terminology = Terminology(nlp, [terms])
    texts = list(read_notes(notes))
    labelled = DocBin(attrs=["ENT_IOB", "ENT_TYPE", "SPACY"], store_user_data=True)
    lines: list[str] = []
    mentions = 0
    for i, (row_id, text) in enumerate(texts):
        for number, sentence in enumerate(sentences(nlp.tokenizer(text))):
            if i < LABELLED * len(texts):
                sentence.set_ents(terminology(sentence), default="outside")
                sentence.user_data["id"] = f"{row_id}:{number}"
                labelled.add(sentence)
                mentions += len(sentence.ents)
            else:
                lines.append(" ".join(sentence.text.split()))
    replace_files(
        {
            folder / "train.spacy": labelled.to_bytes(),
            folder / "text.txt": ("\n".join(lines) + "\n").encode("utf8"),
        }
    )
    msg.good(f"{len(labelled)} sentences with {mentions} labels, {len(lines)} without")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
