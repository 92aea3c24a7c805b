"""A stage before training in which the encoder learns the terms of a domain from unlabelled text.

    labelled set --train--> teacher --labels--> text --adapt--> encoder --> training starts there

The stage trains a separate pipe with the losses, masks and views of the `mslm` pipe, on sentences
whose terms are labelled by a terminology or by a teacher. A teacher is a pipe that is first trained
on the labelled set. The result is a checkpoint folder that also contains the entity heads. If the
labels of the stage are those of the labelled set, training starts with these heads.
"""

import hashlib
import logging
import random
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import spacy
import torch
from safetensors.torch import load_file, save_file
from spacy.language import Language
from spacy.training import Example
from spacy.util import minibatch
from thinc.api import Optimizer

from ..corpus.weak_corpus import WeakCorpus
from ..masking.strategies import Masking, NoMasking
from ..masking.views import View
from ..masking.weights import MaskWeighting, UniformWeights
from ..model.checkpoints import save_checkpoint
from ..model.network import MSLMNetwork
from ..model.schedules import FloatOrSchedule
from ..model.workers import workers
from ..util.manifest import signed_folder
from ..util.progress import progress_bar
from ..util.settings import check_at_least, check_between
from ..util.stage_folder import StageFolder
from .checkpoint import StageCheckpoint
from .labelling import Labelling

if TYPE_CHECKING:
    from ..pipeline.component import MSLM

logger = logging.getLogger("spacy_mslm")

RECORD = "adaptation.json"
HEADS = "heads.safetensors"
TEACHER_TITLE, TITLE = "Teacher", "Adaptation"
REMEDY = "Give another --paths.adapted, or delete the folder."
SEED_OFFSET = 1_000_003

# Settings of the pipe that do not change the result of the stage. All other settings are recorded
# in the folder, so that new settings are recorded by default.
OWN_OF_PIPE = (
    *("factory", "view", "mask_probability", "masking", "mask_weights", "loss_weights", "seed"),
    *("scorer", "score_perplexity", "score_masked", "token_probabilities", "threshold"),
    *("batch_pieces", "max_unaligned"),
)
# Settings of the stage that do not change its teacher.
OF_TEXT = (
    *("corpus", "steps", "optimizer", "masking", "mask_weights", "loss_weights", "view"),
    "mask_probability",
)
OWN_OF_MODEL = ("@architectures", "mixed_precision", "gradient_checkpointing")

# Settings of the teacher: plain fine-tuning, independent of the settings of the pipe.
TEACHER: dict[str, Any] = {
    "masking": NoMasking(),
    "mask_weights": UniformWeights(),
    "loss_weights": {"mlm": 0.0, "ed": 1.0, "el": 1.0},
}

MakePipe = Callable[..., "MSLM"]


class Adaptation:
    """`spacy_mslm.Adaptation.v1`: the settings of the stage.

    Args:
        corpus: Sentences with weak labels. Without text, there is no adaptation.
        output: The folder for the adapted encoder. A folder made earlier with the same settings
            (and by a teacher of the same labelled set) is used as it is.
        steps: The number of updates. `steps * batch_size` sentences are held in memory.
        optimizer: The optimizer, as in [training].
        teacher_steps: The number of updates of the teacher, if the corpus needs a teacher.
        teacher_optimizer: The optimizer of the teacher.
        masking: The masking strategy, as in the pipe.
        mask_weights: The weights of masked pieces, as in the pipe.
        loss_weights: The weights of the losses, as in the pipe.
        batch_size: The number of sentences in an update.
        dropout: The dropout rate, as in [training].
        view: The view, as in the pipe.
        mask_probability: The probability of masking in the `mixed` view, as in the pipe.
        seed: The seed of masks, dropout and order. It is not the seed of the run, so that runs with
            different seeds can share the encoder.
        checkpoint_every: The number of updates between checkpoints, beside the output folder, from
            which an interrupted stage continues.
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
        checkpoint_every: int = 200,
    ) -> None:
        if corpus and output is None:
            raise ValueError(
                "Adaptation needs a folder for the adapted encoder. Set one with --paths.adapted, "
                "or leave out --paths.text."
            )
        least = {"steps": steps, "teacher_steps": teacher_steps, "batch_size": batch_size}
        for name, value in (least | {"checkpoint_every": checkpoint_every}).items():
            check_at_least(f"adaptation.{name}", value, 1)
        check_at_least("adaptation.seed", seed, 0)
        check_between("adaptation.dropout", dropout, 0, 1)
        check_between("adaptation.mask_probability", mask_probability, 0, 1)
        self.corpus = corpus
        self.output = output
        self.steps = steps
        self.optimizer = optimizer
        self.teacher_steps = teacher_steps
        self.teacher_optimizer = teacher_optimizer
        self.batch_size = batch_size
        self.dropout = dropout
        self.seed = seed
        self.checkpoint_every = checkpoint_every
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
    make_pipe: MakePipe,
    teacher_settings: dict[str, Any],
    name: str,
    get_examples: Callable[[], Iterable[Example]],
    labels: Sequence[str],
    nlp: Language,
) -> Path:
    """Run the stage, unless its folder already exists.

    Args:
        adaptation: The settings of the stage.
        make_pipe: Makes an `mslm` pipe with the given settings and with the model of the pipe
            `name`, without weights.
        teacher_settings: Settings that the teacher shares with that pipe.
        name: The name of the pipe that is initialized.
        get_examples: Returns the labelled set.
        labels: The labels of the labelled set.
        nlp: The pipeline that is initialized. Only its language, tokenizer and config are used,
            because the words of the text must not get into its vocabulary.

    Returns:
        The folder.

    Raises:
        ValueError: If the folder was made with other settings, or no entity is found in the text.
    """
    folder = Path(str(adaptation.output))
    needs_teacher = adaptation.corpus.needs_labels
    settings = stage_settings(nlp, name, with_teacher=needs_teacher)
    if needs_teacher:
        settings["labelled_set"] = labelled_set_digest(get_examples())
    stage = StageFolder(folder, RECORD, settings, REMEDY)
    found = stage.read()
    if found is not None:
        # Without settings in the config, the stage cannot be compared with the record.
        known = settings["settings"] is not None
        stage.check(found if known else {})
        return folder
    steps = {TEACHER_TITLE: adaptation.teacher_steps, TITLE: adaptation.steps}
    checkpoints = stage_checkpoints(stage, steps, adaptation.checkpoint_every)
    start = time.process_time()
    with torch.random.fork_rng():  # the run continues the same whether or not the stage is run
        # A run with the same seed must not start with the initial heads of the stage.
        torch.manual_seed(adaptation.seed + SEED_OFFSET)
        labelling = None
        if needs_teacher:
            teacher = make_pipe(**TEACHER, **teacher_settings)
            labelled = list(get_examples())
            teacher.start(labelled, labels)
            _train(
                *(teacher, labelled, adaptation, adaptation.teacher_steps),
                *(adaptation.teacher_optimizer, TEACHER_TITLE, checkpoints.get(TEACHER_TITLE)),
            )
            labelling = Labelling(teacher, adaptation.corpus.min_confidence)
            del teacher
        config = {"nlp": {"tokenizer": nlp.config["nlp"]["tokenizer"]}}
        sentences = adaptation.corpus(spacy.blank(str(nlp.lang), config=config), labelling)
        wanted = adaptation.steps * adaptation.batch_size
        examples = list(progress_bar(islice(sentences, wanted), total=wanted, desc="Sentences"))
        if labelling is not None:
            _check_labels(labelling, len(examples), wanted)
        if not examples:
            raise ValueError(
                "The text for adaptation has no sentence in which an entity was found. Check "
                "--paths.text and, if given, --paths.terms."
            )
        del labelling, sentences  # the network of the teacher is no longer needed
        student = make_pipe(**adaptation.pipe_settings)
        # The labels of a teacher are those of the labelled set, even if it found none of a type.
        own = labels if adaptation.corpus.all_need_labels else student.gold_labels(examples)
        student.start(examples, own)
        _train(
            *(student, examples, adaptation, adaptation.steps, adaptation.optimizer),
            *(TITLE, checkpoints.get(TITLE)),
        )
    seconds = round(time.process_time() - start)
    save_student(stage, student, {"sentences": len(examples), "cpu_seconds": seconds})
    for checkpoint in checkpoints.values():
        checkpoint.remove()
    return folder


def stage_checkpoints(
    stage: StageFolder, steps: dict[str, int], every: int
) -> dict[str, StageCheckpoint]:
    """Return the checkpoint of each part of a stage, beside its folder.

    There are none without settings in the config: they could be those of any settings.

    Args:
        stage: The folder of the stage.
        steps: The number of updates of each part, by its title.
        every: The number of updates between checkpoints.
    """
    if stage.settings["settings"] is None:
        return {}
    of_teacher = {k: v for k, v in stage.settings["settings"].items() if k not in OF_TEXT}
    known = {TEACHER_TITLE: {**stage.settings, "settings": of_teacher}}
    return {
        title: StageCheckpoint(
            stage.path.with_name(f"{stage.path.name}.{title.lower()}-checkpoint"),
            {**known.get(title, stage.settings), "stage": title},
            n,
            every,
        )
        for title, n in steps.items()
    }


def save_student(stage: StageFolder, student: "MSLM", results: dict[str, Any]) -> None:
    """Write the folder of the stage: the encoder, the entity heads, and the record with results.

    Of several workers, the first one does so, and the others wait for it.
    """
    network = student.shim.network
    if workers().is_first:
        with signed_folder(stage.path) as temporary:
            save_checkpoint(network.lm, student.model.attrs["encoder"], temporary)
            save_file(network.entity_heads.state_dict(), temporary / HEADS)
            record = {**stage.settings, "labels": list(student.labels), **results}
            stage.write(record, temporary)
    workers().wait()


def stage_settings(nlp: Language, name: str, with_teacher: bool) -> dict[str, Any]:
    """Return all settings of a config that change the result of the stage.

    Args:
        nlp: The pipeline.
        name: The name of the `mslm` pipe.
        with_teacher: Whether a teacher labels the text. Otherwise its settings do not matter.

    Returns:
        `model` and `settings`. The latter is None if the config does not describe the stage.
    """
    config = nlp.config.interpolate()
    stage = config["initialize"]["components"].get(name, {}).get("adaptation", {})
    pipe = dict(config["components"][name])
    model = {k: v for k, v in pipe.pop("model").items() if k not in OWN_OF_MODEL}
    if not stage:
        return {"model": model, "settings": None}
    # Neither the path of the folder nor when checkpoints are written changes its content.
    settings = {k: v for k, v in stage.items() if k not in ("output", "checkpoint_every")}
    settings["tokenizer"] = config["nlp"]["tokenizer"]
    if with_teacher:
        # Values of None are left out: folders of earlier versions do not have these keys.
        used = {k: v for k, v in pipe.items() if k not in OWN_OF_PIPE and v is not None}
        settings.update(used)
    else:
        settings = {k: v for k, v in settings.items() if not k.startswith("teacher")}
    return {"model": model, "settings": settings}


def keep_heads(network: MSLMNetwork, folder: Path, labels: Sequence[str]) -> None:
    """Load the entity heads of the stage into a network, if the stage had the same labels."""
    record = StageFolder(folder, RECORD, {}).read()
    if record is not None and record["labels"] == list(labels):
        network.entity_heads.load_state_dict(load_file(folder / HEADS))


def _train(
    pipe: "MSLM",
    examples: list[Example],
    adaptation: Adaptation,
    steps: int,
    optimizer: Optimizer,
    title: str,
    checkpoint: StageCheckpoint | None,
) -> None:
    """Update a pipe, with a progress bar, from its checkpoint on if there is one."""
    done = checkpoint.restore({"model": pipe.model}, optimizer) if checkpoint else 0
    pipe.cfg["step"] = done
    size = adaptation.batch_size
    shuffled = random.Random(adaptation.seed).sample(examples, len(examples))
    stream = islice(cycle(shuffled), done * size, steps * size)
    with progress_bar(total=steps, initial=done, desc=title) as bar:
        for step, batch in enumerate(minibatch(stream, size), start=done + 1):
            losses = pipe.update(batch, drop=adaptation.dropout, sgd=optimizer)
            optimizer.step_schedules()
            terms = {k.removeprefix(f"{pipe.name}_"): f"{v:.2f}" for k, v in losses.items()}
            bar.set_postfix(terms, refresh=False)
            bar.update()
            if checkpoint:
                checkpoint.write({"model": pipe.model}, optimizer, step)


def _check_labels(labelling: Labelling, found: int, wanted: int) -> None:
    """Log what a teacher found, and raise a ValueError if it is too little to learn from."""
    if (labelling.is_stopped and found < wanted) or not found:
        raise ValueError(
            f"{labelling.summary()} That is too little for adaptation, which takes {wanted:,} "
            f"sentences.{labelling.advice()}"
        )
    logger.info(labelling.summary())
    if found < wanted:
        logger.warning(
            f"The text has {found:,} of the {wanted:,} sentences that adaptation takes, so they "
            f"are used {wanted / found:.1f} times. Give more text, or fewer adaptation.steps."
        )


def labelled_set_digest(examples: Iterable[Example]) -> str:
    """Return a digest of the texts and entities of a labelled set."""
    digest = hashlib.blake2b(digest_size=16)
    for example in examples:
        spans = [(s.start, s.end, s.label_) for s in example.reference.ents]
        for group in example.reference.spans.values():
            spans += [(s.start, s.end, s.label_) for s in group]
        digest.update(repr((example.reference.text, spans)).encode("utf8"))
    return digest.hexdigest()
