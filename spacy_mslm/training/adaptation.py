"""A stage before training: the encoder learns a domain's terms from text that nobody has labelled.

    labelled set --train--> teacher --labels--> text --adapt--> encoder --> training, from there

The `mslm` pipe's own training (masks, views, losses), on sentences whose terms are labelled by a
terminology or, without one, by a teacher: a pipe that is trained on the labelled set first. What is
kept of the stage is a checkpoint folder, with the entity heads in it: where the labels are those of
the labelled set, training goes on from them too.
"""

import hashlib
import json
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import spacy
import torch
from safetensors.torch import load_file, save_file
from spacy.language import Language
from spacy.pipeline import TrainablePipe
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import minibatch
from thinc.api import Optimizer

from ..corpus.weak_corpus import WeakCorpus
from ..masking.strategies import Masking
from ..masking.views import View
from ..masking.weights import MaskWeighting
from ..model.architecture import MSLMModel, shim_of
from ..model.checkpoints import save_checkpoint
from ..model.schedules import FloatOrSchedule
from ..util.digests import made_of
from ..util.files import replaced_folder
from ..util.progress import progress_bar

RECORD = "adaptation.json"
HEADS = "heads.safetensors"
MODEL_SETTINGS = (
    *("encoder", "window", "context", "split_sentences"),
    *("detection_size", "classification_size"),
)
SEED_OFFSET = 1_000_003


class Adaptation:
    """`spacy_mslm.Adaptation.v1`: settings of the stage.

    corpus: sentences with weak labels; without text, there is no adaptation.
    output: the folder of the adapted encoder. If it is there already, made with the same settings
        (and by a teacher of the same labelled set), it is used as it is.
    steps: updates, of `batch_size` sentences each. Sentences of the text are held in memory, as
        many as that takes.
    optimizer, dropout: as under [training].
    teacher_steps, teacher_optimizer: of the teacher's training, where the corpus needs one.
    view, mask_probability, masking, mask_weights, loss_weights: as of the pipe.
    seed: of masks, dropout and order; not the run's own, so that runs with other seeds can share
        the encoder.
    """

    def __init__(
        self,
        corpus: WeakCorpus,
        output: str | None,
        steps: int,
        optimizer: Optimizer,
        teacher_steps: int,
        teacher_optimizer: Optimizer,
        masking: Masking,
        mask_weights: MaskWeighting,
        loss_weights: dict[str, FloatOrSchedule],
        batch_size: int = 16,
        dropout: float = 0.1,
        view: View = "mixed",
        mask_probability: float = 0.15,
        seed: int = 0,
    ) -> None:
        if corpus and output is None:
            raise ValueError(
                "Adaptation needs a folder for the encoder that it makes, and none is set. "
                "Give one with --paths.adapted, or leave out --paths.text."
            )
        self.corpus = corpus
        self.output = output
        self.steps = steps
        self.optimizer = optimizer
        self.teacher_steps = teacher_steps
        self.teacher_optimizer = teacher_optimizer
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
    adaptation: Adaptation,
    pipe: TrainablePipe,
    teacher: TrainablePipe,
    get_examples: Callable[[], Iterable[Example]],
    labels: Sequence[str],
    nlp: Language,
    settings: Any,
) -> Path:
    """Run the stage, unless it was, and return the folder of the adapted encoder.

    pipe: an `mslm` pipe with the stage's settings, which is trained here.
    teacher: one with the settings of the pipeline's own. The two may share a model.
    get_examples, labels: of the labelled set.
    nlp: the pipeline that is initialised; only its language and tokenizer are used, since the
        words of the text must not get into its vocabulary.
    settings: what the config says of the stage and of the pipe; None if it says nothing. A folder
        that another config has made is an error.
    """
    folder = Path(str(adaptation.output))
    attrs = pipe.model.attrs
    record = {"model": {key: attrs[key] for key in MODEL_SETTINGS}, "settings": settings}
    if adaptation.corpus.needs_labels:
        record["labelled_set"] = _digest(get_examples())
    record = json.loads(json.dumps({key: made_of(value) for key, value in record.items()}))
    if folder.exists():
        if not _made_with(record, folder):
            raise ValueError(
                f"{folder} is not what this adaptation would make: it is of another encoder or "
                "of other settings (its adaptation.json tells). Give another --paths.adapted, "
                "or delete the folder."
            )
        return folder
    start = time.process_time()
    with torch.random.fork_rng():  # what follows is the same whether the stage is run or was
        # Not the seed itself: a run with the same one that draws heads anew would draw those from
        # which the encoder has learnt here, and start better than with others.
        torch.manual_seed(adaptation.seed + SEED_OFFSET)
        if adaptation.corpus.needs_labels:
            labelled = list(get_examples())
            teacher.initialize(lambda: labelled, nlp=nlp, labels=labels)
            optimizer = adaptation.teacher_optimizer
            _train(teacher, labelled, adaptation, adaptation.teacher_steps, optimizer, "Teacher")
        config = {"nlp": {"tokenizer": nlp.config["nlp"]["tokenizer"]}}
        blank = spacy.blank(str(nlp.lang), config=config)
        found = adaptation.corpus(blank, lambda docs: _entities(teacher, docs))
        wanted = adaptation.steps * adaptation.batch_size
        examples = list(progress_bar(islice(found, wanted), total=wanted, desc="Sentences"))
        if not examples:
            raise ValueError(
                "The text for adaptation has no sentence in which an entity was found, or the "
                "teacher was never sure of one (adaptation.corpus.min_confidence). Check "
                "--paths.text and, where it is given, --paths.terms; a teacher is surer after "
                "more --training.max_steps."
            )
        # A teacher's labels are those of the labelled set, even if it was sure of none of a type.
        own = labels if adaptation.corpus.all_need_labels else None
        pipe.initialize(lambda: examples, nlp=blank, labels=own)
        _train(pipe, examples, adaptation, adaptation.steps, adaptation.optimizer, "Adaptation")
    with replaced_folder(folder) as temporary:
        network = shim_of(pipe.model).network
        save_checkpoint(network.lm, pipe.model.attrs["encoder"], temporary)
        save_file(network.entity_heads.state_dict(), temporary / HEADS)
        record["labels"] = pipe.labels
        record["sentences"] = len(examples)
        record["cpu_seconds"] = round(time.process_time() - start)
        (temporary / RECORD).write_text(json.dumps(record, indent=2), encoding="utf8")
    return folder


def keep_heads(model: MSLMModel, folder: Path, labels: Sequence[str]) -> None:
    """Put the stage's entity heads on a model with its encoder, if their labels are these."""
    record = json.loads((folder / RECORD).read_text(encoding="utf8"))
    if record["labels"] == list(labels):
        shim_of(model).network.entity_heads.load_state_dict(load_file(folder / HEADS))


def _train(
    pipe: TrainablePipe,
    examples: list[Example],
    adaptation: Adaptation,
    steps: int,
    optimizer: Optimizer,
    title: str,
) -> None:
    """Update an initialised pipe, with a progress bar."""
    shuffled = random.Random(adaptation.seed).sample(examples, len(examples))
    stream = islice(cycle(shuffled), steps * adaptation.batch_size)
    with progress_bar(total=steps, desc=title) as bar:
        for batch in minibatch(stream, adaptation.batch_size):
            losses = pipe.update(batch, drop=adaptation.dropout, sgd=optimizer)
            optimizer.step_schedules()
            terms = {k.removeprefix(f"{pipe.name}_"): f"{v:.2f}" for k, v in losses.items()}
            bar.set_postfix(terms, refresh=False)
            bar.update()


def _entities(teacher: TrainablePipe, docs: Iterable[Doc]) -> Iterator[Doc]:
    """Documents with the entities that the teacher finds, where it writes them to spans, too."""
    for doc in teacher.pipe(docs, batch_size=256):
        for spans in doc.spans.values():
            doc.set_ents(list(spans), default="outside")
        doc.spans.clear()
        yield doc


def _digest(examples: Iterable[Example]) -> str:
    """Of a labelled set: texts and entities."""
    digest = hashlib.blake2b(digest_size=16)
    for example in examples:
        spans = [(s.start, s.end, s.label_) for s in example.reference.ents]
        for group in example.reference.spans.values():
            spans += [(s.start, s.end, s.label_) for s in group]
        digest.update(repr((example.reference.text, spans)).encode("utf8"))
    return digest.hexdigest()


def _made_with(record: dict, folder: Path) -> bool:
    try:
        found = json.loads((folder / RECORD).read_text(encoding="utf8"))
    except (OSError, ValueError):
        return False
    known = record["settings"] is not None
    return known and {key: found.get(key) for key in record} == record
