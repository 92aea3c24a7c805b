"""Several workers take the same steps as one: shares of rows, sums, the death of a worker."""

import json
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from spacy_mslm.masking.weights import MaskWeights
from spacy_mslm.model import workers as groups
from spacy_mslm.model.architecture import build_mslm_v1, set_encoder, shim_of
from spacy_mslm.model.workers import WORTH_PARTS, Workers
from spacy_mslm.tasks import train
from spacy_mslm.tasks.workers import run_workers
from spacy_mslm.training.losses import Terms
from spacy_mslm.training.step import learn

from ..conftest import build_encoder
from ..helpers import DEV, TRAIN, make_rows, write_iob

CONFIG = Path(__file__).parents[2] / "configs" / "mslm.cfg"
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


class Part(Workers):
    """A worker whose sums are computed by the test."""

    def sum(self, values: torch.Tensor) -> torch.Tensor:
        return values

    def sum_gradients(self, parameters: Any) -> None:
        pass


@pytest.mark.parametrize("size", [2, 3])
def test_gradients_of_the_parts_add_up(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each part has other numbers of masks, tags and mentions; means are over all rows."""
    encoder = str(build_encoder(tmp_path, **NO_DROPOUT))
    model = build_mslm_v1(encoder, window=40, context=8)
    model.set_dim("nO", 2)
    set_encoder(model, encoder)
    shim = shim_of(model)
    rows = make_rows([5, 9, 2, 7, 3, 3, 8], seed=1)
    for row in rows:
        row.ids %= 50

    def run(group: Workers) -> tuple[Terms, dict[str, torch.Tensor]]:
        monkeypatch.setattr(groups, "_joined", group)
        weights = (MaskWeights(0.25, 0.75), Terms(0.5, 1.0, 2.0))
        terms = learn(model, shim.wordpieces, rows, 30, *weights)
        named = shim.network.named_parameters()
        gradients = {n: p.grad.to_dense().clone() for n, p in named if p.grad is not None}
        shim.drop_gradients()
        return terms, gradients

    whole, expected = run(Workers())
    parts = [run(Part(rank, size)) for rank in range(size)]
    assert np.sum([terms for terms, _ in parts], axis=0) == pytest.approx(list(whole), rel=1e-5)
    for name, gradient in expected.items():
        found = sum(gradients[name] for _, gradients in parts if name in gradients)
        assert torch.allclose(found, gradient, atol=1e-5), name


# ---- processes ----


def give_rank(fail: bool) -> int:
    group = groups.workers()
    if fail and group.rank == 1:
        raise ValueError("Give another number.")
    parameters = [torch.nn.Parameter(torch.zeros(2)) for _ in range(3)]
    for _ in range(2):  # the second sum uses the memory of the first one
        parameters[0].grad = torch.full((2,), 1.0 + group.rank)
        parameters[1].grad = torch.ones(2) if group.rank else None
        group.sum_gradients(parameters)
        assert [None if p.grad is None else p.grad.tolist() for p in parameters] == [
            [3, 3],
            [1, 1],
            None,
        ]
    long = torch.arange(2 * WORTH_PARTS + 1.0) * (1 + group.rank)
    assert torch.equal(group.sum(long), torch.arange(2 * WORTH_PARTS + 1.0) * 3)
    assert group.sum(torch.ones(0)).shape == (0,)
    check_rows(group)
    shared = torch.full((1,), float(group.rank))
    group.copy_from_first([shared])
    assert shared == 0
    torch.manual_seed(0)
    with group.own_dropout(7):
        own = torch.rand(1)
    total = group.sum(own.clone())
    assert not torch.isclose(total, 2 * own)  # the other one drew another number
    same = torch.rand(1)
    assert torch.equal(group.sum(same.clone()), 2 * same)
    return group.rank


def check_rows(group: Workers) -> None:
    """Sparse gradients stay sparse, with the rows of both workers, unless one of them is dense."""
    first, second, third = (torch.nn.Parameter(torch.zeros(4, 2)) for _ in range(3))
    rows = torch.tensor([[3, 1, 3]]) if group.rank else torch.tensor([[1]])
    for parameter in (first, second):
        parameter.grad = torch.sparse_coo_tensor(rows, torch.ones(rows.shape[1], 2), (4, 2))
    if group.rank:
        second.grad = torch.ones(4, 2)
        third.grad = torch.sparse_coo_tensor(rows, torch.ones(3, 2), (4, 2))
    group.sum_gradients([first, second, third])
    assert first.grad is not None and second.grad is not None and third.grad is not None
    assert first.grad.is_sparse and third.grad.is_sparse and not second.grad.is_sparse
    assert first.grad.to_dense()[:, 0].tolist() == [0, 2, 0, 2]
    assert second.grad[:, 0].tolist() == [1, 2, 1, 1]
    assert third.grad.to_dense()[:, 0].tolist() == [0, 1, 0, 2]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_sums_over_processes_and_errors_of_one_of_them() -> None:
    assert run_workers(2, give_rank, False) == 0
    with pytest.raises(ValueError, match=r"^Give another number"):
        run_workers(2, give_rank, True)


STOP = """
import os, signal
from pathlib import Path
from spacy.util import registry
from spacy_mslm.model.workers import workers

@registry.callbacks("tests.kill.v1")
def make_kill(step: int, output: str):
    def before_update(nlp, at):
        if at["step"] == step and workers().rank == 1 and Path(output).exists():
            Path(output).unlink()
            os.kill(os.getpid(), signal.SIGKILL)
    return before_update
"""


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    root = tmp_path_factory.mktemp("workers")
    write_iob(root / "train.tsv", TRAIN * 3)
    write_iob(root / "dev.tsv", DEV)
    (root / "kill.py").write_text(STOP)
    encoder = build_encoder(root / "encoder", max_position_embeddings=300, **NO_DROPOUT)
    overrides = {
        "paths.train": str(root / "train.tsv"),
        "paths.dev": str(root / "dev.tsv"),
        "vars.encoder": str(encoder),
        "vars.view": "mixed",
        "components.mslm.loss_weights.mlm": 0.5,
        "training.dropout": 0.0,
        "training.max_steps": 8,
        "training.eval_frequency": 4,
        "training.batcher.size": 5,
        "training.accumulate_gradient": 2,
        "system.seed": 1,
    }
    return SimpleNamespace(root=root, overrides=overrides)


def rows_of(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_workers_end_as_one(work: SimpleNamespace) -> None:
    """And with adaptation, whose checkpoint and encoder only the first one writes."""
    text = work.root / "text.txt"
    text.write_text("the patient had asthma after aspirin .\n" * 20, encoding="utf8")
    stage = "initialize.components.mslm.adaptation"
    found = {}
    for workers in (1, 2):
        output = work.root / f"of{workers}"
        overrides = {
            **work.overrides,
            "training.logger.output_file": str(output.with_suffix(".jsonl")),
            "paths.text": str(text),
            "paths.adapted": str(work.root / f"adapted{workers}"),
            f"{stage}.steps": 4,
            f"{stage}.teacher_steps": 4,
            f"{stage}.dropout": 0.0,
            f"{stage}.corpus.min_confidence": 0.0,
        }
        result = train(CONFIG, output, overrides, workers=workers)
        assert result.steps == 9
        weights = output / "model-last" / "mslm" / "weights.safetensors"
        found[workers] = (load_file(weights), rows_of(output.with_suffix(".jsonl")))
    (one, log), (two, other) = found[1], found[2]
    for name, tensor in one.items():
        assert torch.allclose(tensor, two[name], atol=2e-5), name
    assert len(log) == len(other) == 3
    for row, again in zip(log, other, strict=True):
        assert again["losses"] == pytest.approx(row["losses"], rel=1e-3)
        assert (again["step"], again["words"]) == (row["step"], row["words"])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_killed_worker_ends_the_run_which_continues(work: SimpleNamespace) -> None:
    flag = work.root / "flag"
    flag.touch()
    callback = {"@callbacks": "tests.kill.v1", "step": 6, "output": str(flag)}
    overrides = {**work.overrides, "training.before_update": callback}
    arguments = {"workers": 2, "code_path": work.root / "kill.py", "checkpoint_every": 3}
    with pytest.raises(OSError, match=f"Worker 1 was ended by {signal.SIGKILL.name}"):
        train(CONFIG, work.root / "killed", overrides, **arguments)
    ended = time.time()
    assert ended - (work.root / "killed" / "checkpoint").stat().st_mtime < 30
    train(CONFIG, work.root / "killed", overrides, resume=True, **arguments)
    train(CONFIG, work.root / "whole", overrides, **arguments)
    files = [work.root / n / "model-last/mslm/weights.safetensors" for n in ("killed", "whole")]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_an_error_is_told_once(work: SimpleNamespace) -> None:
    """Before any process is started, where that is possible."""
    with pytest.raises(ValueError, match=r"nowhere\.cfg: there is no such file"):
        train(Path("nowhere.cfg"), work.root / "none", {}, workers=2)
