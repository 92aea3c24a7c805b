"""Model cards: metadata, scores, settings; in the folder, in meta.json, and in the package."""

import json
from pathlib import Path

import pytest
import spacy
import srsly
from spacy.cli.info import info
from thinc.api import Config

from spacy_mslm.pipeline.saving import safe_save
from spacy_mslm.tasks import write_model_card
from spacy_mslm.tasks.verification import verify
from spacy_mslm.util.manifest import write_manifest

from ..commands import run_spacy
from ..helpers import leave_temporary

SCORES = {"ents_p": 0.8, "ents_r": 0.75, "ents_f": 0.774, "mslm_em": 0.7}
SCORES["ents_per_type"] = {"Disease": {"p": 0.8, "r": 0.75, "f": 0.774}}


@pytest.fixture
def pipeline(train_once, tmp_path) -> Path:
    nlp = train_once(steps=2)
    nlp.meta.update(name="card", version="1.2.3", license="MIT")
    safe_save(nlp, tmp_path / "nlp")
    return tmp_path / "nlp"


def test_card(pipeline, tmp_path) -> None:
    (tmp_path / "m.json").write_text(
        json.dumps({"protocol": "clean", "data": "corpus/test.spacy", "scores": SCORES})
    )
    (tmp_path / "data.md").write_text("# Notes\n\n12 notes.\n")
    result = run_spacy(
        *("mslm", "card", pipeline, "--metrics", tmp_path / "m.json"),
        *("--data-card", tmp_path / "data.md", "--license", "CC BY 4.0"),
    )
    assert result.returncode == 0, result.stdout + result.stderr
    _, front, body = (pipeline / "README.md").read_text().split("---\n", 2)
    facts = srsly.yaml_loads(front)
    assert facts["license"] == "cc-by-4.0" and facts["library_name"] == "spacy"
    (index,) = facts["model-index"]
    (results,) = index["results"]
    assert results["dataset"]["name"] == "test.spacy"
    assert [m["value"] for m in results["metrics"]] == [0.8, 0.75, 0.774]
    for part in ("# en_card 1.2.3", "| F1 | 77.4 |", "| Disease | 80.0 |", "JointMasking.v1"):
        assert part in body
    assert "### Notes\n\n12 notes." in body and str(tmp_path) not in body

    assert verify(str(pipeline)).faults == []
    spacy.load(pipeline)
    told = info(str(pipeline), silent=True)
    assert told["notes"] == body.lstrip("\n") and told["license"] == "CC BY 4.0"


def test_card_of_the_dev_set_is_packaged(pipeline, tmp_path) -> None:
    meta = srsly.read_json(pipeline / "meta.json")
    assert "ents_f" not in meta.get("performance", {})
    path = write_model_card(str(pipeline), description="One sentence.")
    assert "model-index" not in path.read_text() and "None were stored." in path.read_text()
    (tmp_path / "out").mkdir()
    result = run_spacy("package", pipeline, tmp_path / "out", "--build", "none")
    assert result.returncode == 0, result.stdout + result.stderr
    (packaged,) = (tmp_path / "out").glob("*/README.md")
    assert packaged.read_text() == path.read_text()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "holds no scores"),
        ("[]", "holds no scores"),
        ('{"scores": {}}', "holds no scores"),
        (json.dumps({"protocol": "masked", "scores": SCORES}), "masked protocol"),
    ],
)
def test_wrong_scores_change_nothing(content, message, pipeline, tmp_path) -> None:
    (tmp_path / "m.json").write_text(content)
    with pytest.raises(ValueError, match=message):
        write_model_card(str(pipeline), metrics=tmp_path / "m.json")
    with pytest.raises(ValueError, match="not the folder of a pipeline"):
        write_model_card(str(tmp_path / "absent"))
    assert not (pipeline / "README.md").exists() and verify(str(pipeline)).faults == []


def test_settings_that_name_others_are_filled_in(pipeline) -> None:
    """As those of `configs/mslm.cfg`, where the masking is `${maskings.spans}`."""
    config = Config().from_disk(pipeline / "config.cfg", interpolate=False)
    config["maskings"] = {"spans": config["components"]["mslm"]["masking"]}
    config["components"]["mslm"]["masking"] = "${maskings.spans}"
    config.to_disk(pipeline / "config.cfg")
    write_manifest(pipeline)
    leave_temporary(pipeline)
    assert "JointMasking.v1" in write_model_card(str(pipeline)).read_text()
    assert not list(pipeline.rglob(".*"))
