"""A student learns from a teacher: the losses by hand, learning, and going on after a stop."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from spacy_mslm.masking.weights import MaskWeights
from spacy_mslm.model.checkpoints import load_checkpoint
from spacy_mslm.pieces.collate import batch_rows
from spacy_mslm.tasks import pretrain, shrink
from spacy_mslm.training.distillation import DistillationTerms, Teacher, distillation_losses
from spacy_mslm.types import BLM, ELM, UNMASKED, Row

from ..conftest import build_encoder

CONFIG = Path(__file__).parents[2] / "configs" / "pretrain.cfg"
SENTENCES = [
    "the patient had acute renal failure after cisplatin .",
    "no history of diabetes mellitus or asthma .",
    "aspirin and heparin were stopped on day three .",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text, a teacher that has learnt it, and a student with fewer layers and pieces."""
    path = tmp_path_factory.mktemp("distillation")
    (path / "text.txt").write_text("\n".join(SENTENCES * 20), encoding="utf8")
    # All characters in both forms, so that the pieces of the student are a subset.
    shrink(str(build_encoder(path / "encoder")), path / "whole", text=[str(path / "text.txt")])
    run(path, "teacher", encoder="whole", steps=40)
    (path / "words.txt").write_text("the patient had asthma", encoding="utf8")
    shrink(str(path / "teacher"), path / "student", layers=[0], text=[str(path / "words.txt")])
    return path


def run(path: Path, output: str, encoder: str, steps: int = 20, **settings: object) -> list[dict]:
    overrides = {
        "paths.text": str(path / "text.txt"),
        "vars.encoder": str(path / encoder),
        "pretraining.steps": steps,
        "pretraining.checkpoint_every": 10,
        "pretraining.batch_size": 8,
        "pretraining.length": 24,
        "pretraining.optimizer.learn_rate.rate": 0.005,
        **settings,
    }
    return pretrain(CONFIG, path / output, overrides).record["history"]


def batch_of(path: Path):
    _, wordpieces = load_checkpoint(str(path / "student"))
    rows = [
        Row(np.array([7, 8, 9, 10]), np.array([UNMASKED, BLM, UNMASKED, ELM])),
        Row(np.array([11, 12]), np.array([ELM, UNMASKED])),
    ]
    (batch,) = batch_rows(rows, 100, wordpieces)
    return wordpieces, batch


def test_losses_by_hand(folder: Path) -> None:
    _, batch = batch_of(folder)
    # Two rows of six pieces, of which the second has two of padding; three masked pieces.
    student = torch.zeros(12, 2), torch.zeros(3, 4)
    vectors = torch.ones(12, 2)
    vectors[0] = torch.tensor([3.0, 1.0])
    vectors[10:] = 100.0  # padding
    probabilities = torch.tensor([[0.5, 0.5, 0, 0], [0.25] * 4, [1.0, 0, 0, 0]])
    batch.mask_ids = np.array([0, 1, 2])
    totals = DistillationTerms(mlm=2.0, kl=3.0, hidden=10.0)
    mlm, kl, hidden = distillation_losses(
        student,
        (vectors, probabilities.clamp(min=1e-30).log()),
        batch,
        MaskWeights(0.2, 0.8),
        totals,
    )
    weights = sum({BLM: 0.2, ELM: 0.8}[kind] for kind in batch.mask_kinds.tolist())
    assert float(mlm) == pytest.approx(np.log(4) * weights / 2)
    # Against the uniform student: log 2, 0 and log 4.
    assert float(kl) == pytest.approx((np.log(2) + np.log(4)) / 3)
    assert float(hidden) == pytest.approx(((9 + 1) / 2 + 9 * 1) / 10)


def test_without_teacher_s_width_there_is_no_difference_of_vectors(folder: Path) -> None:
    _, batch = batch_of(folder)
    totals = DistillationTerms(1.0, 1.0, 1.0)
    logits = torch.zeros(3, 15)
    terms = distillation_losses(
        (torch.zeros(12, 2), logits),
        (torch.ones(12, 3), logits),
        batch,
        MaskWeights(0.5, 0.5),
        totals,
    )
    assert [float(term) for term in terms][1:] == [0.0, 0.0]


def test_a_teacher_computes_what_it_would_with_its_own_pieces(folder: Path) -> None:
    wordpieces, batch = batch_of(folder)
    model, own = load_checkpoint(str(folder / "teacher"))
    teacher = Teacher(str(folder / "teacher"), wordpieces, torch.device("cpu"))
    vectors, logits = teacher(batch)
    ids, lengths = batch.blocks[0]
    names = wordpieces.tokenizer.id_to_token
    mapped = np.vectorize(lambda i: own.tokenizer.token_to_id(names(int(i))))(ids)
    attention = np.arange(ids.shape[1]) < lengths[:, None]
    found = model(
        torch.tensor(mapped),
        attention_mask=torch.tensor(attention).long(),
        output_hidden_states=True,
    )
    real = torch.tensor(attention).flatten()
    expected = found.hidden_states[-1].flatten(0, 1)
    assert torch.allclose(vectors[real], expected[real], atol=1e-5)
    columns = [own.tokenizer.token_to_id(names(i)) for i in range(logits.shape[1])]
    expected = found.logits.flatten(0, 1)[torch.tensor(batch.mask_at)][:, columns]
    assert torch.allclose(logits, expected, atol=1e-4)
    assert not logits.requires_grad


def test_a_student_comes_closer_to_its_teacher(folder: Path) -> None:
    def last(name: str, kl: float, hidden: float) -> dict:
        weights = {"pretraining.kl_weight": kl, "pretraining.hidden_weight": hidden}
        settings = {"paths.teacher": str(folder / "teacher"), **weights}
        history = run(folder, name, "student", steps=30, **settings)
        assert history[-1]["loss"] < history[0]["loss"]
        return history[-1]

    alone, taught = last("alone", 0.0, 0.0), last("taught", 10.0, 30.0)
    assert taught["kl"] < 0.5 * alone["kl"]
    assert taught["hidden"] < 0.5 * alone["hidden"]


def test_a_run_that_stopped_goes_on_as_if_it_had_not(folder: Path, monkeypatch) -> None:
    settings = {"paths.teacher": str(folder / "teacher")}
    whole = run(folder, "whole_run", "student", **settings)

    from spacy_mslm.training import pretraining

    learn_rows = pretraining.distil
    steps = []

    def stop(*args):
        steps.append(None)
        if len(steps) > 15:
            raise KeyboardInterrupt
        return learn_rows(*args)

    with monkeypatch.context() as patch:
        patch.setattr(pretraining, "distil", stop)
        with pytest.raises(KeyboardInterrupt):
            run(folder, "stopped", "student", **settings)
    record = json.loads((folder / "stopped" / "pretraining.json").read_text())
    assert record["step"] == 10
    continued = run(folder, "stopped", "student", **settings)
    assert [{**row, "pieces_per_second": 0} for row in whole] == [
        {**row, "pieces_per_second": 0} for row in continued
    ]
    one, two = (load_file(folder / name / "model.safetensors") for name in ("whole_run", "stopped"))
    assert all(np.array_equal(one[name], two[name]) for name in one)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"paths.teacher": "{}/student", "vars.encoder": "{}/teacher"},
            "cannot teach this encoder",
        ),
        ({"paths.teacher": "{}/teacher", "vars.encoder": None}, "needs an encoder"),
        ({"paths.teacher": "{}/teacher", "pretraining.kl_weight": -1.0}, "0 or more"),
        ({"paths.teacher": "{}/nowhere"}, "Could not load the encoder"),
    ],
)
def test_what_cannot_work_is_said(folder: Path, settings, message) -> None:
    settings = {k: v.format(folder) if isinstance(v, str) else v for k, v in settings.items()}
    with pytest.raises(ValueError, match=message):
        run(folder, "impossible", "student", **settings)
