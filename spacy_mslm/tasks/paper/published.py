"""The figures of the paper, as they are printed there."""

import json
from functools import cache
from importlib.resources import files
from typing import Any

from ..table9 import read_paper

SETS = (
    *("bc2gm", "ncbi_disease", "bc5cdr_chem", "ebm_nlp", "bc5cdr_disease", "jnlpba", "mimic_iii"),
)
# The names of sets and encoders in the paper.
NAMES = {
    "bc2gm": "BC2GM",
    "ncbi_disease": "NCBI-disease",
    "bc5cdr_chem": "BC5CDR-chem",
    "ebm_nlp": "EBM-NLP",
    "bc5cdr_disease": "BC5CDR-disease",
    "jnlpba": "JNLPBA",
    "mimic_iii": "MIMIC-III",
    "biobert": "BioBERT",
    "pubmedbert": "PubMedBERT",
    "bioelectra": "BioELECTRA",
    "scibert": "SciBERT",
}


@cache
def read_published() -> dict[str, list[dict[str, Any]]]:
    """Read the figures by table: a list of entries with `value` and, if printed, `sd`."""
    path = files("spacy_mslm") / "data/paper/published.json"
    found: dict[str, list[dict[str, Any]]] = json.loads(path.read_text("utf8"))
    return found


def find(table: str, **keys: Any) -> dict[str, Any] | None:
    """Return the entry of a table with these keys, or None."""
    entries = read_published()[table]
    return next((e for e in entries if all(e.get(k) == v for k, v in keys.items())), None)


def show_name(name: str) -> str:
    """Return the name of a set or an encoder as the paper writes it."""
    return NAMES.get(name, name)


__all__ = ["SETS", "find", "read_paper", "read_published", "show_name"]
