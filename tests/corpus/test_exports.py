"""Files as annotation tools and libraries write them, with all their keys, through `convert`."""

from pathlib import Path

import pytest
import spacy

from spacy_mslm.tasks.conversion import convert

from ..commands import run_spacy

EXPORTS = Path(__file__).parents[1] / "data" / "exports"
FOUND = [("renal failure", "Disease"), ("aspirin", "Chemical"), ("Asthma", "Disease")]
TAGS = "O,B-Disease,I-Disease,B-Chemical"


def entities(path: Path) -> list[tuple[str, str]]:
    docs = spacy.tokens.DocBin().from_disk(path).get_docs(spacy.blank("en").vocab)
    return [(ent.text, ent.label_) for doc in docs for ent in doc.ents]


@pytest.mark.parametrize("path", sorted(EXPORTS.iterdir()), ids=lambda path: path.name)
def test_an_export_is_recognised_and_read(path: Path, tmp_path: Path) -> None:
    names = TAGS.split(",") if path.name.startswith("hugging_face") else []
    convert(path, tmp_path / "out.spacy", tags=names)
    assert entities(tmp_path / "out.spacy") == FOUND


def test_the_command_reads_an_export(tmp_path: Path) -> None:
    out = tmp_path / "out.spacy"
    result = run_spacy("mslm", "convert", EXPORTS / "prodigy.jsonl", out)
    assert result.returncode == 0, result.stdout + result.stderr
    assert entities(out) == FOUND
    # The third record was not accepted.
    assert "1 records were not accepted" in result.stdout + result.stderr
