"""Figures of corpora: Table 9, and the PMI vocabularies of Tables 11 and 14."""

import json
from pathlib import Path
from typing import Any

from ...scoring.seeds import Spread
from ..conversion import STATISTICS
from ..pmi import PMIVocabulary, build_pmi_vocabulary
from ..table9 import DECIMALS, ComparedFigure, compare, read_paper
from .lines import Line, Ours
from .published import SETS, find, read_published, show_name

GIVE_CORPORA = "python -m spacy mslm paper {} --corpora corpus"
# The figures of Table 11 in the order of its columns. The last one is of Table 14.
VOCABULARY = {
    "terms": "different mentions",
    "collocations": "collocations",
    "overlap": "collocations that are a mention",
    "overlap_percent": "the same in percent",
    "printed": "entries of Table 14 in the vocabulary",
}


def corpus_lines(corpora: Path | None) -> list[Line]:
    """Return the lines of Table 9.

    Args:
        corpora: The folder with the output folders of `spacy mslm convert`, named after their sets.
    """
    lines = []
    for dataset in SETS:
        paper = read_paper(dataset)
        figures, command = _figures(corpora, dataset), ""
        if figures is None:
            figures = {name: _nothing(value) for name, value in paper.items() if _counted(value)}
            command = f"python -m spacy mslm convert SOURCE {corpora or 'corpus'}/{dataset}"
            if corpora is None:
                command = GIVE_CORPORA.format("table9")
        for row in compare(figures, paper):
            lines.append(_corpus_line(dataset, row, command))
    return lines


def _counted(value: Any) -> bool:
    return not isinstance(value, bool | list)


def _nothing(value: Any) -> Any:
    return dict.fromkeys(value) if isinstance(value, dict) else None


def _figures(corpora: Path | None, dataset: str) -> dict[str, Any] | None:
    """Return the figures of a corpus that the paper has, None if it is not there."""
    path = None if corpora is None else corpora / dataset / STATISTICS
    if path is None or not path.exists():
        return None
    found = json.loads(path.read_text(encoding="utf8"))
    return {name: found[name] for name, value in read_paper(dataset).items() if _counted(value)}


def _corpus_line(dataset: str, row: ComparedFigure, command: str) -> Line:
    ours = {}
    if row.ours is not None:
        value = Spread(row.ours, None, 1)
        ours["counts"] = Ours(value, decimals=DECIMALS.get(row.name.partition(",")[0], 0))
    name = row.name.replace("_", " ")
    shown = "" if row.paper is None else row.show(row.paper)
    return Line((show_name(dataset), name), shown, ours, command)


def vocabulary_lines(corpora: Path | None) -> list[Line]:
    """Return the lines of Tables 11 and 14. Vocabularies are of the training sets."""
    lines = []
    for dataset in SETS:
        train = None if corpora is None else corpora / dataset / "train.spacy"
        found = {}
        if train is not None and train.exists():
            found = _vocabulary_figures(build_pmi_vocabulary(train, None, overlap=True))
        elif find("table11", set=dataset) is None:
            continue
        for figure, name in VOCABULARY.items():
            entry = find("table11", set=dataset, figure=figure)
            shown = f"{entry['value']:,}" if entry else ""
            if figure == "printed" and dataset == "bc2gm":
                shown = str(len(read_published()["table14"]))
            ours = {}
            if found:
                decimals = 1 if figure == "overlap_percent" else 0
                ours["counts"] = Ours(Spread(found[figure], None, 1), decimals=decimals)
            command = "" if found else GIVE_CORPORA.format("table11")
            lines.append(Line((show_name(dataset), name), shown, ours, command))
    return lines


def _vocabulary_figures(vocabulary: PMIVocabulary) -> dict[str, float]:
    """Return the figures of Table 11, and how many entries of Table 14 a vocabulary has."""
    assert vocabulary.overlap is not None
    known = {" ".join(entry.words).lower() for entry in vocabulary.collocations}
    printed = [entry["collocation"].lower() for entry in read_published()["table14"]]
    terms = len(vocabulary.overlap.terms)
    return {
        "terms": vocabulary.mentions,
        "collocations": len(vocabulary.collocations),
        "overlap": terms,
        "overlap_percent": 100 * terms / len(vocabulary.collocations),
        "printed": sum(entry in known for entry in printed),
    }
