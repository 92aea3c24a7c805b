"""Schedules by hand, and the optimiser against torch's own."""

import pickle
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from spacy.util import load_config, registry
from thinc.api import constant, warmup_linear

from spacy_mslm.model.optimizer import make_adamw
from spacy_mslm.model.schedules import StepSchedule, warmup_decay
from spacy_mslm.training.budget import count_updates, warmup_decay_v2

CONFIGS = Path(__file__).resolve().parents[2] / "configs"


def test_warmup_decay_by_hand():
    values = list(islice(warmup_decay(1.0, total_steps=100, warmup=0.1), 102))
    assert values[0] == 0.0
    assert values[5] == pytest.approx(0.5)
    assert values[10] == pytest.approx(1.0)
    assert values[55] == pytest.approx(0.5)
    assert values[100] == values[101] == 0.0


def test_a_run_without_an_end_cannot_decay():
    with pytest.raises(ValueError, match=r"training\.max_steps"):
        next(warmup_decay(1.0, total_steps=0))


def test_a_run_by_epochs_gets_its_length_from_the_corpus(tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text("word\tO\n\n" * 33, encoding="utf8")
    run = {"batch_size": 16, "corpus": str(path)}

    def values(**settings):
        return list(islice(warmup_decay_v2(1.0, **run, **settings), 40))

    # 33 sentences are 3 batches of 16, so 10 epochs are 30 updates.
    assert values(max_steps=0, max_epochs=10) == list(islice(warmup_decay(1.0, 30), 40))
    assert values(max_steps=20, max_epochs=10) == list(islice(warmup_decay(1.0, 20), 40))
    assert values(max_steps=40, max_epochs=10) == values(max_steps=0, max_epochs=10)
    limited = list(islice(warmup_decay(1.0, 10), 40))
    assert values(max_steps=0, max_epochs=10, limit=16) == limited
    assert values(max_steps="${training.max_steps}", max_epochs="${x}") == [1.0] * 40
    with pytest.raises(ValueError, match=r"training\.max_steps, or training\.max_epochs"):
        values(max_steps=0, max_epochs=0)


@pytest.mark.parametrize(
    ("sentences", "expected"), [(33, 312), (16 * 78, 312), (16 * 78 + 1, 316), (2500, 628)]
)
def test_the_configs_train_for_four_epochs_but_a_number_of_updates(sentences, expected, tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text("word\tO\n\n" * sentences, encoding="utf8")

    def budget(name="vanilla", **overrides):
        changes = {"paths.train": str(path), **overrides}
        config = load_config(CONFIGS / f"{name}.cfg", overrides=changes, interpolate=True)
        keys = ("max_steps", "eval_frequency")
        resolved = registry.resolve({key: config["training"][key] for key in keys})
        return resolved["max_steps"], resolved["eval_frequency"]

    for name in ("vanilla", "mslm", "spacy_ner"):
        assert budget(name) == (expected, expected // 4)
    assert budget(**{"training.max_steps": 100}) == (100, 25)
    assert budget(**{"training.max_steps": 100, "training.eval_frequency": 7}) == (100, 7)
    assert budget(**{"vars.limit": 17, "training.max_steps.epochs": 400})[0] == 800
    assert budget(**{"training.max_steps": 0})[1] > 0
    assert count_updates(None, 16, least=10) == 12  # a multiple of four evaluations


@pytest.mark.parametrize("name", ["vanilla", "mslm", "spacy_ner"])
def test_configs_can_be_trained_by_epochs(name, tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text("word\tO\n\n" * 33, encoding="utf8")
    overrides = {"paths.train": str(path), "training.max_epochs": 10, "training.max_steps": 0}
    config = load_config(CONFIGS / f"{name}.cfg", overrides=overrides, interpolate=True)
    (rate, *_) = [v for k, v in config["training"]["optimizer"].items() if k.endswith("rate")]
    values = list(islice(registry.resolve({"rate": rate})["rate"], 31))
    assert values[0] == 0.0 and values[30] == 0.0
    assert values[3] == max(values) == pytest.approx(rate["rate"])


def test_step_schedule_is_indexed_and_survives_pickling():
    schedule = StepSchedule("mlm", warmup_linear(1.0, 0, 4))
    assert [schedule(step) for step in (2, 0, 4, 9)] == [0.5, 1.0, 0.0, 0.0]
    assert pickle.loads(pickle.dumps(schedule))(2) == 0.5
    assert StepSchedule("mlm", 0.3)(1000) == 0.3
    assert StepSchedule("mlm", constant(2.0))(7) == 2.0
    assert StepSchedule("mlm", [3.0, 1.0])(5) == 1.0  # run out: the last value stays
    with pytest.raises(ValueError, match="no value"):
        StepSchedule("mlm", [])
    with pytest.raises(ValueError, match="cannot be negative"):
        StepSchedule("mlm", -0.5)(0)


def parameters() -> list[torch.nn.Parameter]:
    torch.manual_seed(0)
    return [torch.nn.Parameter(torch.randn(3, 2)), torch.nn.Parameter(torch.randn(2))]


def test_adamw_equals_torch_with_groups_and_global_clipping():
    """Two rates, decay on matrices only, one norm for everything: the reference recipe."""
    ours, theirs = [parameters(), parameters()], [parameters(), parameters()]
    optimizer = make_adamw(1e-2, 5e-2, weight_decay=0.1, grad_clip=1.0)
    reference = torch.optim.AdamW(
        [
            {"params": [theirs[0][0]], "lr": 1e-2, "weight_decay": 0.1},
            {"params": [theirs[0][1]], "lr": 1e-2, "weight_decay": 0.0},
            {"params": [theirs[1][0]], "lr": 5e-2, "weight_decay": 0.1},
            {"params": [theirs[1][1]], "lr": 5e-2, "weight_decay": 0.0},
        ]
    )
    for step in range(5):
        torch.manual_seed(step)
        for mine, other in zip([*ours[0], *ours[1]], [*theirs[0], *theirs[1]], strict=True):
            mine.grad = torch.randn_like(mine) * 10
            other.grad = mine.grad.clone()
        everything = [*theirs[0], *theirs[1]]
        norm = torch.sqrt(sum((p.grad**2).sum() for p in everything))
        assert norm > 1
        for p in everything:
            p.grad /= norm + 1e-6
        reference.step()
        optimizer.step_network(1, *ours)
    for mine, other in zip([*ours[0], *ours[1]], [*theirs[0], *theirs[1]], strict=True):
        assert torch.allclose(mine, other, atol=1e-6)


def test_schedules_drive_both_rates():
    optimizer = make_adamw(warmup_decay(1.0, 10, 0.5), warmup_decay(2.0, 10, 0.5))
    assert (optimizer.learn_rate, optimizer.head_learn_rate) == (0.0, 0.0)
    optimizer.step_schedules()
    assert (optimizer.learn_rate, optimizer.head_learn_rate) == pytest.approx((0.2, 0.4))


def test_momenta_survive_a_resized_head():
    encoder, heads = parameters(), parameters()
    optimizer = make_adamw(1e-2, 1e-2)
    for p in (*encoder, *heads):
        p.grad = torch.ones_like(p)
    optimizer.step_network(1, encoder, heads)
    grown = [torch.nn.Parameter(torch.randn(4, 2)), heads[1]]
    for p in (*encoder, *grown):
        p.grad = torch.ones_like(p)
    optimizer.step_network(1, encoder, grown)
    state = optimizer._networks[1].state
    assert int(state[encoder[0]]["step"]) == 2
    assert int(state[grown[0]]["step"]) == 1


def test_other_models_of_the_pipeline_go_through_thincs_protocol():
    optimizer = make_adamw(0.0, 0.1, weight_decay=0.5)
    matrix, vector = np.ones((2, 2), "float32"), np.ones(2, "float32")
    zero = optimizer((1, "b"), vector.copy(), np.zeros(2, "float32"))[0]
    assert zero == pytest.approx(vector)  # no decay on vectors
    decayed = optimizer((1, "W"), matrix.copy(), np.zeros((2, 2), "float32"))[0]
    assert decayed == pytest.approx(matrix * (1 - 0.1 * 0.5))  # at the heads' rate
