"""No space left on the disk, and folders that cannot be written to: one sentence, and nothing
half-written."""

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import spacy
from spacy.tokens import DocBin

from spacy_mslm.pipeline.saving import safe_save

from ..conftest import build_encoder, make_examples
from ..disk import can_mount, run_as_user, run_on_full_disk
from ..helpers import DEV, TRAIN, write_iob

CONFIGS = Path(__file__).parents[2] / "configs"
REMEDY = "Check the path, its permissions and the free disk space."

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="needs Linux and root, to mount a disk"
)


@pytest.fixture(scope="module")
def work(train_once, tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """Corpora, texts, an encoder and a pipeline, all on the ordinary disk."""
    root = tmp_path_factory.mktemp("disk")
    nlp = train_once(60, masking={"@misc": "spacy_mslm.NoMasking.v1"})
    safe_save(nlp, root / "model")
    DocBin(docs=[eg.reference for eg in make_examples(nlp)]).to_disk(root / "dev.spacy")
    write_iob(root / "train.tsv", TRAIN * 3)
    write_iob(root / "dev.tsv", DEV)
    (root / "text.txt").write_text("the patient had asthma after aspirin .\n" * 100)
    build_encoder(root / "encoder", max_position_embeddings=300)
    return SimpleNamespace(root=root)


def arguments(name: str, root: Path, place: Path) -> list[object]:
    """The arguments of a command that writes to `place`."""
    mslm = CONFIGS / "mslm.cfg"
    corpora = ["--paths.train", root / "train.tsv", "--paths.dev", root / "dev.tsv"]
    steps = ["--vars.encoder", root / "encoder", "--training.max_steps", 4]
    pretraining = ["--paths.text", root / "text.txt", "--vars.size", "tiny", "--vars.vocab_size"]
    pretraining += [60, "--pretraining.length", 16, "--pretraining.steps", 4]
    dev = [root / "dev.spacy"]
    commands: dict[str, list[object]] = {
        "pretrain": ["pretrain", CONFIGS / "pretrain.cfg", place / "new", *pretraining],
        "train": ["train", mslm, "--output", place / "new", *corpora, *steps],
        "calibrate": ["calibrate", place / "model", *dev],
        "calibrate elsewhere": [*("calibrate", root / "model"), *dev, "-o", place / "new"],
        "optimize": [*("optimize", root / "model", place / "new", "--mode", "half", "--dev"), *dev],
    }
    return ["mslm", *commands[name]]


def told(said: str) -> str:
    """The message of a command, on one line."""
    assert "Traceback" not in said, said
    return " ".join(said.split())


# Bytes that are left: none; enough for the first files; enough for all but the last weights.
@pytest.mark.parametrize("free", [0, 50_000, 150_000])
@pytest.mark.parametrize("name", ["pretrain", "train", "calibrate"])
def test_no_space_left_is_one_sentence(
    name: str, free: int, work: SimpleNamespace, tmp_path: Path
) -> None:
    if not can_mount():
        pytest.skip("this machine does not let us mount a disk")
    place = tmp_path / "place"
    command = arguments(name, work.root, place)
    found = run_on_full_disk(place, free, command, work.root / "model")
    message = told(found.said)
    assert found.code == 1, message
    assert "no space left on device" in message and str(place) in message and REMEDY in message
    assert {k: v for k, v in found.after.items() if k in found.before} == found.before
    # A training may have a checkpoint, from which it continues, and a pipeline that is complete.
    new = [Path(name) for name in found.after if name not in found.before]
    assert not any(part.startswith(".") for path in new for part in path.parts)
    if name == "calibrate":
        assert not new


@pytest.mark.parametrize("name", ["pretrain", "train", "calibrate elsewhere", "optimize"])
def test_a_folder_without_permission_is_one_sentence(
    name: str, work: SimpleNamespace, tmp_path: Path
) -> None:
    place = tmp_path / "place"
    place.mkdir()
    place.chmod(0o555)
    code, said = run_as_user(*arguments(name, work.root, place))
    message = told(said)
    assert code == 1, message
    assert "permission denied" in message and str(place) in message and REMEDY in message
    assert not list(place.iterdir())


def test_calibrate_in_place_without_permission(work: SimpleNamespace, tmp_path: Path) -> None:
    """Nothing can be written beside the pipeline, which stays as it is."""
    place = tmp_path / "place"
    place.mkdir()
    safe_save(spacy.load(work.root / "model"), place / "model")
    before = {path: path.stat().st_mtime_ns for path in place.rglob("*")}
    place.chmod(0o555)
    code, said = run_as_user(*arguments("calibrate", work.root, place))
    assert code == 1 and REMEDY in told(said)
    assert {path: path.stat().st_mtime_ns for path in place.rglob("*")} == before
