"""Mistakes of users on the command line of trainings: one sentence, exit code 1, no pipeline."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from spacy_mslm.cli import app

from ..conftest import build_encoder
from ..helpers import DEV, TRAIN, write_iob

CONFIGS = Path(__file__).parents[2] / "configs"


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    root = tmp_path_factory.mktemp("mistakes")
    write_iob(root / "train.tsv", TRAIN)
    write_iob(root / "dev.tsv", DEV)
    (root / "file").touch()
    (root / "text.txt").write_text("the patient had asthma .\n" * 50)
    (root / "broken.cfg").write_text("[training\n")
    encoder = build_encoder(root / "encoder", max_position_embeddings=300)
    paths = {"paths.train": root / "train.tsv", "paths.dev": root / "dev.tsv"}
    return SimpleNamespace(root=root, overrides={**paths, "vars.encoder": encoder})


def fail(*arguments: object) -> str:
    """The message of a command that fails, on one line."""
    result = CliRunner().invoke(app, ["mslm", *map(str, arguments)])
    assert result.exit_code == 1 and isinstance(result.exception, SystemExit), result.output
    assert "Traceback" not in result.output
    return " ".join(result.output.split())


MISTAKES = {
    "--paths.trian x.spacy": "mslm.cfg has no setting paths.trian. Did you mean --paths.train?",
    "--vars.encodr x": "mslm.cfg has no setting vars.encodr. Did you mean --vars.encoder?",
    "--trainin.max_steps 5": "no setting trainin.max_steps. Did you mean --training.max_steps?",
    "--components.mslmm.seed 5": "no setting components.mslmm.seed",
    "--training.max_stepz 5": "training.max_stepz. Did you mean --training.max_steps?",
    "--initialize.befor_init 5": "Did you mean --initialize.before_init?",
    '--initialize.components.mslm.labelz ["a"]': "labelz",
    "--components.mslm.batch_piecez 5": "batch_piecez",
    "--corpora.train.limt 5": "limt",
    "--system.seed -1": "training.seed is -1, but must be 0 or more",
    "--system.seed abc": "training.seed is 'abc', but must be a whole number",
    "--training.dropout 2": "training.dropout is 2, but must be between 0 and 1",
    "--training.eval_frequency 0": "training.eval_frequency is 0, but must be 1 or more",
    "--training.accumulate_gradient 0": "training.accumulate_gradient is 0",
    "--training.max_steps -3": "training.max_steps is -3",
    "--components.mslm.batch_pieces 0": "components.mslm.batch_pieces is 0, but must be 1 or more",
    "--components.mslm.max_unaligned 7": "components.mslm.max_unaligned is 7, but must be between",
    "--components.mslm.model.window 10": "A window of 10 pieces has no room",
    "--components.mslm.model.detection_size 0": "model.detection_size is 0",
    "--training.optimizer.grad_clip -1": "optimizer.grad_clip is -1",
    "--vars.view upside": "view",
    "--vars.masking ${maskings.jont}": "maskings.jont",
    "--vars.encoder /nowhere": "Could not load the encoder",
    "--paths.train /nowhere.spacy": "nowhere.spacy: there is no such file",
    "--gpu-id 0": "GPU 0 cannot be used",
}


@pytest.mark.parametrize("options", MISTAKES)
def test_a_mistake_in_a_training_is_one_sentence(
    options: str, work: SimpleNamespace, tmp_path: Path
) -> None:
    given = [part for k, v in work.overrides.items() for part in (f"--{k}", v)]
    output = tmp_path / "output"
    message = fail("train", CONFIGS / "mslm.cfg", "--output", output, *given, *options.split())
    assert MISTAKES[options] in message
    assert len(message.partition("The training failed")[2]) < 600, message
    assert not list(output.glob("model-*"))


def test_files_that_are_none(work: SimpleNamespace, tmp_path: Path) -> None:
    command = ("train", work.root / "broken.cfg", "--output", tmp_path / "a")
    assert "broken.cfg" in fail(*command)
    command = ("train", tmp_path / "nowhere.cfg", "--output", tmp_path / "a")
    assert "nowhere.cfg: there is no such file" in fail(*command)
    command = ("train", CONFIGS / "mslm.cfg", "--output", work.root / "file")
    assert "file is a file, but the output has to be a folder" in fail(*command)
    assert not (tmp_path / "a").exists()


PRETRAINING = {
    "--vars.sise tiny": "no setting vars.sise. Did you mean --vars.size?",
    "--vars.vocab_size 3": "pretraining.vocab_size is 3, but must be 30 or more",
    "--pretraining.length 1": "pretraining.length is 1, but must be 8 or more",
    "--pretraining.batch_pieces 0": "pretraining.batch_pieces is 0",
    "--pretraining.lenth 5": "lenth",
    "--vars.size gigantic": "size",
}


@pytest.mark.parametrize("options", PRETRAINING)
def test_a_mistake_in_pretraining_is_one_sentence(
    options: str, work: SimpleNamespace, tmp_path: Path
) -> None:
    text = ("--paths.text", work.root / "text.txt")
    message = fail("pretrain", CONFIGS / "pretrain.cfg", tmp_path / "new", *text, *options.split())
    assert PRETRAINING[options] in message
    assert not (tmp_path / "new").exists()


def test_a_misspelt_override_of_weak_labels(tmp_path: Path) -> None:
    output = ("--paths.output", tmp_path / "corpus")
    message = fail("weak", "label", CONFIGS / "weak.cfg", *output, "--vars.smaple", 5)
    assert "weak.cfg has no setting vars.smaple. Did you mean --vars.sample?" in message
    message = fail("weak", "label", CONFIGS / "weak.cfg", *output, "--labelling.chunks", 5)
    assert "Did you mean --labelling.chunk?" in message
    assert not (tmp_path / "corpus").exists()
