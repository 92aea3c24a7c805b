"""A folder from which an interrupted training continues.

    checkpoint.json      the settings, the progress, and the digest of the tensors
    state.safetensors    weights, moments of the optimizer, random states (see `state`)

The folder is replaced in one step, is readable by its owner only, and holds no text.
"""

import logging
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from safetensors.torch import load_file, save_file
from thinc.api import Model, Optimizer

from ..model.workers import workers
from ..util.digests import digest_of
from ..util.files import replaced_folder
from ..util.stage_folder import StageFolder
from .state import Tensors, load_model_state, model_state, random_state, set_random_state

logger = logging.getLogger("spacy_mslm")

RECORD, STATE = "checkpoint.json", "state.safetensors"


class Saved(NamedTuple):
    """The content of a checkpoint: numbers and lists as in JSON, and tensors by name."""

    progress: dict[str, Any]
    tensors: Tensors


class Checkpoint:
    """The checkpoint of a training with certain settings.

    Args:
        path: The folder.
        settings: All settings that change the result. Paths in them are compared by content.
        remedy: The end of error messages, which says what the user can do.
    """

    def __init__(self, path: Path, settings: dict[str, Any], remedy: str) -> None:
        self.path = path
        self._stage = StageFolder(path, RECORD, {"settings": settings}, remedy)

    def read(self) -> Saved | None:
        """Return the content of the folder, or None if there is no checkpoint.

        Raises:
            ValueError: If the folder was made with other settings, or is damaged.
        """
        record = self._stage.read()
        if record is None:
            return None
        self._stage.check(record)
        path = self.path / STATE
        if "progress" not in record or record.get("digest") != _digest(path):
            raise ValueError(
                f"{path} is missing, or was damaged or changed after it was written. "
                f"{self._stage.remedy}"
            )
        return Saved(record["progress"], load_file(path) if path.exists() else {})

    def progress(self) -> dict[str, Any] | None:
        """Return the progress of a checkpoint of whatever settings, or None if there is none."""
        record = self._stage.read()
        return None if record is None else record.get("progress", {})

    def write(self, progress: dict[str, Any], tensors: Tensors) -> None:
        """Replace the checkpoint. Of several workers, the first one does so."""
        if not workers().is_first:
            return
        with replaced_folder(self.path, mode=0o700) as temporary:
            path = temporary / STATE
            if tensors:
                save_file(tensors, path)
                path.chmod(0o600)
            record = {**self._stage.settings, "progress": progress, "digest": _digest(path)}
            self._stage.write(record, temporary)

    def remove(self) -> None:
        """Delete the checkpoint."""
        if workers().is_first:
            shutil.rmtree(self.path, ignore_errors=True)


class StageCheckpoint:
    """The checkpoint of a stage that trains models in a fixed number of updates.

    A stage of the same settings continues from it. It is kept after the last update, until the
    result of the stage is written, and is then removed.

    Args:
        path: The folder.
        settings: All settings that change the result.
        steps: The number of updates of the stage.
        every: The number of updates between checkpoints.
    """

    def __init__(self, path: Path, settings: dict[str, Any], steps: int, every: int) -> None:
        self._checkpoint = Checkpoint(path, settings, "The stage starts over.")
        self._steps = steps
        self._every = every

    def restore(self, models: Mapping[str, Model], optimizer: Optimizer) -> int:
        """Restore the models, their optimizer and the random states of the last checkpoint.

        Returns:
            The number of updates that the models have.
        """
        try:
            saved = self._checkpoint.read()
        except ValueError as err:
            logger.warning(str(err))
            saved = None
        if saved is None:
            return 0
        load_model_state(models, optimizer, saved.tensors)
        for _ in range(saved.progress["step"]):
            optimizer.step_schedules()
        set_random_state(saved.tensors)
        return saved.progress["step"]

    def write(self, models: Mapping[str, Model], optimizer: Optimizer, step: int) -> None:
        """Write a checkpoint after update number `step`, if one is due."""
        if step % self._every == 0 or step == self._steps:
            tensors = {**model_state(models, optimizer), **random_state()}
            self._checkpoint.write({"step": step}, tensors)

    def remove(self) -> None:
        """Delete the checkpoint."""
        self._checkpoint.remove()


def _digest(path: Path) -> str | None:
    return digest_of(path) if path.exists() else None
