"""Searches depend on the results before and on nothing else."""

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_mslm.tasks.sweeping.search import STEPS, Range, Search
from spacy_mslm.tasks.sweeping.spec import Files, Spec

VALUES: dict[str, Range | list] = {
    "vars.elm_rate": Range(0.25, 1.0),
    "vars.view": ["clean", "mixed"],
}


def make_spec(search: Search) -> Spec:
    files = {"a": Files("a", "a", "a"), "b": Files("b", "b", "b")}
    return Spec(
        *(Path("spec.yml"), Path("runs"), "dev", None, None, None, False, ()),
        *(files, (0, 1), [], search, "mslm"),
    )


@given(
    st.floats(1e-6, 10),
    st.floats(1.01, 1e3),
    st.booleans(),
    st.integers(0, 100),
    st.integers(1, 10),
)
def test_draws_are_in_their_range_and_stay(low, factor, log, seed, more) -> None:
    values: dict[str, Range | list] = {"x": Range(low, low * factor, log), "y": [1, {"@misc": "z"}]}
    some = Search(values, trials=3, seed=seed).candidates()
    assert Search(values, trials=3 + more, seed=seed).candidates()[:3] == some
    for _, settings in some:
        # They are rounded to four digits.
        assert low * 0.999 <= settings["x"] <= low * factor * 1.001
        assert settings["y"] in values["y"]


def test_whole_numbers_are_drawn_with_both_ends() -> None:
    values = {"x": Range(1, 3, int=True)}
    drawn = {settings["x"] for _, settings in Search(values, trials=50).candidates()}
    assert drawn == {1, 2, 3}


def quality(trial) -> float:
    """A score that only the settings and the set determine."""
    return trial.varied["vars.elm_rate"] + (0.1 if trial.set == "b" else 0)


def run(search: Search, generator: random.Random, failing: str = "") -> dict[str, float | None]:
    """Finish trials in any order, one at a time."""
    spec = make_spec(search)
    found: dict[str, float | None] = {}
    while left := [t for t in search.next_round(spec, found) if t.key not in found]:
        trial = generator.choice(left)
        found[trial.key] = None if trial.name.split("@")[0] == failing else quality(trial)
    return found


HALVING = Search(VALUES, "halving", trials=9, steps=[10, 30, 90])


@given(st.randoms(use_true_random=False))
def test_halving_is_the_same_in_any_order(generator) -> None:
    assert run(HALVING, generator).keys() == run(HALVING, random.Random(0)).keys()


def test_halving_gives_more_updates_to_the_best_third() -> None:
    found = run(HALVING, random.Random(0))
    rounds = {
        steps: {key.split("@")[0] for key in found if f"@{steps}-" in key} for steps in (10, 30, 90)
    }
    rates = {name: settings["vars.elm_rate"] for name, settings in HALVING.candidates()}
    order = sorted(rates, key=lambda name: -rates[name])
    assert rounds == {10: set(order), 30: set(order[:3]), 90: {order[0]}}
    # Each with all sets and seeds.
    assert len(found) == (9 + 3 + 1) * 4
    trials = HALVING.next_round(make_spec(HALVING), found)
    assert {t.overrides[STEPS] for t in trials if "@30" in t.name} == {30}


def test_what_fails_does_not_go_on() -> None:
    rates = {name: settings["vars.elm_rate"] for name, settings in HALVING.candidates()}
    best = max(rates, key=lambda name: rates[name])
    found = run(HALVING, random.Random(0), failing=best)
    assert not [key for key in found if key.startswith(f"{best}@30")]
    assert len(found) == (9 + 3 + 1) * 4


def test_optuna_continues_with_the_same_trials() -> None:
    pytest.importorskip("optuna", reason="needs the extra optuna")
    search = Search(VALUES, "optuna", trials=12, batch=4, seed=1)
    spec = make_spec(search)
    found = run(search, random.Random(0))
    assert len(found) == 12 * 4
    again = {t.key: t.varied for t in search.next_round(spec, found)}
    # From the results of the first two rounds, as after an interruption.
    first = {key: score for key, score in found.items() if key < "search-008"}
    assert {t.key: t.varied for t in search.next_round(spec, first)} == again
    assert all(0.25 <= settings["vars.elm_rate"] <= 1 for settings in again.values())
    # Other results lead to other suggestions, but only from the second round on.
    other = {key: 1 - (score or 0) for key, score in first.items()}
    changed = {t.key: t.varied for t in search.next_round(spec, other)}
    assert changed.keys() == again.keys()
    same = {key.split("-")[1] for key in changed if changed[key] == again[key]}
    assert {"000", "001", "002", "003"} <= same
