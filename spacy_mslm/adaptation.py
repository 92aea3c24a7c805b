"""A stage before training: the encoder learns a domain's terms from text that nobody has labelled.

The `mslm` pipe's own training (masks, views, losses), on sentences whose terms a terminology has
labelled (`weak_text`). Only the encoder is kept, as a checkpoint folder: the heads of the labelled
task start anew on it, and other trainings can share it.
"""

import json
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import spacy
import torch
import tqdm
from spacy.language import Language
from spacy.pipeline import TrainablePipe
from spacy.training import Example
from spacy.util import minibatch
from thinc.api import Optimizer

from .checkpoints import save_checkpoint
from .errors import Errors
from .files import replaced_folder
from .mask_weights import MaskWeighting
from .masking import Masking
from .model import shim_of
from .readers import Reader
from .schedules import FloatOrSchedule
from .views import View

RECORD = "adaptation.json"
SEED_OFFSET = 1_000_003


class Adaptation:
    """`spacy_mslm.Adaptation.v1`: settings of the stage.

    corpus: labelled sentences (`spacy_mslm.WeakCorpus.v1`); None for no adaptation.
    output: the folder of the adapted encoder. If it is there already, made with the same settings,
        it is used as it is.
    steps: updates, of `batch_size` sentences each.
    optimizer, dropout: as under [training].
    view, mask_probability, masking, mask_weights, loss_weights: as of the pipe.
    seed: of masks and dropout; not the run's own, so that runs with other seeds can share it.
    """

    def __init__(
        self,
        corpus: Reader | None,
        output: str | None,
        steps: int,
        optimizer: Optimizer,
        masking: Masking,
        mask_weights: MaskWeighting,
        loss_weights: dict[str, FloatOrSchedule],
        batch_size: int = 16,
        dropout: float = 0.1,
        view: View = "mixed",
        mask_probability: float = 0.5,
        seed: int = 0,
    ) -> None:
        if corpus is not None and output is None:
            raise ValueError(Errors.M040)
        self.corpus = corpus
        self.output = output
        self.steps = steps
        self.optimizer = optimizer
        self.batch_size = batch_size
        self.dropout = dropout
        self.seed = seed
        self.pipe_settings: dict[str, Any] = {
            "masking": masking,
            "mask_weights": mask_weights,
            "loss_weights": loss_weights,
            "view": view,
            "mask_probability": mask_probability,
            "seed": seed,
        }


def adapt(
    adaptation: Adaptation, pipe: TrainablePipe, nlp: Language, encoder: str, settings: Any
) -> Path:
    """Run the stage, unless it was, and return the folder of the adapted encoder.

    pipe: an `mslm` pipe with the stage's settings, which is trained here.
    nlp: the pipeline that is initialised; only its language and tokenizer are used, since the
        words of the text must not get into its vocabulary.
    encoder: the checkpoint that the pipe starts from.
    settings: what the config says of the stage. A folder that another config has made is an error.
    """
    folder = Path(str(adaptation.output))
    record = json.loads(json.dumps({"encoder": encoder, "settings": settings}))
    start = time.process_time()
    if folder.exists():
        if not _made_with(record, folder):
            raise ValueError(Errors.M041.format(path=folder))
        return folder
    with torch.random.fork_rng():  # what follows is the same whether the stage is run or was
        # Not the seed itself: a run with the same one would put the very heads, as they were before
        # the stage, on the encoder that has learnt with them, and start better than with others.
        torch.manual_seed(adaptation.seed + SEED_OFFSET)
        _train(adaptation, pipe, nlp)
    with replaced_folder(folder) as temporary:
        save_checkpoint(shim_of(pipe.model).network.lm, encoder, temporary)
        record["cpu_seconds"] = round(time.process_time() - start)
        (temporary / RECORD).write_text(json.dumps(record, indent=2), encoding="utf8")
    return folder


def _train(adaptation: Adaptation, pipe: TrainablePipe, nlp: Language) -> None:
    blank = spacy.blank(
        str(nlp.lang), config={"nlp": {"tokenizer": nlp.config["nlp"]["tokenizer"]}}
    )

    def read() -> Iterator[Example]:
        return islice(_repeat(adaptation, blank), adaptation.steps * adaptation.batch_size)

    pipe.initialize(read, nlp=blank)
    # In a file, a line now and then.
    interval = 0.5 if sys.stderr.isatty() else 30.0
    with tqdm.tqdm(total=adaptation.steps, desc="Adaptation", mininterval=interval) as bar:
        for batch in minibatch(read(), adaptation.batch_size):
            losses = pipe.update(batch, drop=adaptation.dropout, sgd=adaptation.optimizer)
            adaptation.optimizer.step_schedules()
            terms = {k.removeprefix(f"{pipe.name}_"): f"{v:.2f}" for k, v in losses.items()}
            bar.set_postfix(terms, refresh=False)
            bar.update()


def _made_with(record: dict, folder: Path) -> bool:
    try:
        found = json.loads((folder / RECORD).read_text(encoding="utf8"))
    except (OSError, ValueError):
        return False
    return {key: found.get(key) for key in record} == record


def _repeat(adaptation: Adaptation, nlp: Language) -> Iterator[Example]:
    """The corpus, over and over."""
    assert adaptation.corpus is not None
    while True:
        empty = True
        for example in adaptation.corpus(nlp):
            empty = False
            yield example
        if empty:
            raise ValueError(Errors.M042)
