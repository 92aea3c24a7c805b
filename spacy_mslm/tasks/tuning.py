"""Find masking rates, view and length of the adaptation for a corpus, and say how sure that is.

    settings ──> short trainings ──best third──> full trainings ──best──> challenger
                        one half of dev, one seed                            │
                  other half of dev, other seeds: default <── compared ──────┘

The challenger is chosen on one half of the dev set and compared with the default settings on the
other half, with seeds that the search has not seen. So the interval is not the optimism of the
search: it was neither chosen for these sentences nor for a lucky seed.
"""

import json
import math
import random
import shutil
import time
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import numpy as np
from spacy.util import registry

from ..engine.place import Engine
from ..scoring.bootstrap import Difference, f1_difference, paired_bootstrap
from ..scoring.counts import unpack
from ..types import no_ints
from ..util.files import replace_files
from ..util.settings import check_at_least
from .configs import plain_errors, read_raw_config
from .sweeping.results import Row, SweepFolder, row_key
from .sweeping.search import Found, shown
from .sweeping.spec import Files, Spec, Trial, check_trials
from .sweeping.sweep import Resources, Watch, find_resources, run_trials
from .sweeping.trial import Outcome, TrialRunner
from .training import check_training

SET = "dev"
DEFAULT = "default"
CONFIG, REPORT = "config.cfg", "tuning.json"
ELM_RATES = (0.25, 0.5, 0.75, 1.0)
BLM_RATES = (0.0, 0.075, 0.15, 0.225)
VIEWS = ("clean", "mixed")  # the masked view learns nothing for clean text
LENGTHS = (0.5, 1, 2)  # of the adaptation, to that of the config
SHORT = 3  # a short training has a third of the updates, and a third of the settings goes on
EVALUATED = 100  # documents of dev that a training evaluates; the trial is scored on all

Settings = dict[str, Any]


class Tuned(NamedTuple):
    """What was found.

    Attributes:
        path: The config that was written.
        better: Whether it is the challenger's. Otherwise it is the default.
        settings: The settings of the challenger.
        difference: Its F1 minus that of the default, in points, with the 95 % interval.
        default_f, challenger_f: F1 on the same documents, mean over the seeds.
        documents: The number of documents of the comparison.
        seeds: The seeds of the comparison.
        trials: The number of trainings that were finished.
        tried: The number of settings that the time sufficed to try beside the default.
    """

    path: Path
    better: bool
    settings: Settings
    difference: Difference
    default_f: float
    challenger_f: float
    documents: int
    seeds: tuple[int, ...]
    trials: int
    tried: int


def tune(
    config_path: Path,
    output: Path,
    overrides: Mapping[str, Any] | None = None,
    *,
    minutes: float = 60,
    seed: int = 0,
    seeds: int = 3,
    jobs: int | None = None,
    threads: int | None = None,
    gpu_id: int = -1,
    engine: Engine = Engine.local,
    address: str | None = None,
    gpus: float = 0.0,
    watch: Watch | None = None,
) -> Tuned:
    """Search for better settings than those of a config, and write the config that is better.

    Nothing is proven by a small difference: unless the whole interval is above 0, the default is
    written. An interrupted search continues; its time limit counts from the start again.

    Args:
        config_path: A training config with masks, such as `configs/mslm.cfg`.
        output: Folder for the trials, `config.cfg` and `tuning.json`.
        overrides: Settings by their dotted name, such as {"paths.train": "train.spacy"}.
        minutes: The time for all, of which the first training tells how many settings it allows.
        seed: The seed of the search: which settings are tried, with which half of dev.
        seeds: The number of other seeds for the comparison.
        jobs, threads, gpu_id, engine, address, gpus, watch: As in `sweep`.

    Raises:
        ValueError: If the config has nothing to tune, or the time does not suffice for a search.
    """
    start = time.time()
    check_at_least("minutes", minutes, 0)
    check_at_least("seed", seed, 0)
    check_at_least("seeds", seeds, 1)
    resources = find_resources(jobs, threads, gpu_id, Engine(engine), address, gpus)
    resources.place.check()
    folder = SweepFolder(output)
    space = Space(config_path, dict(overrides or {}))
    spec = space.spec(folder.path, seed)
    # Those of the other settings differ in values only.
    check_trials(spec._replace(trials=spec.trials[:3]))
    folder.open(spec)
    search = _Search(space, spec, folder, resources, _Cleaner(watch))
    search.train_default()
    plan = search.plan(start, minutes, seeds)
    challenger = search.run(plan)
    return search.compare(challenger, plan)


class Space:
    """The settings that a config can be tuned in.

    Args:
        config_path: The config.
        overrides: Settings of the user.

    Raises:
        ValueError: If masks make no difference with this config.
    """

    def __init__(self, config_path: Path, overrides: Settings) -> None:
        self.config_path = config_path
        self.overrides = overrides
        raw = read_raw_config(config_path, overrides)
        with plain_errors(config_path):
            check_training(raw)
            self.config = raw.interpolate()
        names = [n for n, c in self.config["components"].items() if c.get("factory") == "mslm"]
        if len(names) != 1:
            raise ValueError(f"{config_path} has no mslm pipe. Start from configs/mslm.cfg.")
        self.name = names[0]
        self.pipe = self.config["components"][self.name]
        if self.pipe["masking"].get("@misc", "").startswith("spacy_mslm.NoMasking"):
            raise ValueError(
                f"{config_path} has no masks, so there is nothing to tune. Start from "
                "configs/mslm.cfg."
            )
        self.steps = self._steps()
        self.stage = self._stage()

    def candidates(self) -> list[Settings]:
        """Return all settings that differ from the default."""
        blocks: dict[str, Sequence] = {
            "vars.view": VIEWS,
            "vars.elm_rate": ELM_RATES,
            "vars.blm_rate": BLM_RATES,
        }
        if self.stage is not None:
            blocks[f"{self._prefix}.steps"] = [round(n * self.stage["steps"]) for n in LENGTHS]
        points = [dict(zip(blocks, values, strict=True)) for values in product(*blocks.values())]
        different: list[Settings] = []
        own = self._effective({name: self._default(name) for name in blocks})
        for point in map(self._effective, points):
            if point != own and point not in different:
                different.append(point)
        return different

    def short(self, settings: Settings) -> Settings:
        """Return settings for a training with a third of the updates."""
        steps = max(1, self.steps // SHORT)
        short = {**settings, "training.max_steps": steps, "training.eval_frequency": steps}
        if self.stage is not None:
            name = f"{self._prefix}.steps"
            own = settings[name] if name in settings else self.stage["steps"]
            short[name] = max(1, own // SHORT)
        return short

    def spec(self, folder: Path, seed: int) -> Spec:
        """Return a spec with all settings, short and full, for one seed."""
        paths = self.config["paths"]
        missing = [name for name in ("train", "dev") if not paths.get(name)]
        missing += [
            str(paths[n])
            for n in ("train", "dev")
            if n not in missing and not Path(paths[n]).exists()
        ]
        if missing:
            raise ValueError(
                f"{self.config_path}: {', '.join(missing)} of [paths] is missing. Give "
                "--paths.train and --paths.dev."
            )
        base = {**self.overrides, "training.eval_frequency": self.steps}
        if self.config["corpora"]["dev"].get("@readers") == "spacy_mslm.Corpus.v1":
            base["corpora.dev.limit"] = EVALUATED
        base[f"components.{self.name}.score_perplexity"] = False
        if self.stage is not None:
            base["paths.adapted"] = "{output}/adapted/{name}-s{seed}"
            base[f"{self._prefix}.seed"] = "{seed}"
        spec = Spec(
            *(self.config_path, folder, SET, None, None, None, False, ()),
            sets={SET: Files(str(paths["train"]), str(paths["dev"]), None)},
            seeds=(seed,),
            trials=[],
            config=str(self.config_path),
            overrides={k: v for k, v in base.items() if k not in ("paths.train", "paths.dev")},
        )
        trials = spec.make_trials(DEFAULT, {})
        for settings in self.candidates():
            trials += spec.make_trials(name_of(settings), settings)
            trials += spec.make_trials(f"{name_of(settings)}@short", self.short(settings))
        return spec._replace(trials=trials)

    @property
    def _prefix(self) -> str:
        return f"initialize.components.{self.name}.adaptation"

    def _default(self, name: str) -> Any:
        value: Any = self.config
        for part in name.split("."):
            value = value[part]
        return value

    def _effective(self, point: Settings) -> Settings:
        """Return a point without rates that change nothing: nobody looks at the masks."""
        learns = self.pipe.get("loss_weights", {}).get("mlm", 1.0) != 0
        if self.stage is not None or learns or point["vars.view"] != "clean":
            return point
        return {"vars.view": point["vars.view"]}

    def _steps(self) -> int:
        value = self.config["training"]["max_steps"]
        steps = int(registry.resolve({"max_steps": value})["max_steps"])
        if not steps:
            raise ValueError(
                f"{self.config_path}: tuning needs the number of updates. Set training.max_steps."
            )
        return steps

    def _stage(self) -> Settings | None:
        """Return the settings of the adaptation, None if there is no text for it."""
        stage = self.config["initialize"]["components"].get(self.name, {}).get("adaptation")
        return stage if stage and self.config["paths"].get("text") else None


class Plan(NamedTuple):
    """How the time is used.

    Attributes:
        candidates: The number of settings that are tried.
        seeds: The seeds of the comparison.
        until: The time after which no training of the search is started.
    """

    candidates: int
    seeds: tuple[int, ...]
    until: float


class _Search:
    def __init__(
        self,
        space: Space,
        spec: Spec,
        folder: SweepFolder,
        resources: Resources,
        watch: "_Cleaner",
    ) -> None:
        self.space = space
        self.spec = spec
        self.folder = folder
        self.resources = resources
        self.watch = watch
        self.runner = TrialRunner(spec, folder, resources.threads, resources.gpu)
        self.seed = spec.seeds[0]
        self.tried = 0
        self.search_half = self.final_half = no_ints()

    def train_default(self) -> None:
        """Train the default, and divide the documents that it was scored on."""
        counts = self._counts(self._run(self.spec.make_trials(DEFAULT, {}))[0])
        order = np.random.default_rng(self.seed).permutation(len(counts))
        self.search_half = np.sort(order[: len(order) // 2])
        self.final_half = np.sort(order[len(order) // 2 :])

    def plan(self, start: float, minutes: float, seeds: int) -> Plan:
        """Return how many settings the time allows, from the time that the first training took."""
        one = self.watch.seconds.get(DEFAULT) or self._row(DEFAULT, self.seed)["cpu_seconds"]
        jobs = self.resources.place.jobs or 1
        final = 2 * seeds * one / jobs
        # Each setting costs a third of a training, and a third of the settings a whole one.
        left = start + 60 * minutes - time.time() - final
        candidates = int(left * jobs / one * SHORT / 2)
        if candidates < 1:
            least = math.ceil((time.time() - start + final + 2 * one) / 60)
            raise ValueError(
                f"One training takes {one / 60:.1f} min here, so {minutes:g} min are too few for a "
                f"search and a comparison. Give --minutes {least} or more, fewer --seeds, more "
                "--jobs, or a shorter training."
            )
        return Plan(
            min(candidates, len(self.space.candidates())),
            tuple(range(self.seed + 1, self.seed + 1 + seeds)),
            time.time() + left,
        )

    def run(self, plan: Plan) -> Settings:
        """Return the best settings beside the default."""
        drawn = random.Random(self.seed).sample(self.space.candidates(), plan.candidates)
        short = {f"{name_of(settings)}@short": settings for settings in drawn}
        trials = [
            t for n, s in short.items() for t in self.spec.make_trials(n, self.space.short(s))
        ]
        best = self._best(self._run(trials, plan.until))
        self.tried = len(best)
        promoted = [short[row["trial"]] for row in best[: math.ceil(len(drawn) / SHORT)]]
        full = {name_of(settings): settings for settings in promoted}
        trials = [t for n, s in full.items() for t in self.spec.make_trials(n, s)]
        # One of them is wanted even if the time is up.
        rows = self._run(trials, plan.until) or self._run(trials[:1])
        if not rows:
            raise ValueError(
                "No training with other settings was finished. Give more --minutes, or see the "
                f"failures in {self.folder.failures}."
            )
        return full[self._best(rows)[0]["trial"]]

    def compare(self, challenger: Settings, plan: Plan) -> Tuned:
        """Compare with the default, and write config and report."""
        names = {DEFAULT: {}, name_of(challenger): challenger}
        trials = [
            t for n, s in names.items() for t in self.spec.make_trials(n, s, seeds=plan.seeds)
        ]
        self._run(trials)
        pair = np.array(
            [
                [self._counts(self._row(name, seed))[self.final_half, :3] for seed in plan.seeds]
                for name in names
            ]
        )
        (difference,) = paired_bootstrap([pair], f1_difference)
        default_f, challenger_f = (mean(f1(counts) for counts in side) for side in pair)
        found = Tuned(
            self.folder.path / CONFIG,
            difference.low > 0,
            challenger,
            difference,
            *(default_f, challenger_f, pair.shape[2], plan.seeds),
            trials=len(self.folder.rows()),
            tried=self.tried,
        )
        write(found, self.space)
        return found

    def _run(self, trials: list[Trial], until: float | None = None) -> list[Row]:
        """Run trials, and return the rows of those that are finished."""

        def wanted(found: Found) -> list[Trial]:
            return trials

        run_trials(self.runner, wanted, self.resources, self.watch, until)
        rows = {row_key(row): row for row in self.folder.rows()}
        found = [rows[trial.key] for trial in trials if trial.key in rows]
        if until is None and len(found) < len(trials):
            reasons = {row_key(row): row for row in self.folder.failed()}
            key = next(t.key for t in trials if t.key not in rows)
            raise ValueError(
                f"The trial {key} failed: {reasons[key]['reason']} See {reasons[key]['log']}."
            )
        return found

    def _best(self, rows: list[Row]) -> list[Row]:
        """Return rows from the best on, on the half of the search."""
        return sorted(rows, key=lambda row: -f1(self._counts(row)[self.search_half]))

    def _row(self, name: str, seed: int) -> Row:
        (row,) = (r for r in self.folder.rows() if (r["trial"], r["seed"]) == (name, seed))
        return row

    def _counts(self, row: Row) -> np.ndarray:
        return unpack(row["counts"]).astype(int)


class _Cleaner:
    """Deletes the adapted encoder of each trial that is finished, and takes its time."""

    def __init__(self, watch: Watch | None) -> None:
        self.next = watch
        self.seconds: dict[str, float] = {}
        self._starts: dict[str, float] = {}

    def __call__(self, trial: Trial, outcome: Outcome | None) -> None:
        if self.next is not None:
            self.next(trial, outcome)
        if outcome is None:
            self._starts[trial.key] = time.time()
        elif outcome.row is not None:
            self.seconds.setdefault(trial.name, time.time() - self._starts[trial.key])
            if "paths.adapted" in trial.overrides:
                shutil.rmtree(trial.overrides["paths.adapted"], ignore_errors=True)


def name_of(settings: Settings) -> str:
    """Return the name of the trials with some settings."""
    pairs = (f"{name.split('.')[-1]}={shown(value)}" for name, value in settings.items())
    return ",".join(pairs)


def f1(counts: np.ndarray) -> float:
    """Return F1 in points, from (documents, 3 or more) counts."""
    gold, predicted, exact = counts[:, :3].sum(axis=0, dtype=int)
    return float(200 * exact / max(gold + predicted, 1))


def write(found: Tuned, space: Space) -> None:
    """Write the better config, complete, and the figures behind it."""
    settings = found.settings if found.better else {}
    config = read_raw_config(space.config_path, {**space.overrides, **settings})
    title = (
        "# Chosen by 'spacy mslm tune': "
        + (f"{name_of(settings)}," if found.better else "the default settings, as no others were")
        + " better\n# on clean text of the dev set. Challenger minus default: F1 "
        + f"{found.difference}, {found.documents} documents, {len(found.seeds)} seeds.\n\n"
    )
    report = {
        "protocol": "clean",
        "better": found.better,
        "challenger": found.settings,
        "difference": found.difference._asdict(),
        "f": {"default": found.default_f, "challenger": found.challenger_f},
        "documents": found.documents,
        "seeds": found.seeds,
        "trials": found.trials,
        "tried": found.tried,
    }
    replace_files(
        {
            found.path: (title + config.to_str()).encode("utf8"),
            found.path.with_name(REPORT): (json.dumps(report, indent=2) + "\n").encode("utf8"),
        }
    )
