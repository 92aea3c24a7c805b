"""Compare predictions on long documents with those on single sentences, and under a shift of the
windows."""

from itertools import islice
from pathlib import Path
from typing import Annotated

import spacy
import typer
from spacy.language import Language
from spacy.tokens import Doc
from wasabi import msg

Key = tuple[int, int, str]
SHIFTS = (1, 5, 37, 101)  # tokens put before a document


def long_text(
    model: Annotated[str, typer.Argument(help="A trained pipeline")],
    data: Annotated[Path, typer.Argument(help="Test set: .tsv or .spacy")],
    sentences: Annotated[int, typer.Option(help="Sentences per document")] = 60,
) -> None:
    """Print F1 on sentences joined into documents, and the share of entities changed by a shift."""
    from spacy_mslm.corpus.readers import read_docs

    nlp = spacy.load(model)
    docs = list(read_docs(data, nlp.vocab))
    alone = _f1(_gold(docs), _predict(nlp, [_copy(nlp, doc) for doc in docs]))
    joined = [_join(docs[i : i + sentences]) for i in range(0, len(docs), sentences)]
    together = _predict(nlp, [_copy(nlp, doc) for doc in joined])
    rows = [
        ("F1, sentence by sentence", f"{100 * alone:.2f}"),
        (f"F1, {sentences} sentences a document", f"{100 * _f1(_gold(joined), together):.2f}"),
    ]
    for shift in SHIFTS:
        # Words of other documents and a full stop: only the position of the text changes.
        before = [*islice((t.text for doc in docs for t in doc), shift - 1), "."]
        shifted = _predict(nlp, [_copy(nlp, doc, before) for doc in joined], offset=shift)
        changed = sum(len(a ^ b) for a, b in zip(together, shifted, strict=True))
        total = sum(len(a | b) for a, b in zip(together, shifted, strict=True))
        rows.append((f"Entities changed by a shift of {shift}", f"{100 * changed / total:.2f} %"))
    msg.table(rows)


def _copy(nlp: Language, doc: Doc, before: list[str] | None = None) -> Doc:
    return Doc(nlp.vocab, words=[*(before or []), *(t.text for t in doc)])


def _join(docs: list[Doc]) -> Doc:
    for doc in docs:
        doc.user_data.clear()  # ids cannot be merged
    return Doc.from_docs(docs, ensure_whitespace=True) if len(docs) > 1 else docs[0]


def _gold(docs: list[Doc]) -> list[set[Key]]:
    return [{(e.start, e.end, e.label_) for e in doc.ents} for doc in docs]


def _predict(nlp: Language, docs: list[Doc], offset: int = 0) -> list[set[Key]]:
    return [
        {(e.start - offset, e.end - offset, e.label_) for e in doc.ents if e.start >= offset}
        for doc in nlp.pipe(docs)
    ]


def _f1(gold: list[set[Key]], predicted: list[set[Key]]) -> float:
    exact = sum(len(g & p) for g, p in zip(gold, predicted, strict=True))
    return 2 * exact / (sum(map(len, gold)) + sum(map(len, predicted)))
