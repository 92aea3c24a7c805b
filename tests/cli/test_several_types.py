"""`spacy train` and `evaluate` with corpora that annotate different types, and with a new type for
a trained pipeline."""

import json
from pathlib import Path

import pytest
import spacy
from spacy.util import load_config
from thinc.api import Config

from ..commands import run_spacy
from ..helpers import DEV, TRAIN, write_iob

VANILLA = Path(__file__).resolve().parents[2] / "configs" / "vanilla.cfg"
TEXT = "the patient had asthma after aspirin ."


def only(label: str, sentences: list[str]) -> list[str]:
    """Remove the mentions of all other types."""
    words = (
        " ".join(
            word if word.endswith((f"-{label}", "/O")) else word.rpartition("/")[0] + "/O"
            for word in sentence.split()
        )
        for sentence in sentences
    )
    return list(words)


def partial(path: Path, label: str) -> dict:
    reader = "spacy_mslm.PartialCorpus.v1"
    return {"@readers": reader, "path": str(path), "annotates": [label]}


@pytest.fixture(scope="module")
def work(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("types")
    for label in ("Disease", "Chemical"):
        write_iob(folder / f"{label}_train.tsv", only(label, TRAIN))
        write_iob(folder / f"{label}_dev.tsv", only(label, DEV))
    return folder


def make_config(work: Path, encoder: Path, steps: int = 100) -> Config:
    """vanilla.cfg for two corpora of one type each."""
    config = load_config(VANILLA)
    config["components"]["mslm"]["model"] = {
        "@architectures": "spacy_mslm.MSLM.v2",
        "encoder": str(encoder),
        "window": 40,
        "context": 8,
    }
    config["corpora"] = {
        split: {
            "@readers": "spacy_mslm.MixedCorpus.v1",
            "corpora": {
                label: partial(work / f"{label}_{split}.tsv", label)
                for label in ("Disease", "Chemical")
            },
        }
        for split in ("train", "dev")
    }
    config["initialize"]["after_init"] = {
        "@callbacks": "spacy_mslm.report_duplicates.v1",
        **{
            split: [str(work / f"{label}_{split}.tsv") for label in ("Disease", "Chemical")]
            for split in ("train", "dev")
        },
    }
    config["training"]["max_steps"] = steps
    config["training"]["eval_frequency"] = steps // 2
    config["training"]["optimizer"]["learn_rate"]["rate"] = 0.003
    config["training"]["optimizer"]["head_learn_rate"]["rate"] = 0.01
    return config


def succeed(*arguments: object) -> str:
    result = run_spacy(*arguments, COLUMNS="500")
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


@pytest.fixture(scope="module")
def trained(work, encoder) -> Path:
    make_config(work, encoder).to_disk(work / "mixed.cfg")
    succeed("train", work / "mixed.cfg", "--output", work / "old")
    return work / "old" / "model-last"


def ents(model: Path) -> list[tuple[str, str]]:
    return [(ent.text, ent.label_) for ent in spacy.load(model)(TEXT).ents]


FOUND = [("asthma", "Disease"), ("aspirin", "Chemical")]


def test_train_learns_both_types(trained):
    assert ents(trained) == FOUND


def test_debug_data_reads_the_corpora(work, trained):
    result = run_spacy("debug", "data", work / "mixed.cfg", COLUMNS="500")
    assert "Corpus is loadable" in result.stdout, result.stdout + result.stderr


def test_evaluate_counts_only_the_types_of_the_data(work, trained):
    data = work / "Chemical_dev.tsv"
    scores = {}
    for name, options in (("all", ()), ("some", ("--annotates", "Chemical"))):
        out = work / f"{name}.json"
        shown = succeed("mslm", "evaluate", trained, data, "--output", out, *options)
        scores[name] = json.loads(out.read_text(encoding="utf8"))
    assert scores["all"]["scores"]["ents_p"] < 0.5 and scores["all"]["annotates"] is None
    assert scores["some"]["scores"]["ents_f"] == 1.0
    assert scores["some"]["annotates"] == ["Chemical"]
    assert scores["some"]["counts"]["predicted_not_annotated"] == 2
    assert "2 predicted mentions are of types that the data does not annotate" in shown


def test_a_sourced_pipe_learns_a_new_type_and_keeps_the_old(work, trained, encoder):
    """Sentences with the new type only; the old types are labelled by the old pipeline."""
    day = [
        "follow/O up/O in/O two/B-Time weeks/I-Time with/O the/O same/O clinic/O ./O",
        "aspirin/O and/O heparin/O were/O stopped/O on/O day/B-Time three/I-Time ./O",
        *only("Time", TRAIN[:1] + TRAIN[2:4] + DEV),
    ]
    write_iob(work / "Time_train.tsv", day)
    config = make_config(work, encoder, steps=60)
    config["components"] = {"mslm": {"source": str(trained)}}
    config["corpora"]["train"] = {
        "@readers": "spacy_mslm.CompletedCorpus.v1",
        "corpus": partial(work / "Time_train.tsv", "Time"),
        "models": str(trained),
        "min_confidence": 0.0,
    }
    config["corpora"]["dev"] = partial(work / "Time_train.tsv", "Time")
    config["initialize"]["after_init"] = None
    config.to_disk(work / "forgets.cfg")
    result = run_spacy("train", work / "forgets.cfg", "--output", work / "none", COLUMNS="500")
    assert result.returncode and "spacy_mslm.add_labels.v1" in result.stdout + result.stderr
    config["initialize"]["before_init"] = {
        "@callbacks": "spacy_mslm.add_labels.v1",
        "labels": ["Time"],
    }
    config.to_disk(work / "new.cfg")
    succeed("train", work / "new.cfg", "--output", work / "new")
    new = work / "new" / "model-last"
    assert ents(new) == FOUND
    doc = spacy.load(new)("follow up in two weeks with the same clinic .")
    assert [(ent.text, ent.label_) for ent in doc.ents] == [("two weeks", "Time")]
