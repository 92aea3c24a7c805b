"""Fixtures of the tests of corpora."""

from pathlib import Path

import pytest

LAYER = "annotations/aggregated/{}/outcomes/{}/{}.AGGREGATED.ann"
TOKENS = "We saw systolic pressure fall . Pain and\nsecret death rose ."
TYPES = "0,0,1,1,0,0,2,0,0,3,0,0"
STARTS = "0,0,1,1,0,0,1,0,1,1,0,0"


@pytest.fixture
def ebm_nlp(tmp_path: Path) -> Path:
    """A small copy of EBM-NLP's folders."""
    root = tmp_path / "ebm_nlp_2_00"
    (root / "documents").mkdir(parents=True)
    for part, pmids in (("train", range(100, 112)), ("test/gold", range(200, 202))):
        for pmid in pmids:
            (root / "documents" / f"{pmid}.tokens").write_text(TOKENS, encoding="utf8")
            (root / "documents" / f"{pmid}.text").write_text("not read", encoding="utf8")
            for layer, labels in (("hierarchical_labels", TYPES), ("starting_spans", STARTS)):
                path = root / LAYER.format(layer, part, pmid)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(labels, encoding="utf8")
    return root
