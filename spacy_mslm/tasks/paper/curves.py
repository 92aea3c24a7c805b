"""Figures 3 and 6: F1 in the course of training."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ...scoring.seeds import Spread, spread
from ..curves import Curve, read_curve
from . import specs
from .lines import Line, Ours
from .published import show_name

FOLDER = "curves"


class Pair(NamedTuple):
    """The curves of vanilla and MSLM on a set, with the same seed."""

    dataset: str
    seed: int
    vanilla: Curve
    mslm: Curve


def find_pairs(results: Path) -> Iterator[Pair]:
    """Yield the pairs of logs curves/{vanilla,mslm}-SET-sSEED.jsonl, also one folder below."""
    for path in sorted([*results.glob(f"{FOLDER}/*"), *results.glob(f"*/{FOLDER}/*")]):
        other = path.with_name(path.name.replace("vanilla-", "mslm-", 1))
        dataset, _, seed = path.stem.removeprefix("vanilla-").rpartition("-s")
        if path.name.startswith("vanilla-") and other.exists() and seed.isdigit():
            curves = [
                read_curve(log)._replace(name=name)
                for log, name in ((path, "vanilla"), (other, "mslm"))
            ]
            yield Pair(dataset, int(seed), curves[0], curves[1])


def curve_lines(results: Path, command: str) -> list[Line]:
    """Return the best F1 of both models, and the updates that MSLM takes to that of vanilla.

    Args:
        results: The folder of the results.
        command: The command that writes the logs.
    """
    by_set: dict[str, list[Pair]] = {name: [] for name in specs.sets_of("vanilla")}
    for pair in find_pairs(results):
        by_set.setdefault(pair.dataset, []).append(pair)
    lines = []
    for dataset, pairs in by_set.items():
        for model in ("vanilla", "mslm"):
            best = [getattr(pair, model).best for pair in pairs]
            labels = (show_name(dataset), model, "best F1")
            lines.append(_line(labels, spread(best) if best else None, command))
        for model in ("vanilla", "mslm"):
            labels = (show_name(dataset), model, "updates to the best F1 of vanilla")
            lines.append(_line(labels, _updates(pairs, model), command, decimals=0))
    return lines


def _updates(pairs: list[Pair], model: str) -> Spread | None:
    """Return how many updates a model takes, NaN if it does not get there with every seed."""
    if not pairs:
        return None
    found = [getattr(pair, model).reaches(pair.vanilla.best) for pair in pairs]
    known = [step for step in found if step is not None]
    return spread(known) if len(known) == len(found) else Spread(float("nan"), None, len(found))


def _line(
    labels: tuple[str, ...], value: Spread | None, command: str, *, decimals: int = 1
) -> Line:
    if value is None:
        return Line(labels, "", {}, command)
    return Line(labels, "", {"clean": Ours(value, decimals=decimals)})


def curve_panels(results: Path) -> list[tuple[str, list[Curve]]]:
    """Return the curves to draw, in one panel per set, those of the first seed."""
    panels: dict[str, list[Curve]] = {}
    for pair in find_pairs(results):
        panels.setdefault(f"{show_name(pair.dataset)}, dev", [pair.vanilla, pair.mslm])
    return list(panels.items())
