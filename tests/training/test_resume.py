"""`spacy mslm train`: the weights of `spacy train`, and the same weights after an interruption."""

import json
import random
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import spacy
import torch
from safetensors.torch import load_file
from spacy.cli.train import train as spacy_train
from spacy.language import Language
from spacy.training import Example
from spacy.training.batchers import minibatch_by_words
from thinc.api import compounding

from spacy_mslm.corpus.readers import make_corpus
from spacy_mslm.tasks import train
from spacy_mslm.training.batches import Batches, skip
from spacy_mslm.training.state import random_state, set_random_state

from ..commands import run_spacy
from ..conftest import build_encoder
from ..helpers import DEV, TRAIN, write_iob

CONFIGS = Path(__file__).parents[2] / "configs"
# 4 batches an epoch, of which the third one is divided by no checkpoint.
OVERRIDES = {
    "vars.view": "mixed",
    "components.mslm.loss_weights.mlm": 0.5,
    "training.max_steps": 13,
    "training.eval_frequency": 5,
    "training.batcher.size": 4,
    "training.accumulate_gradient": 2,
    "system.seed": 1,
}
STOP = """
import os, signal
from pathlib import Path
from spacy.util import registry

@registry.callbacks("tests.stop.v1")
def make_stop(step: int, output: str, kill: bool):
    def before_update(nlp, at):
        if at["step"] == step and Path(output).exists():
            Path(output).unlink()
            if kill:
                os.kill(os.getpid(), signal.SIGKILL)
            raise RuntimeError("stopped")
    return before_update
"""


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """Corpora, an encoder, and overrides that name them."""
    root = tmp_path_factory.mktemp("resume")
    write_iob(root / "train.tsv", TRAIN * 3)
    write_iob(root / "dev.tsv", DEV)
    (root / "stop.py").write_text(STOP)
    encoder = build_encoder(root / "encoder", max_position_embeddings=300)
    files = {"paths.train": root / "train.tsv", "paths.dev": root / "dev.tsv"}
    files["vars.encoder"] = encoder
    overrides = {name: str(path) for name, path in files.items()}
    return SimpleNamespace(root=root, overrides={**overrides, **OVERRIDES})


def weights(output: Path) -> list[bytes]:
    files = sorted(output.glob("model-*/**/*"))
    return [f.read_bytes() for f in files if f.suffix == ".safetensors" or f.name == "model"]


@pytest.fixture(scope="module")
def whole(work: SimpleNamespace) -> Path:
    """The output of a training without an interruption, with a log file."""
    output = work.root / "whole"
    log = {"training.logger.output_file": str(work.root / "whole.jsonl")}
    train(CONFIGS / "mslm.cfg", output, {**work.overrides, **log})
    return output


def stopped(work: SimpleNamespace, output: Path, step: int, **changes: Any) -> dict[str, Any]:
    """Overrides of a run that stops before a step, once."""
    flag = output.with_suffix(".flag")
    flag.touch()
    callback = {"@callbacks": "tests.stop.v1", "step": step, "output": str(flag), "kill": False}
    log = {"training.logger.output_file": str(output.with_suffix(".jsonl"))}
    return {**work.overrides, **log, "training.before_update": {**callback, **changes}}


def untimed(log: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    return [{**row, "seconds": 0, "scores": {**row["scores"], "speed": 0}} for row in rows]


# ---- without an interruption ----


@pytest.mark.parametrize("name", ["mslm", pytest.param("spacy_ner", marks=pytest.mark.slow)])
def test_the_weights_are_those_of_spacy_train(
    name: str, work: SimpleNamespace, tmp_path: Path
) -> None:
    overrides = {k: v for k, v in work.overrides.items() if name == "mslm" or "mslm" not in k}
    train(CONFIGS / f"{name}.cfg", tmp_path / "ours", overrides)
    spacy_train(CONFIGS / f"{name}.cfg", tmp_path / "theirs", overrides=overrides)
    assert len(weights(tmp_path / "ours")) == 2 * (1 if name == "mslm" else 2)
    assert weights(tmp_path / "ours") == weights(tmp_path / "theirs")
    ours, theirs = (spacy.load(tmp_path / of / "model-last") for of in ("ours", "theirs"))
    performance, expected = (dict(nlp.meta["performance"]) for nlp in (ours, theirs))
    performance.pop("speed", None), expected.pop("speed", None)
    assert performance == expected


def test_what_is_left_is_the_record(whole: Path) -> None:
    assert {path.name for path in whole.iterdir()} == {"checkpoint", "model-best", "model-last"}
    assert [path.name for path in (whole / "checkpoint").iterdir()] == ["checkpoint.json"]


# ---- after an interruption ----


@pytest.mark.parametrize("step", [0, 6, 11])
def test_it_ends_with_the_same_weights(
    step: int, work: SimpleNamespace, whole: Path, tmp_path: Path
) -> None:
    """Stopped before the first checkpoint, in the middle of an epoch, and after an evaluation."""
    output = tmp_path / "output"
    overrides = stopped(work, output, step)
    arguments = {"checkpoint_every": 2, "code_path": work.root / "stop.py"}
    with pytest.raises(RuntimeError, match="stopped"):
        train(CONFIGS / "mslm.cfg", output, overrides, **arguments)
    found = train(CONFIGS / "mslm.cfg", output, overrides, resume=True, **arguments)
    assert found.steps == 14
    assert weights(output) == weights(whole)
    assert untimed(output.with_suffix(".jsonl")) == untimed(work.root / "whole.jsonl")


@pytest.mark.slow
def test_other_pipes_and_optimizers_continue_too(work: SimpleNamespace, tmp_path: Path) -> None:
    """A transformer with a transition-based parser, and thinc's Adam with averages."""
    optimizer = {"@optimizers": "Adam.v1", "use_averages": True, "learn_rate": 0.001}
    sizes = {"@schedules": "compounding.v1", "start": 1, "stop": 5, "compound": 1.2}
    overrides = {k: v for k, v in work.overrides.items() if "mslm" not in k}
    overrides |= {"training.optimizer": optimizer, "training.batcher.size": sizes}
    output = tmp_path / "output"
    arguments = {"checkpoint_every": 2, "code_path": work.root / "stop.py"}
    changed = stopped(SimpleNamespace(overrides=overrides), output, 7)
    changed.pop("training.logger.output_file")
    with pytest.raises(RuntimeError, match="stopped"):
        train(CONFIGS / "spacy_ner.cfg", output, changed, **arguments)
    train(CONFIGS / "spacy_ner.cfg", output, changed, resume=True, **arguments)
    train(CONFIGS / "spacy_ner.cfg", tmp_path / "whole", overrides)
    assert weights(output) == weights(tmp_path / "whole")


def test_a_killed_command_continues(work: SimpleNamespace, whole: Path, tmp_path: Path) -> None:
    output = tmp_path / "output"
    overrides = stopped(work, output, 8, kill=True)
    parts = [part for k, v in overrides.items() for part in (f"--{k}", _text(v))]
    command = ["mslm", "train", CONFIGS / "mslm.cfg", "--output", output, *parts]
    command += ["--code", work.root / "stop.py", "--checkpoint-every", 3]
    assert run_spacy(*command).returncode == -signal.SIGKILL
    again = run_spacy(*command)
    assert again.returncode == 1
    assert "interrupted after 6 updates. Continue it with --resume" in again.stdout
    result = run_spacy(*command, "--resume")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "Continuing after update 6" in result.stdout and "14 updates" in result.stdout
    assert weights(output) == weights(whole)
    # Now it is finished: there is nothing to continue.
    stamp = (output / "model-last" / "meta.json").stat().st_mtime_ns
    assert run_spacy(*command, "--resume").returncode == 0
    assert (output / "model-last" / "meta.json").stat().st_mtime_ns == stamp


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_at_random_moments(work: SimpleNamespace, whole: Path, tmp_path: Path) -> None:
    parts = [part for k, v in work.overrides.items() for part in (f"--{k}", _text(v))]
    command = [sys.executable, "-m", "spacy", "mslm", "train", str(CONFIGS / "mslm.cfg"), *parts]
    command += ["--output", str(tmp_path / "output"), "--checkpoint-every", "2", "--resume"]
    for delay in np.random.default_rng().uniform(4, 12, size=8):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(delay)
        process.kill()
        process.wait()
    subprocess.run(command, check=True)
    assert weights(tmp_path / "output") == weights(whole)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


# ---- checkpoints ----


@pytest.fixture
def interrupted(work: SimpleNamespace, tmp_path: Path) -> SimpleNamespace:
    """An output folder with a checkpoint after 4 updates."""
    output = tmp_path / "output"
    overrides = stopped(work, output, 4)
    code = {"code_path": work.root / "stop.py"}
    with pytest.raises(RuntimeError, match="stopped"):
        train(CONFIGS / "mslm.cfg", output, overrides, checkpoint_every=2, **code)
    return SimpleNamespace(output=output, overrides=overrides, code=code)


def test_other_settings_are_named(
    interrupted: SimpleNamespace, work: SimpleNamespace, tmp_path: Path
) -> None:
    other = tmp_path / "other.tsv"
    write_iob(other, TRAIN[:3])
    changes = {"training.dropout": 0.3, "paths.train": str(other), "vars.encoder": str(tmp_path)}
    names = ("training.dropout", "corpora.train.path", "components.mslm.model.encoder")
    for (key, value), name in zip(changes.items(), names, strict=True):
        with pytest.raises(ValueError, match=r"other settings or other input files: ") as caught:
            train(
                *(CONFIGS / "mslm.cfg", interrupted.output, {**interrupted.overrides, key: value}),
                resume=True,
                **interrupted.code,
            )
        assert f"settings.{name}" in str(caught.value)


def test_a_damaged_checkpoint_is_an_error(interrupted: SimpleNamespace) -> None:
    state = interrupted.output / "checkpoint" / "state.safetensors"
    content = bytearray(state.read_bytes())
    content[len(content) // 2] ^= 1
    state.write_bytes(content)
    with pytest.raises(ValueError, match=r"state\.safetensors is missing, or was damaged"):
        train(
            *(CONFIGS / "mslm.cfg", interrupted.output, interrupted.overrides),
            resume=True,
            **interrupted.code,
        )


def test_it_is_private_and_has_no_text(interrupted: SimpleNamespace) -> None:
    folder = interrupted.output / "checkpoint"
    files = list(folder.iterdir())
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {file.name for file in files} == {"checkpoint.json", "state.safetensors"}
    for file in files:
        content = file.read_bytes()
        assert b"qxsecret" not in content and b"cisplatin" not in content
    names = load_file(folder / "state.safetensors")
    assert {"random/python", "random/numpy", "random/torch", "batches/starts"} <= names.keys()


def test_a_file_or_another_folder_is_no_checkpoint(work: SimpleNamespace, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="is a file, but the output has to be a folder"):
        train(CONFIGS / "mslm.cfg", tmp_path / "file", work.overrides)
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "notes.txt").touch()
    with pytest.raises(ValueError, match=r"was not made by this step.*delete"):
        train(CONFIGS / "mslm.cfg", tmp_path, work.overrides)


# ---- the stage before training ----


@pytest.mark.parametrize("updates", [pytest.param(5, marks=pytest.mark.slow), 14])
def test_an_interrupted_adaptation_continues(
    updates: int, work: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the teacher (10 updates), and in the adaptation after it: the encoder is the same."""
    from spacy_mslm.pipeline.component import MSLM

    text = tmp_path / "text.txt"
    text.write_text("the patient had asthma after aspirin qxunlabelled .\n" * 20, encoding="utf8")
    stage = "initialize.components.mslm.adaptation"
    small = {f"{stage}.steps": 8, f"{stage}.teacher_steps": 10, f"{stage}.checkpoint_every": 4}
    small |= {
        f"{stage}.corpus.min_confidence": 0.0,
        "training.max_steps": 2,
        "paths.text": str(text),
    }
    overrides = {**work.overrides, **small}
    folders = [tmp_path / name / "adapted" for name in ("whole", "stopped")]
    train(CONFIGS / "mslm.cfg", tmp_path / "a", {**overrides, "paths.adapted": str(folders[0])})

    update, count = MSLM.update, 0

    def stop(self: MSLM, *args: Any, **kwargs: Any) -> dict[str, float]:
        nonlocal count
        count += 1
        if count > updates:
            raise RuntimeError("stopped")
        return update(self, *args, **kwargs)

    overrides["paths.adapted"] = str(folders[1])
    with monkeypatch.context() as patch:
        patch.setattr(MSLM, "update", stop)
        with pytest.raises(RuntimeError, match="stopped"):
            train(CONFIGS / "mslm.cfg", tmp_path / "b", overrides)
    left = {"adapted.teacher-checkpoint", *(["adapted.adaptation-checkpoint"] * (updates > 10))}
    assert {path.name for path in folders[1].parent.iterdir()} == left
    count = 0

    def counted(self: MSLM, *args: Any, **kwargs: Any) -> dict[str, float]:
        nonlocal count
        count += 1
        return update(self, *args, **kwargs)

    monkeypatch.setattr(MSLM, "update", counted)
    train(CONFIGS / "mslm.cfg", tmp_path / "b", overrides, resume=True)
    assert count == 18 + 2 * 3 - 4 * (updates // 4) - 2 * (updates > 10)
    names = ("model.safetensors", "heads.safetensors")
    files = [[(folder / name).read_bytes() for name in names] for folder in folders]
    assert files[0] == files[1]
    assert weights(tmp_path / "a") == weights(tmp_path / "b")
    assert [path.name for path in folders[1].parent.iterdir()] == ["adapted"]


# ---- parts ----


def test_random_states_are_complete() -> None:
    def draw() -> list[float]:
        numbers = [random.random(), random.gauss(0, 1), np.random.normal(), float(torch.rand(1))]
        return [*numbers, np.random.randint(2**31)]

    random.gauss(0, 1), np.random.normal()  # both keep a second number
    state = random_state()
    first = [draw() for _ in range(3)]
    set_random_state(state)
    assert [draw() for _ in range(3)] == first


@pytest.mark.parametrize("max_epochs", [0, -1])
def test_the_stream_goes_on_after_any_batch(max_epochs: int, work: SimpleNamespace) -> None:
    """With a batcher whose sizes change, and with random numbers drawn by others in between."""

    def make(starts: torch.Tensor | None = None) -> Batches:
        sizes = compounding(5.0, 40.0, 1.1)

        def batcher(examples: Iterator[Example]) -> Iterator[list[Example]]:
            return minibatch_by_words(examples, size=sizes)

        nlp = spacy.blank("en")
        corpus = make_corpus(work.overrides["paths.train"], seed=None)
        return Batches(nlp, corpus, batcher, max_epochs, starts)

    def texts(item: tuple[int, list[Example]]) -> tuple[int, list[str]]:
        return item[0], [example.text for example in item[1]]

    random.seed(3)
    batches = make()
    stream, seen, states = iter(batches), [], []
    for _ in range(40):
        seen.append(texts(next(stream)))
        random.random()
        states.append((batches.starts, batches.digest, random.getstate()))
    assert seen[-1][0] >= 2
    for steps in (1, 7, 23):
        starts, digest, state = states[steps - 1]
        stream = skip(make(starts), steps, digest)
        random.setstate(state)
        for expected in seen[steps:]:
            assert texts(next(stream)) == expected
            random.random()


def test_a_reader_that_is_not_repeatable_is_an_error(work: SimpleNamespace) -> None:
    def shuffled(nlp: Language) -> Iterator[Example]:
        examples = list(make_corpus(work.overrides["paths.train"])(nlp))
        np.random.default_rng().shuffle(examples)  # type: ignore[arg-type]
        yield from examples

    def by_one(examples: Iterator[Example]) -> Iterator[list[Example]]:
        return ([example] for example in examples)

    batches = Batches(spacy.blank("en"), shuffled, by_one, -1)
    stream = iter(batches)
    for _ in range(10):
        next(stream)
    again = Batches(spacy.blank("en"), shuffled, by_one, -1, batches.starts)
    with pytest.raises(ValueError, match="cannot be read in the same order"):
        skip(again, 10, batches.digest)
