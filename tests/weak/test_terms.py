"""Which names of a terminology are frequent in notes, and which names are skipped."""

import json
from pathlib import Path
from typing import Any

import pytest

from spacy_mslm.tasks import count_terms
from spacy_mslm.tasks.configs import read_config
from spacy_mslm.text.terminology import common_words, read_blocklist
from spacy_mslm.weak.annotators.terminology import TerminologyAnnotator
from spacy_mslm.weak.clusters import Clusters
from spacy_mslm.weak.label_corpus import chunk_size, label_notes

from ..commands import run_spacy
from ..helpers import write_terms

CONFIG = Path(__file__).resolve().parents[2] / "configs" / "weak.cfg"
NOTES = [
    "Secretname: skin warm, arms fine. Bleeding since the biopsy. Asthma.",
    "Bleeding again, no asthma. PAD. Dates of visits: none.",
]
TERMS = [
    *(("Skin", "disease"), ("arm", "disease"), ("Asthma", "disease"), ("PAD", "disease")),
    *(("bleeding", "disease"), ("Bleeding", "symptom"), ("Date", "drug"), ("biopsy", "drug")),
]


@pytest.fixture
def overrides(tmp_path: Path) -> dict[str, Any]:
    notes = tmp_path / "notes.jsonl"
    rows = [{"id": str(i), "text": text} for i, text in enumerate(NOTES)]
    notes.write_text("\n".join(map(json.dumps, rows)), encoding="utf8")
    clusters = tmp_path / "clusters.yml"
    clusters.write_text(
        "Disease: {disease: Disease}\nSymptom: {symptom: Symptom}\nTreatment: {drug: Drug}\n",
        encoding="utf8",
    )
    return {
        "paths.notes": str(notes),
        "paths.terms": str(write_terms(tmp_path / "terms.tsv", TERMS)),
        "paths.clusters": str(clusters),
    }


def found(overrides: dict[str, Any], **settings: object) -> dict[str, int]:
    more = {f"labelling.annotators.terminology.{k}": v for k, v in settings.items()}
    survey = count_terms(CONFIG, {**overrides, **more})
    return {term.name: term.matches for term in survey.terms}


def test_names_are_counted_with_places_and_remarks(overrides: dict[str, Any]) -> None:
    survey = count_terms(
        CONFIG, {**overrides, "labelling.annotators.terminology.skip_common": False}, number=3
    )
    first, second, third = survey.terms
    assert first == ("Asthma", "Disease", (), False, 2, 2, ("0:61-67", "1:19-25"))
    assert second == ("bleeding", "Disease", ("Symptom",), False, 2, 2, ("0:34-42", "1:0-8"))
    assert (third.name, third.is_common) == ("arm", True)
    assert (survey.notes, survey.names, survey.matches) == (2, 7, 9)


def test_filters_skip_names(overrides: dict[str, Any], tmp_path: Path) -> None:
    assert found(overrides) == {"Asthma": 2, "bleeding": 2, "PAD": 1, "biopsy": 1}
    everything = found(overrides, skip_common=False)
    assert everything == {**found(overrides), "Skin": 1, "arm": 1, "Date": 1}
    assert "bleeding" not in found(overrides, skip_ambiguous=True)
    assert found(overrides, min_chars=7) == {"bleeding": 2}
    blocklist = tmp_path / "block.txt"
    blocklist.write_text("# not in our notes\npad  # a cushion\n\nBiopsies\n", encoding="utf8")
    assert read_blocklist(blocklist) == {"pad", "biopsy"}
    assert found({**overrides, "paths.blocklist": str(blocklist)}) == {"Asthma": 2, "bleeding": 2}
    with pytest.raises(ValueError, match="no such file"):
        found({**overrides, "paths.blocklist": str(tmp_path / "none.txt")})
    with pytest.raises(ValueError, match="skip_ambiguous compares the clusters"):
        TerminologyAnnotator(overrides["paths.terms"], skip_ambiguous=True)
    # Without these settings the annotator finds what it found in earlier versions.
    clusters = Clusters(overrides["paths.clusters"])
    assert len(TerminologyAnnotator(overrides["paths.terms"], clusters).terminology) == 7


def test_common_words_hold_what_was_found_in_notes_and_no_findings() -> None:
    words = common_words()
    assert {"skin", "arm", "date", "sterile", "condition", "lung"} <= words
    findings = (
        "pain fever cough rash cancer tumor stroke asthma aspirin insulin wound fracture cold"
    )
    assert not words & set(findings.split())


def test_command_prints_names_and_offsets_but_no_text(overrides: dict[str, Any]) -> None:
    options = [text for key, value in overrides.items() for text in (f"--{key}", value)]
    result = run_spacy("mslm", "weak", "terms", CONFIG, *options)
    told = " ".join(result.stdout.split())
    assert result.returncode == 0, told + result.stderr
    assert "bleeding Disease 2 2 also Symptom 0:34-42, 1:0-8" in told
    assert "6 of 6 matches of 4 names in 2 notes" in told
    assert "Secretname" not in told + result.stderr and "again" not in told


def test_chunks_are_small_enough_to_share(overrides: dict[str, Any], tmp_path: Path) -> None:
    assert [chunk_size(n) for n in (1, 300, 5000, 10**6)] == [10, 10, 100, 500]
    notes = tmp_path / "many.jsonl"
    rows = [{"id": str(i), "text": NOTES[i % 2]} for i in range(25)]
    notes.write_text("\n".join(map(json.dumps, rows)), encoding="utf8")
    settings = read_config(CONFIG, {**overrides, "paths.notes": str(notes)}, block="labelling")
    label_notes(settings["labelling"], tmp_path / "out")
    assert len(list((tmp_path / "out" / "done").glob("*.json"))) == 3
