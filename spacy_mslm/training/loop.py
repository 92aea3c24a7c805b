"""The training loop of spaCy, with checkpoints from which an interrupted training continues.

The same updates, evaluations, log and saved pipelines as `spacy.training.loop.train`, from its own
parts. Without an interruption, the weights are those of `spacy train`. With one, they are the same
as without, bit by bit on a CPU.

    init_nlp -> batches -> update -> evaluate -> model-last, model-best -> log -> checkpoint
                   ^                                                                  |
                   +-------- after a stop: weights, moments, random states, batch ----+
"""

import json
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import islice, repeat
from pathlib import Path
from timeit import default_timer
from typing import Any

import torch
from spacy.language import Language
from spacy.schemas import ConfigSchemaTraining
from spacy.training.loop import (
    DIR_MODEL_BEST,
    DIR_MODEL_LAST,
    clean_output_dir,
    create_before_to_disk_callback,
    create_evaluation_callback,
    subdivide_batch,
    update_meta,
)
from spacy.util import registry, resolve_dot_names
from thinc.api import Config, Model, Optimizer, fix_random_seed, set_gpu_allocator
from wasabi import msg

from ..model.workers import workers
from ..util.files import replaced_folder
from .batches import Batch, Batches, skip
from .checkpoint import Checkpoint, Saved
from .state import (
    Tensors,
    load_model_state,
    model_state,
    random_state,
    set_random_state,
    shared_weights,
)

STARTS = "batches/starts"
Log = Callable[[dict[str, Any] | None], None]


@dataclass
class Progress:
    """How far a training is.

    Attributes:
        steps: The number of updates.
        words: The number of words in their batches.
        seconds: The time they took.
        losses: The sums of the losses since the last evaluation.
        results: The score and the step of each evaluation.
        rows: What the logger got of each evaluation.
        pipe_steps: The number of updates that each pipe counts.
        stream: The digest of all batches so far.
        finished: Whether this was the last update.
    """

    steps: int = 0
    words: int = 0
    seconds: float = 0.0
    losses: dict[str, float] = field(default_factory=dict)
    results: list[tuple[float, int]] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    pipe_steps: dict[str, int] = field(default_factory=dict)
    stream: str = ""
    finished: bool = False

    @property
    def best_step(self) -> int:
        """The first step with the best score."""
        return -max((score, -step) for score, step in self.results)[1]


class Training:
    """The training of an initialized pipeline.

    Args:
        nlp: The pipeline, from `spacy.training.initialize.init_nlp`.
        output: The folder for the pipelines, which must exist.
        checkpoint: The checkpoint, which is written every `checkpoint_every` updates and after
            each evaluation.
        checkpoint_every: The number of updates between checkpoints.
        use_gpu: The number of the GPU, or -1.
    """

    def __init__(
        self,
        nlp: Language,
        output: Path,
        checkpoint: Checkpoint,
        checkpoint_every: int,
        use_gpu: int = -1,
    ) -> None:
        self.nlp = nlp
        self.output = output
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every
        self.progress = Progress()
        self.workers = workers()
        config = nlp.config.interpolate()
        if config["training"]["seed"] is not None:
            fix_random_seed(config["training"]["seed"])
        elif not self.workers.is_alone:
            raise ValueError("Several workers need the same seed. Set training.seed to a number.")
        if use_gpu >= 0 and config["training"]["gpu_allocator"]:
            set_gpu_allocator(config["training"]["gpu_allocator"])
        self.settings = settings = registry.resolve(
            config["training"],
            schema=ConfigSchemaTraining,
        )
        names = [settings["train_corpus"], settings["dev_corpus"]]
        self.train_corpus, dev_corpus = resolve_dot_names(config, names)
        self.optimizer: Optimizer = settings["optimizer"]
        self.evaluate = create_evaluation_callback(nlp, dev_corpus, settings["score_weights"])
        self.before_to_disk = create_before_to_disk_callback(settings["before_to_disk"])
        dropout = settings["dropout"]
        self.dropouts = repeat(dropout) if isinstance(dropout, float) else iter(dropout)
        self.frozen: list[str] = settings["frozen_components"]
        shared = [name for name, pipe in nlp.pipeline if getattr(pipe, "listeners", ())]
        if shared and not self.workers.is_alone:
            raise ValueError(
                f"Other components listen to {shared[0]}, which several workers cannot train. Use "
                "one worker."
            )

    def run(self, saved: Saved | None = None) -> Progress:
        """Train to the end.

        Args:
            saved: The checkpoint to continue from, or None to start.

        Returns:
            The progress, with all rows of the log.
        """
        if saved is None:
            if self.workers.is_first:
                clean_output_dir(self.output)
            batches = self._batches()
            stream = iter(batches)
        else:
            batches, stream = self._restore(saved)
        self.workers.copy_from_first(shared_weights(self._models()))
        log, finalize = self._open_log()
        try:
            self._repeat_log(log)
            self._loop(batches, stream, log)
            if self.workers.is_first:
                self._save(DIR_MODEL_LAST)
        finally:
            finalize()
        self.progress.finished = True
        self.checkpoint.write(_plain(asdict(self.progress)), {})
        return self.progress

    def _loop(
        self,
        batches: Batches,
        stream: Iterator[tuple[int, Batch]],
        log: Log,
    ) -> None:
        progress = self.progress
        start = default_timer() - progress.seconds
        while not self._is_over():
            epoch, batch = next(stream, (None, None))
            if batch is None:
                break
            step = progress.steps
            self._update(batch, epoch, step)
            row = self._evaluate(step) if not step % self.settings["eval_frequency"] else None
            progress.steps += 1
            progress.words += sum(len(example) for example in batch)
            progress.seconds = default_timer() - start
            if row is not None:
                row |= {
                    "epoch": epoch,
                    "losses": progress.losses,
                    "seconds": int(progress.seconds),
                    "words": progress.words,
                }
                progress.rows.append(_plain(row))
                if self.workers.is_first:
                    self._keep(row, is_best=row["score"] == max(progress.results)[0])
                progress.losses = {}
            log(None if row is None else {**row, "checkpoints": list(progress.results)})
            if row is not None or not progress.steps % self.checkpoint_every:
                self._write_checkpoint(batches)

    def _repeat_log(self, log: Log) -> None:
        """Log what was logged before the interruption."""
        progress = self.progress
        for i, row in enumerate(progress.rows, start=1):
            log({**row, "checkpoints": progress.results[:i]})
        if progress.rows:
            for _ in range(progress.steps - 1 - progress.rows[-1]["step"]):
                log(None)

    def _is_over(self) -> bool:
        progress, settings = self.progress, self.settings
        step = progress.steps - 1
        if step < 0:
            return False
        patience, max_steps = settings["patience"], settings["max_steps"]
        waited = patience and step - progress.best_step >= patience
        return bool(waited or (max_steps and step >= max_steps))

    def _update(self, batch: Batch, epoch: int | None, step: int) -> None:
        if self.settings["before_update"]:
            self.settings["before_update"](self.nlp, {"step": step, "epoch": epoch})
        dropout = next(self.dropouts)
        for part in subdivide_batch(batch, self.settings["accumulate_gradient"]):
            self.nlp.update(
                part,
                drop=dropout,
                losses=self.progress.losses,
                sgd=False,  # type: ignore[arg-type]
                exclude=self.frozen,
                annotates=self.settings["annotating_components"],
            )
        for _, pipe in self._trained():
            pipe.finish_update(self.optimizer)
        self.optimizer.step_schedules()

    def _evaluate(self, step: int) -> dict[str, Any]:
        """Evaluate in the first worker, and tell the others the score."""
        score, scores = 0.0, dict[str, Any]()
        if self.workers.is_first:
            with self.nlp.use_params(self.optimizer.averages or {}):
                score, scores = self.evaluate()
        if not self.workers.is_alone:
            shared = torch.tensor(score, dtype=torch.float64)
            state = random_state()  # an evaluation may draw random numbers
            self.workers.copy_from_first([shared, *state.values()])
            set_random_state(state)
            score = shared.item()
        self.progress.results.append((score, step))
        return {"step": step, "score": score, "other_scores": scores}

    def _trained(self) -> Iterable[tuple[str, Any]]:
        """Yield the pipes that are trained."""
        for name, pipe in self.nlp.pipeline:
            model = getattr(pipe, "model", None)
            trainable = getattr(pipe, "is_trainable", False)
            if name not in self.frozen and trainable and model not in (True, False, None):
                yield name, pipe

    def _models(self) -> dict[str, Model]:
        return {name: pipe.model for name, pipe in self._trained()}

    # ---- pipelines ----

    def _keep(self, row: dict[str, Any], is_best: bool) -> None:
        """Save the pipeline after an evaluation."""
        with self.nlp.select_pipes(disable=self.frozen):
            update_meta(self.settings, self.nlp, row)
        self._save(DIR_MODEL_LAST)
        if is_best:
            with replaced_folder(self.output / DIR_MODEL_BEST) as temporary:
                shutil.copytree(self.output / DIR_MODEL_LAST, temporary, dirs_exist_ok=True)
        row["output_path"] = str(self.output / DIR_MODEL_LAST)

    def _save(self, name: str) -> None:
        with self.nlp.use_params(self.optimizer.averages or {}):
            self.before_to_disk(self.nlp).to_disk(self.output / name)

    # ---- checkpoints ----

    def _write_checkpoint(self, batches: Batches) -> None:
        if not self.workers.is_first:
            return
        self.progress.stream = batches.digest
        self.progress.pipe_steps = {
            name: pipe.cfg["step"]
            for name, pipe in self._trained()
            if "step" in getattr(pipe, "cfg", {})
        }
        tensors: Tensors = {**model_state(self._models(), self.optimizer), **random_state()}
        progress = _plain(asdict(self.progress))
        self.checkpoint.write(progress, {**tensors, STARTS: batches.starts})

    def _restore(self, saved: Saved) -> tuple[Batches, Iterator[tuple[int, Batch]]]:
        """Restore a checkpoint. Returns the batches and the rest of their stream."""
        self.progress = progress = Progress(**saved.progress)
        progress.results = [(score, step) for score, step in progress.results]
        load_model_state(self._models(), self.optimizer, saved.tensors)
        for name, pipe in self._trained():
            if name in progress.pipe_steps:
                pipe.cfg["step"] = progress.pipe_steps[name]
        for _ in range(progress.steps):
            self.optimizer.step_schedules()
        for _ in islice(self.dropouts, progress.steps):
            pass
        batches = self._batches(saved)
        stream = skip(batches, progress.steps, progress.stream)
        if progress.rows:
            with self.nlp.select_pipes(disable=self.frozen):
                update_meta(self.settings, self.nlp, progress.rows[-1])
        set_random_state(saved.tensors)
        return batches, stream

    def _batches(self, saved: Saved | None = None) -> Batches:
        starts = None if saved is None else saved.tensors[STARTS]
        settings = self.settings
        return Batches(
            self.nlp, self.train_corpus, settings["batcher"], settings["max_epochs"], starts
        )

    def _open_log(self) -> tuple[Log, Callable[[], None]]:
        if not self.workers.is_first:
            return (lambda info: None), (lambda: None)
        msg.info(f"Pipeline: {self.nlp.pipe_names}")
        if self.frozen:
            msg.info(f"Frozen components: {self.frozen}")
        annotating = self.settings["annotating_components"]
        if annotating:
            msg.info(f"Set annotations on update for: {annotating}")
        if self.progress.steps:
            msg.info(f"Continuing after update {self.progress.steps}")
        else:
            msg.info(f"Initial learn rate: {self.optimizer.learn_rate}")
        with self.nlp.select_pipes(disable=self.frozen):
            return self.settings["logger"](self.nlp, sys.stdout, sys.stderr)


def training_settings(config: Config) -> dict[str, Any]:
    """Return all settings of a config that change the weights.

    Variables are left out: what they change counts, where it is used.
    """
    sections = ("nlp", "components", "corpora", "training", "initialize")
    found = {name: config.interpolate().get(name, {}) for name in sections}
    training = {name: value for name, value in found["training"].items() if name != "logger"}
    return {**found, "training": training}


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """Return values as they are read from JSON: losses and scores may be numbers of numpy."""
    return json.loads(json.dumps(values, default=float))
