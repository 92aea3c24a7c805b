"""Read and check a file of experiments. `docs/guides/experiments.md` describes the format.

split: dev
data: corpus                # SET/train.spacy, dev.spacy, test.spacy, or IOB files
encoder: encoders/biobert
sets: [ncbi_disease, bc2gm]
seeds: [0, 1]
overrides: {vars.limit: 500}
trials:
  vanilla: {config: vanilla}
config: mslm
grid:
  vars.elm_rate: [0.5, 1.0]
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import srsly

from ...corpus.splits import SPLIT_NAMES
from ...util.settings import check_between
from ..configs import plain_errors, read_raw_config
from ..training import check_training
from .search import Range, Search, shown

SPLITS = ("dev", "test")
MEASURES = ("masked", "perplexity")
SUFFIXES = (".spacy", ".tsv", ".iob", ".conll", "")
TOP = (
    *("split", "data", "encoder", "text", "bf16", "measure", "sets", "seeds", "overrides"),
    *("trials", "config", "grid", "search"),
)
OF_TRIAL = ("config", "overrides", "sets", "seeds", "drop_mentions", "keep")
OF_SEARCH = ("method", "trials", "seed", "values", "batch", "steps", "keep")
OF_RANGE = ("low", "high", "log", "int")
# Names become folders.
_NAME = re.compile(r"[A-Za-z0-9][\w.,=@+-]*")


class Files(NamedTuple):
    """The files of a set."""

    train: str
    dev: str
    test: str | None


class Trial(NamedTuple):
    """One training run.

    Attributes:
        overrides: Settings of the config, as in the options of `spacy train`. Marks are replaced.
        varied: The settings that tell this trial from others, as they stand in the spec.
        drop_mentions: Share of the training mentions to leave out.
        keep: Keep the pipeline in the folder of the trial, `model-last`, as a teacher of others.
    """

    name: str
    set: str
    seed: int
    config: str
    overrides: dict[str, Any]
    varied: dict[str, Any]
    drop_mentions: float = 0.0
    keep: bool = False

    @property
    def key(self) -> str:
        """The name of its folder, which no other trial has."""
        return trial_key(self.name, self.set, self.seed)

    @property
    def id(self) -> str:
        """The same, for messages of the engine."""
        return self.key

    @property
    def config_path(self) -> Path:
        """The config: a path, or the name of a file in `configs`."""
        path = Path(self.config)
        return path if path.is_file() or path.suffix else Path("configs") / f"{self.config}.cfg"


class Spec(NamedTuple):
    """The content of a spec.

    Attributes:
        path: The file, for messages.
        folder: The folder of the trials.
        split: The split that trials are scored on, `dev` or `test`.
        encoder: The checkpoint for `vars.encoder`, or None to leave that of the config.
        text: Text for adaptation. It is copied to the folder as `text.txt.gz`, without the
            sentences of dev and test sets.
        data: The folder of all sets, whose dev and test sentences are left out of the text.
        bf16: Train in bfloat16 on a CPU.
        measure: What is measured beside scores on clean text: "masked", "perplexity".
        sets: The files of each set.
        seeds: The seeds of trials that name none.
        trials: Those that are known from the start: named ones, and those of the grid.
        search: How others are found, or None. `config` and `overrides` are their base.
        default_sets: The sets of trials that name none; without any, all.
    """

    path: Path
    folder: Path
    split: str
    encoder: str | None
    text: Path | None
    data: Path | None
    bf16: bool
    measure: tuple[str, ...]
    sets: dict[str, Files]
    seeds: tuple[int, ...]
    trials: list[Trial]
    search: Search | None = None
    config: str = ""
    overrides: Mapping[str, Any] = {}
    default_sets: tuple[str, ...] = ()

    def make_trials(
        self,
        name: str,
        varied: Mapping[str, Any],
        *,
        config: str | None = None,
        seeds: Sequence[int] | None = None,
        sets: Sequence[str] | None = None,
        drop_mentions: float = 0.0,
        keep: bool = False,
    ) -> list[Trial]:
        """Return the trials of some settings on all sets with all seeds. All sets with the first
        seed come first, so that a queue that ends early has them."""
        return [
            Trial(
                *(name, dataset, seed, config or self.config),
                {k: self._replaced(v, name, dataset, seed) for k, v in settings.items()},
                *(dict(varied), drop_mentions, keep),
            )
            for settings in [{**self.overrides, **varied}]
            for seed in (self.seeds if seeds is None else seeds)
            for dataset in (sets or self.default_sets or self.sets)
        ]

    def _replaced(self, value: Any, name: str, dataset: str, seed: int) -> Any:
        """Replace the marks in a setting, and read a number or a list that is written as text, as
        an option of a command is."""
        if isinstance(value, list):
            return [self._replaced(item, name, dataset, seed) for item in value]
        if isinstance(value, dict):
            return {k: self._replaced(v, name, dataset, seed) for k, v in value.items()}
        if not isinstance(value, str):
            return value
        marks = {"output": str(self.folder), "name": name, "set": dataset, "seed": str(seed)}
        for mark, meant in marks.items():
            value = value.replace(f"{{{mark}}}", meant)
        try:
            return json.loads(value)
        except ValueError:
            return value


def trial_key(name: str, dataset: str, seed: int) -> str:
    """Return the name of the folder of a trial."""
    return f"{name}-{dataset}-s{seed}"


def read_spec(path: Path, folder: Path) -> Spec:
    """Read a spec. Its paths are relative to the current folder.

    Args:
        path: The YAML file.
        folder: The folder of the trials. In overrides, `{output}`, `{name}`, `{set}` and `{seed}`
            are replaced by it, the name of the trial, its set and its seed.

    Raises:
        ValueError: If something in the spec is wrong: a key, a file, a setting of a config.
        OSError: If the file cannot be read.
    """
    try:
        content = srsly.read_yaml(path)
    except ValueError as err:
        reason = " ".join(str(err).split("To suppress")[0].split())
        raise ValueError(f"{path}: {reason}") from None
    check_keys(path, "the spec", content, TOP)
    for needed in ("split", "sets", "seeds"):
        if needed not in content:
            raise ValueError(f"{path}: the spec has no {needed!r}. Add it.")
    if not content.keys() & {"trials", "grid", "search"}:
        raise ValueError(f"{path}: there is nothing to run. Add trials, a grid or a search.")
    data = _path(content.get("data"))
    spec = Spec(
        path=path,
        folder=folder.resolve(),
        split=_choice(path, "split", content["split"], SPLITS),
        encoder=_encoder(path, content.get("encoder")),
        text=_path(content.get("text")),
        data=data,
        bf16=bool(content.get("bf16", False)),
        measure=tuple(_choice(path, "measure", m, MEASURES) for m in content.get("measure", ())),
        sets=_sets(path, content, data),
        seeds=_seeds(path, content["seeds"]),
        trials=[],
        search=_search(path, content["search"]) if "search" in content else None,
        config=str(content.get("config", "")),
        overrides=_settings(path, "the spec", content),
        default_sets=tuple(content["sets"]),
    )
    if spec.text is not None and not spec.text.is_file():
        raise ValueError(f"{path}: there is no text {spec.text}. Check the path.")
    trials = [
        t for name, own in (content.get("trials") or {}).items() for t in _named(spec, name, own)
    ]
    trials += [
        t
        for name, values in _grid(path, content.get("grid"))
        for t in spec.make_trials(name, values)
    ]
    if spec.search is not None and spec.search.method == "random":
        for name, values in spec.search.candidates():
            trials += spec.make_trials(name, values)
    if ("grid" in content or spec.search) and not spec.config:
        raise ValueError(f"{path}: a grid or a search needs the 'config' that it varies. Add it.")
    spec = spec._replace(trials=trials)
    check_trials(spec)
    return spec


# ---- parts of a spec ----


def check_keys(path: Path, where: str, content: Any, known: Sequence[str]) -> None:
    """Raise a ValueError if a part of a spec is not a mapping, or has an unknown key."""
    if not isinstance(content, dict):
        raise ValueError(f"{path}: {where} must be a mapping of names to values.")
    for key in content:
        if key not in known:
            nearest = get_close_matches(str(key), known, n=1)
            hint = f"Did you mean {nearest[0]!r}?" if nearest else f"Known are: {', '.join(known)}."
            raise ValueError(f"{path}: unknown key {key!r} in {where}. {hint}")


def _settings(path: Path, where: str, content: dict[str, Any]) -> dict[str, Any]:
    found = content.get("overrides") or {}
    if not isinstance(found, dict):
        raise ValueError(f"{path}: overrides of {where} must be a mapping of settings to values.")
    return found


def _choice(path: Path, what: str, given: Any, choices: Sequence[str]) -> str:
    if given not in choices:
        raise ValueError(f"{path}: {what} is {given!r}. Use one of: {', '.join(choices)}.")
    return str(given)


def _path(given: Any) -> Path | None:
    return None if given is None else Path(str(given))


def _encoder(path: Path, given: Any) -> str | None:
    """Return the encoder: a folder with a config, or a name such as `dmis-lab/biobert`, which may
    be one of the hub unless there is a folder `dmis-lab`."""
    if given is None:
        return None
    name = str(given)
    is_hub_name = name.count("/") == 1 and not Path(name).parent.exists()
    if not (Path(name) / "config.json").is_file() and not is_hub_name:
        raise ValueError(f"{path}: there is no encoder in {name}. Give a folder, or a hub name.")
    return name


def _seeds(path: Path, given: Any) -> tuple[int, ...]:
    whole = isinstance(given, list) and all(isinstance(s, int) and s >= 0 for s in given)
    if not whole or not given or len(set(given)) != len(given):
        raise ValueError(
            f"{path}: seeds must be a list of different whole numbers, such as [0, 1]."
        )
    return tuple(given)


def _sets(path: Path, content: dict[str, Any], data: Path | None) -> dict[str, Files]:
    """Return the files of all sets. Trials may name others in the folder of the data."""
    given, split = content["sets"], content["split"]
    if isinstance(given, dict):
        for name, files in given.items():
            check_keys(path, f"the set {name}", files, Files._fields)
            for needed in ("train", "dev", split):
                if needed not in files:
                    raise ValueError(f"{path}: the set {name} has no {needed!r}. Add its path.")
        found = {n: Files(f["train"], f["dev"], f.get("test")) for n, f in given.items()}
    elif isinstance(given, list) and data is not None:
        trials = (t for t in (content.get("trials") or {}).values() if isinstance(t, dict))
        names = [*given, *(name for trial in trials for name in trial.get("sets") or ())]
        found = {str(name): _files(path, data / str(name), split) for name in names}
    else:
        raise ValueError(
            f"{path}: sets must be a list of folders in 'data', or a mapping of names to files "
            "(train, dev, test)."
        )
    for name, files in found.items():
        _check_name(path, "set", name)
        for file in filter(None, files):
            if not Path(file).exists():
                raise ValueError(f"{path}: the set {name} has no file {file}. Check the path.")
    return found


def _files(path: Path, folder: Path, split: str) -> Files:
    found = {name: find_split(folder, name) for name in Files._fields}
    for needed in ("train", "dev", split):
        if found[needed] is None:
            raise ValueError(
                f"{path}: {folder} has no {needed} set ({needed}.spacy, or an IOB file "
                f"{SPLIT_NAMES[needed][0]}.tsv). Check 'data' and 'sets'."
            )
    return Files(str(found["train"]), str(found["dev"]), found["test"])


def find_split(folder: Path, split: str) -> str | None:
    """Return the file (or folder of shards) of a split, None if there is none."""
    for suffix in SUFFIXES:
        for stem in SPLIT_NAMES[split]:
            if (found := folder / f"{stem}{suffix}").exists():
                return str(found)
    return None


def _named(spec: Spec, name: str, given: Any) -> Iterable[Trial]:
    where = f"the trial {name}"
    _check_name(spec.path, "trial", name)
    check_keys(spec.path, where, given, OF_TRIAL)
    if not (given.get("config") or spec.config):
        raise ValueError(f"{spec.path}: {where} has no 'config'. Add it.")
    for dataset in given.get("sets") or ():
        _choice(spec.path, f"a set of {where}", dataset, list(spec.sets))
    share = given.get("drop_mentions", 0.0)
    check_between(f"{spec.path}: drop_mentions of {where}", share, 0, 1)
    return spec.make_trials(
        name,
        _settings(spec.path, where, given),
        config=given.get("config"),
        seeds=_seeds(spec.path, given["seeds"]) if "seeds" in given else None,
        sets=given.get("sets"),
        drop_mentions=share,
        keep=given.get("keep", False),
    )


def _grid(path: Path, given: Any) -> Iterable[tuple[str, dict[str, Any]]]:
    """Yield name and settings of each point of a grid."""
    if given is None:
        return
    if not isinstance(given, dict) or not all(isinstance(v, list) and v for v in given.values()):
        raise ValueError(f"{path}: the grid must be a mapping of settings to lists of values.")
    titles = _titles(list(given))
    for values in product(*given.values()):
        pairs = zip(titles, values, strict=True)
        yield ",".join(f"{t}={shown(v)}" for t, v in pairs), dict(zip(given, values, strict=True))


def _titles(settings: list[str]) -> list[str]:
    """Return the last part of each setting, or the whole if others end with the same."""
    last = [setting.rpartition(".")[2] for setting in settings]
    return [s if last.count(t) > 1 else t for s, t in zip(settings, last, strict=True)]


def _search(path: Path, given: Any) -> Search:
    check_keys(path, "the search", given, OF_SEARCH)
    values: dict[str, Range | list] = {}
    if not isinstance(given.get("values"), dict) or not given["values"]:
        raise ValueError(f"{path}: the search has no 'values': settings with a list or a range.")
    for name in ("trials", "seed", "batch"):
        if not isinstance(given.get(name, 0), int):
            raise ValueError(f"{path}: {name} of the search must be a whole number.")
    for setting, value in given["values"].items():
        if isinstance(value, list) and value:
            values[setting] = value
            continue
        check_keys(path, f"the range of {setting}", value, OF_RANGE)
        if not all(isinstance(value.get(end), int | float) for end in ("low", "high")):
            raise ValueError(f"{path}: the range of {setting} needs numbers 'low' and 'high'.")
        values[setting] = Range(**value)
    search = Search(**{**given, "values": values})
    try:
        search.check()
    except (ValueError, ImportError) as err:
        raise type(err)(f"{path}: {err}") from None
    return search


# ---- trials ----


def _check_name(path: Path, what: str, name: Any) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(
            f"{path}: {name!r} is no name for a {what}, as names become folders. Use letters, "
            "digits and any of . , = @ + - _"
        )


def check_trials(spec: Spec) -> None:
    """Raise a ValueError if trials have the same name, or settings that their config has not."""
    keys: set[str] = set()
    checked: set[str] = set()
    some = spec.trials + (spec.search.some_trials(spec) if spec.search else [])
    for trial in some:
        if trial.key in keys:
            raise ValueError(
                f"{spec.path}: there are two trials {trial.key}. Rename one of them, or write the "
                "values of the grid as named trials."
            )
        keys.add(trial.key)
        # The same settings on another set or with another seed are right as well.
        settings = json.dumps([trial.config, trial.varied], sort_keys=True)
        if settings not in checked:
            checked.add(settings)
            _check_settings(spec, trial)
    if any(trial.drop_mentions for trial in spec.trials):
        for name, files in spec.sets.items():
            if Path(files.train).is_dir() or files.train.endswith(".spacy"):
                raise ValueError(
                    f"{spec.path}: drop_mentions needs IOB files, but {name} has none."
                )


def _check_settings(spec: Spec, trial: Trial) -> None:
    overrides = {**base_overrides(spec, trial), **trial.overrides}
    try:
        config = read_raw_config(trial.config_path, overrides)
        with plain_errors(trial.config_path):
            check_training(config)
    except ValueError as err:
        raise ValueError(f"{spec.path}, trial {trial.name}: {err}") from None


def base_overrides(spec: Spec, trial: Trial) -> dict[str, Any]:
    """Return the settings that all trials have: paths, encoder and seed."""
    files = spec.sets[trial.set]
    base = {"paths.train": files.train, "paths.dev": files.dev, "system.seed": trial.seed}
    return base if spec.encoder is None else {**base, "vars.encoder": spec.encoder}
