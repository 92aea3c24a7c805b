"""`spacy mslm curves`: the log of the logger, as a picture."""

import io
import json
from pathlib import Path

import pytest

from spacy_mslm.tasks.curves import Curve, draw_training, read_curve

from ..commands import run_spacy

pytest.importorskip("matplotlib")


def write_log(path: Path, scores: list[float], tail: str = "") -> Path:
    rows = [
        {"epoch": 0, "step": 10 * i, "losses": {}, "scores": {"ents_f": f}, "score": f}
        for i, f in enumerate(scores, start=1)
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + tail)
    return path


def test_a_curve_knows_its_best_value_and_when_it_reaches_another(tmp_path: Path) -> None:
    curve = read_curve(write_log(tmp_path / "mslm.jsonl", [0.1, 0.55, 0.4]))
    assert curve == Curve("mslm", [10, 20, 30], pytest.approx([10.0, 55.0, 40.0]))
    assert curve.best == pytest.approx(55.0)
    assert (curve.reaches(30), curve.reaches(55), curve.reaches(56)) == (20, 20, None)
    assert read_curve(tmp_path / "mslm.jsonl", "score").values == pytest.approx([10.0, 55.0, 40.0])


def test_a_running_training_may_have_an_incomplete_line(tmp_path: Path) -> None:
    log = write_log(tmp_path / "a.jsonl", [0.1, 0.2], '{"epoch": 0, "st')
    assert read_curve(log).steps == [10, 20]


@pytest.mark.parametrize("tail", ["{}\n", "[]\n", "broken\n"])
def test_what_is_no_log_is_named(tmp_path: Path, tail: str) -> None:
    log = write_log(tmp_path / "a.jsonl", [0.1], tail)
    with pytest.raises(ValueError, match=r"a\.jsonl, line 2, is not a row of a training log"):
        read_curve(log)


def test_a_score_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no score 'x'. It has: ents_f, score"):
        read_curve(write_log(tmp_path / "a.jsonl", [0.1]), "x")
    with pytest.raises(ValueError, match="It has no evaluation yet"):
        read_curve(write_log(tmp_path / "b.jsonl", []))


def test_logs_of_the_same_name_are_told_apart(tmp_path: Path) -> None:
    logs = [write_log(tmp_path / name / "log.jsonl", [0.1, 0.3]) for name in ("one", "two")]
    curves = draw_training(logs, tmp_path / "out.png")
    assert [curve.name for curve in curves] == [str(log) for log in logs]


def test_the_command_draws_a_picture(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    logs = [write_log(tmp_path / f"{name}.jsonl", [0.1, 0.5]) for name in ("vanilla", "mslm")]
    output = tmp_path / "curves.png"
    result = run_spacy("mslm", "curves", *logs, output)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "50.0" in result.stdout and "vanilla" in result.stdout
    picture = image.open(io.BytesIO(output.read_bytes()))
    assert picture.size[0] == 900
    colours = {colour for _, colour in picture.convert("RGB").getcolors(1_000_000)}
    assert {(8, 48, 107), (217, 72, 1)} <= colours  # both lines
    wrong = run_spacy("mslm", "curves", logs[0], logs[1])
    assert wrong.returncode == 1 and "must be a .png file" in " ".join(wrong.stdout.split())
