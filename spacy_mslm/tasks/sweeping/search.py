"""Searches: which settings are tried next, given the results so far.

A search proceeds in rounds. The settings of a round depend on the spec and on the results of the
rounds before, and on nothing else. So a search that was interrupted continues with the same
trials, and one on a Ray cluster has the same trials as one on this machine, however many trials run
at once. That is why nothing here is asynchronous, at the price of workers that are idle at the end
of a round.

    random    one round of settings drawn at random
    halving   the settings of `random` with few updates, the best of them with more, and so on
    optuna    rounds of `batch` settings that Optuna's TPE sampler suggests (extra `optuna`)
"""

import hashlib
import json
import math
import random
import re
import warnings
from collections.abc import Mapping, Sequence
from statistics import mean
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from ...util.settings import check_at_least, check_between

if TYPE_CHECKING:
    from .spec import Spec, Trial

METHODS = ("random", "halving", "optuna")
STEPS = "training.max_steps"

Settings: TypeAlias = dict[str, Any]
# F1 of finished trials by their key; None for those that failed.
Found: TypeAlias = Mapping[str, float | None]


class Range(NamedTuple):
    """The values of a setting between two numbers.

    Attributes:
        log: Draw the logarithm evenly, as for learn rates.
        int: Draw whole numbers.
    """

    low: float
    high: float
    log: bool = False
    int: bool = False

    def check(self, setting: str) -> None:
        """Raise a ValueError if there are no such values."""
        if not self.low < self.high or (self.log and self.low <= 0):
            raise ValueError(
                f"the range of {setting} is from {self.low} to {self.high}, but 'low' must be less "
                "than 'high', and greater than 0 if 'log' is set."
            )

    def draw(self, generator: random.Random) -> float:
        """Draw a value, with four digits so that it can be read."""
        if self.int and not self.log:
            return generator.randint(round(self.low), round(self.high))
        ends = (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)
        value = generator.uniform(*ends)
        value = math.exp(value) if self.log else value
        return round(value) if self.int else float(f"{value:.4g}")


class Search(NamedTuple):
    """A search.

    Attributes:
        values: A range or a list of values for each setting.
        method: One of METHODS.
        trials: The number of settings that are drawn.
        seed: The seed of the draws.
        batch: optuna: the number of settings in a round.
        steps: halving: the numbers of updates (`training.max_steps`) of the rounds, rising.
        keep: halving: the share of the settings that go on to the next round.
    """

    values: dict[str, Range | list]
    method: str = "random"
    trials: int = 20
    seed: int = 0
    batch: int = 4
    steps: Sequence[int] = ()
    keep: float = 1 / 3

    def check(self) -> None:
        """Raise a ValueError if a setting is wrong, or an ImportError without Optuna."""
        if self.method not in METHODS:
            raise ValueError(f"the method is {self.method!r}. Use one of: {', '.join(METHODS)}.")
        check_at_least("trials of the search", self.trials, 1)
        check_at_least("batch of the search", self.batch, 1)
        check_between("keep of the search", self.keep, 0, 1)
        for setting, value in self.values.items():
            if isinstance(value, Range):
                value.check(setting)
        if self.method == "halving" and (
            not self.steps or list(self.steps) != sorted(set(self.steps)) or self.steps[0] < 1
        ):
            raise ValueError("halving needs 'steps', rising numbers of updates such as [100, 300].")
        if self.method == "optuna":
            _import_optuna()

    def candidates(self) -> list[tuple[str, Settings]]:
        """Return name and settings of each draw. The first ones stay the same with more trials."""
        drawn = []
        for i in range(self.trials):
            generator = random.Random(f"{self.seed}-{i}")
            settings = {
                setting: value.draw(generator)
                if isinstance(value, Range)
                else generator.choice(value)
                for setting, value in self.values.items()
            }
            drawn.append((f"search-{i:03}", settings))
        return drawn

    def some_trials(self, spec: "Spec") -> "list[Trial]":
        """Return trials whose settings are checked before a search: with each listed value, and
        with the ends of each range."""
        if self.method == "random":
            return []
        ends = {s: [v.low, v.high] if isinstance(v, Range) else v for s, v in self.values.items()}
        number = max(len(values) for values in ends.values())
        rows = [{s: v[i % len(v)] for s, v in ends.items()} for i in range(number)]
        if self.method == "halving":
            rows = [{**row, STEPS: self.steps[0]} for row in rows]
        named = [(f"search-check-{i}", row) for i, row in enumerate(rows)]
        return [t for name, row in named for t in spec.make_trials(name, row)]

    def next_round(self, spec: "Spec", found: Found) -> "list[Trial]":
        """Return the trials of the rounds up to the first one that is not finished.

        Args:
            spec: The spec.
            found: The results so far.
        """
        if self.method == "halving":
            return self._halving(spec, found)
        return self._optuna(spec, found) if self.method == "optuna" else []

    def _halving(self, spec: "Spec", found: Found) -> "list[Trial]":
        left = self.candidates()
        trials = []
        for steps in self.steps:
            runs = {
                name: spec.make_trials(f"{name}@{steps}", {**settings, STEPS: steps})
                for name, settings in left
            }
            trials += [trial for own in runs.values() for trial in own]
            scores = {name: score_of(own, found) for name, own in runs.items()}
            if any(trial.key not in found for own in runs.values() for trial in own):
                break
            n = max(1, math.ceil(self.keep * len(left)))
            left = sorted(left, key=lambda candidate: -scores[candidate[0]])[:n]
        return trials

    def _optuna(self, spec: "Spec", found: Found) -> "list[Trial]":
        optuna = _import_optuna()
        kinds = {setting: _distribution(optuna, value) for setting, value in self.values.items()}
        trials: list[Trial] = []
        done: list[Any] = []
        for first in range(0, self.trials, self.batch):
            # A new study for each round: its suggestions depend on the rounds before only.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that constant_liar is experimental
                sampler = optuna.samplers.TPESampler(seed=self.seed + first, constant_liar=True)
            study = optuna.create_study(direction="maximize", sampler=sampler)
            study.add_trials(done)
            names = [f"search-{i:03}" for i in range(first, min(first + self.batch, self.trials))]
            asked = {name: study.ask(kinds).params for name in names}
            runs = {name: spec.make_trials(name, _plain(self, p)) for name, p in asked.items()}
            trials += [trial for own in runs.values() for trial in own]
            if any(trial.key not in found for own in runs.values() for trial in own):
                break
            for name, own in runs.items():
                score = score_of(own, found)
                failed = score == -math.inf
                done.append(
                    optuna.trial.create_trial(
                        params=asked[name],
                        distributions=kinds,
                        state=getattr(optuna.trial.TrialState, "FAIL" if failed else "COMPLETE"),
                        value=None if failed else score,
                    )
                )
        return trials


def score_of(trials: "Sequence[Trial]", found: Found) -> float:
    """Return the mean F1 of trials, minus infinity if one of them failed or is missing."""
    scores = [found.get(trial.key) for trial in trials]
    known = [score for score in scores if score is not None]
    return mean(known) if len(known) == len(scores) else -math.inf


def shown(value: Any) -> str:
    """Return a value as part of a name. A block is named by its function and a digest."""
    if isinstance(value, dict | list):
        digest = hashlib.blake2b(json.dumps(value, sort_keys=True).encode(), digest_size=2)
        names = [v for k, v in value.items() if k[0] == "@"] if isinstance(value, dict) else []
        return "-".join([*map(shown, names), digest.hexdigest()])
    return re.sub(r"[^\w.+-]+", "-", str(value)).strip("-.") or "none"


def _import_optuna() -> Any:
    try:
        import optuna
    except ImportError as err:
        raise ImportError(
            f"the method optuna needs Optuna ({err}). Install it with 'pip install "
            '"spacy-mslm[optuna]"\'.'
        ) from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def _distribution(optuna: Any, value: Range | list) -> Any:
    if isinstance(value, list):
        # Optuna takes plain values only; blocks and lists are numbered.
        return optuna.distributions.CategoricalDistribution(list(range(len(value))))
    kind = "IntDistribution" if value.int else "FloatDistribution"
    low, high = (round(value.low), round(value.high)) if value.int else (value.low, value.high)
    return getattr(optuna.distributions, kind)(low, high, log=value.log)


def _plain(search: Search, params: Settings) -> Settings:
    """Replace the numbers of listed values by the values."""
    pairs = ((setting, params[setting], search.values[setting]) for setting in search.values)
    return {s: kinds[p] if isinstance(kinds, list) else p for s, p, kinds in pairs}
