"""Training curves: scores by update, from the logs of `spacy_mslm.ConsoleLogger.v1`."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from ..util.files import replace_file

SCORE = "ents_f"


class Curve(NamedTuple):
    """A score in the course of a training.

    Attributes:
        name: The name of the training.
        steps: The update of each evaluation.
        values: The score in percent.
    """

    name: str
    steps: list[int]
    values: list[float]

    @property
    def best(self) -> float:
        return max(self.values)

    def reaches(self, value: float) -> int | None:
        """Return the first update with at least this score, None if there is none."""
        found = (s for s, v in zip(self.steps, self.values, strict=True) if v >= value)
        return next(found, None)


def draw_training(logs: Sequence[Path], output: Path, *, score: str = SCORE) -> list[Curve]:
    """Draw the course of one or more trainings, one line for each.

    Args:
        logs: JSON lines, written by `spacy_mslm.ConsoleLogger.v1` with an `output_file`.
        output: The .png file to write.
        score: The score to draw, such as "ents_f" or "mslm_masked_f".

    Returns:
        The curves.

    Raises:
        ValueError: If a file is not a log, or lacks the score.
        ImportError: If the extra `plots` is not installed.
    """
    if output.suffix.lower() != ".png":
        raise ValueError(f"The output {output} must be a .png file.")
    if not logs:
        raise ValueError("There is no log to draw. Give one or more files, then the output.")
    draw = find_drawing()
    curves = [read_curve(path, score) for path in logs]
    names = [curve.name for curve in curves]
    if len(set(names)) < len(names):  # of several folders
        curves = [c._replace(name=str(p)) for c, p in zip(curves, logs, strict=True)]
    replace_file(output, draw([("", curves)], score))
    return curves


def find_drawing() -> Callable[[Sequence[tuple[str, Sequence[Curve]]], str], bytes]:
    """Return `draw_curves`, or raise an ImportError that names the extra."""
    try:
        from .training_plot import draw_curves
    except ImportError as err:
        raise ImportError(
            f"Curves require matplotlib ({err}). Install it with 'pip install "
            '"spacy-mslm[plots]"\'.'
        ) from None
    return draw_curves


def read_curve(path: Path, score: str = SCORE) -> Curve:
    """Read a score from a log. The last line may be incomplete: the training may be running."""
    curve = Curve(path.stem, [], [])
    lines = path.read_text(encoding="utf8").splitlines(keepends=True)
    known: set[str] = set()
    for number, line in enumerate(lines, start=1):
        if not line.endswith("\n"):
            break
        try:
            row = json.loads(line)
            scores = {**row["scores"], "score": row["score"]}
            step = int(row["step"])
        except (ValueError, KeyError, TypeError):
            raise ValueError(
                f"{path}, line {number}, is not a row of a training log. Write one with "
                "--training.logger.output_file FILE.jsonl (spacy_mslm.ConsoleLogger.v1)."
            ) from None
        known |= scores.keys()
        if score in scores:
            curve.steps.append(step)
            curve.values.append(100 * float(scores[score]))
    if not curve.steps:
        has = f"It has: {', '.join(sorted(known))}." if known else "It has no evaluation yet."
        raise ValueError(f"{path} has no score {score!r}. {has}")
    return curve
