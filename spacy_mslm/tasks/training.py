"""Train a pipeline as a config says, and continue an interrupted training."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from spacy.cli._util import import_code
from spacy.language import Language
from spacy.training.initialize import init_nlp
from spacy.training.loop import DIR_MODEL_LAST
from thinc.api import Config
from wasabi import Printer

from ..model.workers import join, workers
from ..training.checkpoint import Checkpoint
from ..training.loop import Progress, Training, training_settings
from ..util.settings import check_at_least, check_between
from .configs import plain_errors, read_raw_config
from .gpu import choose_gpu
from .workers import run_workers

CHECKPOINT = "checkpoint"
OUR_LOGGER = "spacy_mslm.ConsoleLogger.v1"


class Trained(NamedTuple):
    """The folder of the last pipeline, the number of updates, and the best score and its step."""

    path: Path
    steps: int
    best_score: float
    best_step: int


def train(
    config_path: Path,
    output_path: Path,
    overrides: Mapping[str, Any] | None = None,
    *,
    resume: bool = False,
    checkpoint_every: int = 500,
    workers: int = 1,
    code_path: Path | None = None,
    use_gpu: int = -1,
) -> Trained:
    """Train a pipeline. The log of the training is printed.

    The weights are those of `spacy train`. OUTPUT/checkpoint is written while training runs, and an
    interrupted training that continues from it ends with the same weights.

    Args:
        config_path: A config for `spacy train`.
        output_path: Folder for `model-best`, `model-last` and `checkpoint`.
        overrides: Settings by their dotted name, such as {"paths.train": "train.spacy"}.
        resume: Continue the training in the output folder, if there is one. Otherwise, start.
        checkpoint_every: The number of updates between checkpoints.
        code_path: A Python file with registered functions, which is imported first.
        workers: The number of processes that share each batch. The steps are the same as with one,
            up to rounding. Processes that `torchrun` has started are workers already.
        use_gpu: The number of the GPU, or -1. With several workers, that of the first worker: each
            one has a GPU of its own.

    Raises:
        ValueError: If the output folder has another training, or a setting is wrong.
    """
    check_training(read_raw_config(config_path, overrides))
    if output_path.exists() and not output_path.is_dir():
        raise ValueError(f"{output_path} is a file, but the output has to be a folder.")
    settings = dict(overrides or {})
    arguments = (config_path, output_path, settings, resume, checkpoint_every, code_path, use_gpu)
    if "TORCHELASTIC_RUN_ID" in os.environ:
        with join(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])):
            return _train(*arguments)
    if workers > 1:
        return run_workers(workers, _train, *arguments)
    return _train(*arguments)


def _train(
    config_path: Path,
    output_path: Path,
    overrides: dict[str, Any],
    resume: bool,
    checkpoint_every: int,
    code_path: Path | None,
    use_gpu: int,
) -> Trained:
    """Train in this process, which may be one of several workers."""
    group = workers()
    printer = Printer(no_print=not group.is_first)
    choose_gpu(use_gpu + group.rank if use_gpu >= 0 else -1)
    import_code(code_path)
    config = read_raw_config(config_path, overrides)
    folder = output_path / CHECKPOINT
    checkpoint = Checkpoint(
        folder,
        {**training_settings(config), "code": str(code_path)},
        f"Give another --output, or delete {folder} to start over.",
    )
    saved = checkpoint.read() if resume else None
    progress = Progress(**saved.progress) if saved else Progress()
    if progress.finished and (output_path / DIR_MODEL_LAST).exists():
        return _result(output_path, progress)
    if not resume:
        _check_not_interrupted(checkpoint)
    group.wait()  # until all have read the checkpoint
    if saved is not None and group.is_first:
        _forget_log(config)
    if not progress.steps:
        checkpoint.write({}, {})
    printer.divider("Initializing pipeline")
    with plain_errors(config_path):
        nlp: Language = init_nlp(config, use_gpu=use_gpu)
    printer.good("Initialized pipeline")
    printer.divider("Training pipeline")
    training = Training(nlp, output_path, checkpoint, checkpoint_every, use_gpu)
    return _result(output_path, training.run(saved if progress.steps else None))


def check_training(config: Config) -> None:
    """Raise a ValueError if a number in [training] is wrong. spaCy checks only their types."""
    training = config.interpolate().get("training", {})
    least = {"seed": 0, "max_steps": 0, "max_epochs": -1, "patience": 0}
    least |= {"eval_frequency": 1, "accumulate_gradient": 1}
    for name, value in least.items():
        given = training.get(name)
        if isinstance(given, dict):  # a function, such as spacy_mslm.updates.v1, checks its own
            continue
        if given is not None and not isinstance(given, int):
            raise ValueError(f"training.{name} is {given!r}, but must be a whole number.")
        if given is not None:
            check_at_least(f"training.{name}", given, value)
    if isinstance(training.get("dropout"), int | float):
        check_between("training.dropout", training["dropout"], 0, 1)


def _check_not_interrupted(checkpoint: Checkpoint) -> None:
    """Raise a ValueError if the folder has an unfinished training."""
    progress = Progress(**(checkpoint.progress() or {}))
    if progress.steps and not progress.finished:
        raise ValueError(
            f"{checkpoint.path} has a training that was interrupted after {progress.steps} "
            "updates. Continue it with --resume, or delete the folder to start over."
        )


def _forget_log(config: Config) -> None:
    """Delete the log file of the interrupted training: its rows are written again."""
    settings = config.interpolate()["training"].get("logger", {})
    if settings.get("@loggers") == OUR_LOGGER and settings.get("output_file"):
        Path(settings["output_file"]).unlink(missing_ok=True)


def _result(output: Path, progress: Progress) -> Trained:
    score, step = max(progress.results, key=lambda result: (result[0], -result[1]))
    return Trained(output / DIR_MODEL_LAST, progress.steps, score, step)
