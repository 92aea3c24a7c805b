"""Warnings for scripts that train without one of the configs: spaCy's defaults, which neither a
pipe nor a factory can change, do not suit pretrained encoders and clinical text."""

import logging

from thinc.api import Optimizer

from .saving import is_saving_safely

logger = logging.getLogger("spacy_mslm")

# The learn rate of spaCy's default optimizer, `Adam.v1`.
DEFAULT_RATE = 0.001


class Advice:
    """Warns once of each thing, after the first update and when the pipe is saved.

    name: Name of the pipe, for messages.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._learnt = False
        self._warned_of_strings = False

    def updated(self, optimizer: Optimizer) -> None:
        """Note an update, and warn if it is one of spaCy's default optimizer."""
        first, self._learnt = not self._learnt, True
        # Subclasses are optimizers that somebody chose.
        if first and type(optimizer) is Optimizer and optimizer.learn_rate == DEFAULT_RATE:
            logger.warning(
                f"The pipe {self.name} is trained by spaCy's default optimizer with a learn rate "
                "of 0.001, which is too high for a pretrained encoder. Copy [training] from "
                "configs/mslm.cfg, or in a script pass sgd=make_adamw(1e-4, 5e-4) of "
                "spacy_mslm.model.optimizer to nlp.update."
            )

    def saved(self) -> None:
        """Warn if a pipe that was trained in this process is not saved by `safe_save`."""
        if self._learnt and not is_saving_safely() and not self._warned_of_strings:
            self._warned_of_strings = True
            logger.warning(
                "nlp.to_disk writes every word of the training documents to vocab/strings.json, "
                "names of patients included. Save with safe_save(nlp, path) of "
                "spacy_mslm.pipeline.saving, or set before_to_disk in [training] to "
                "spacy_mslm.safe_save.v1."
            )
