"""Mark the terms of text for masked-LM training: what a pipeline finds, and names of terminologies.

python -m benchmarks.arms.label_text MODEL TEXT OUTPUT TERMS...
    MODEL    a pipeline; entities with a confidence of 0.3 or more are taken
    TEXT     a text per line
    OUTPUT   folder for .spacy files, which `spacy mslm pretrain --paths.text` reads
    TERMS    tables of terms; their names are taken where the pipeline finds nothing

The texts are shuffled. Files that are there are skipped, so an interrupted run continues.
"""

import random
import sys
from collections.abc import Iterable
from itertools import count
from pathlib import Path

import spacy
from spacy.tokens import Doc, DocBin, Span
from spacy.util import minibatch

from spacy_mslm.text.plain_texts import read_texts
from spacy_mslm.text.terminology import Terminology, common_words
from spacy_mslm.util.files import replace_file
from spacy_mslm.util.spans import drop_overlapping

MIN_CONFIDENCE = 0.3
MIN_CHARS = 4  # of a name
CHUNK = 4000  # texts in a file


def main(model: str, text: Path, output: Path, terms: list[Path]) -> None:
    nlp = spacy.load(model)
    names = Terminology(terms, nlp.Defaults.stop_words, min_chars=MIN_CHARS, common=common_words())
    texts = [text for _, text in read_texts([text])]
    random.Random(0).shuffle(texts)
    output.mkdir(parents=True, exist_ok=True)
    for number, chunk in zip(count(), minibatch(texts, CHUNK), strict=False):
        path = output / f"{number:05}.spacy"
        if not path.exists():
            docs = (mark_terms(doc, names(doc)) for doc in nlp.pipe(chunk))
            replace_file(path, DocBin(docs=docs).to_bytes())


def mark_terms(doc: Doc, names: Iterable[Span]) -> Doc:
    """Set the entities of a document to the confident ones, and the names that overlap none."""
    found = [ent for ent in doc.ents if ent._.confidence >= MIN_CONFIDENCE]
    kept = drop_overlapping([(span.start, span.end) for span in (*found, *names)])
    doc.set_ents([Span(doc, start, end, label="TERM") for start, end in kept])
    return doc


if __name__ == "__main__":
    paths = [Path(path) for path in sys.argv[2:]]
    main(sys.argv[1], paths[0], paths[1], paths[2:])
