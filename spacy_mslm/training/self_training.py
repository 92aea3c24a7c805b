"""Self-training: a stage before training in which a student learns what teachers say of text.

    labelled set --train--> teachers --soft tags--> text, masked --train--> student
                     '-------------------------labelled set------------------'

The teachers are pipes with different initial heads, trained on the labelled set. They read the
clean text. The student starts from the checkpoint. Each batch has masked text, of which it learns
the mean of the teachers' tag probabilities, and labelled windows, with and without swapped
mentions. The result is the same folder as that of `adaptation`: a checkpoint and the entity heads.
"""

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import spacy
import torch
from spacy.language import Language
from spacy.training import Example
from spacy.util import minibatch
from thinc.api import Optimizer, set_dropout_rate

from ..corpus.text_corpus import TextCorpus
from ..inference.decoding import bio_spans, decode_bio, transition_scores
from ..masking.strategies import Masking
from ..masking.views import gold_row, maskable
from ..masking.weights import UniformWeights
from ..types import (
    MISSING,
    UNMASKED,
    B,
    Gold,
    I,
    MaskableWindow,
    Mention,
    O,
    Pieces,
    Prediction,
    Row,
    one_hot,
)
from ..util.progress import progress_bar
from ..util.stage_folder import StageFolder
from .adaptation import (
    RECORD,
    REMEDY,
    SEED_OFFSET,
    TEACHER,
    MakePipe,
    labelled_set_digest,
    save_student,
    stage_checkpoints,
    stage_settings,
)
from .checkpoint import StageCheckpoint
from .losses import Terms
from .step import learn
from .swap import confirmed, swap_mentions

if TYPE_CHECKING:
    from ..pipeline.component import MSLM

RowT = TypeVar("RowT")

DOCS_AT_ONCE = 256
TEACHERS_TITLE, TITLE = "Teachers", "Self-training"


class SelfTraining:
    """`spacy_mslm.SelfTraining.v1`: the settings of the stage.

    Args:
        corpus: Text.
        output: The folder for the adapted encoder. A folder made earlier with the same settings and
            the same labelled set is used as it is.
        steps: The number of updates of the student.
        optimizer: The optimizer of the student, as in [training].
        teacher_steps: The number of updates of each teacher.
        teacher_optimizer: The optimizer of the teachers.
        masking: Masks what the student reads of the text. Labelled sentences are not masked.
        teachers: The number of teachers that the stage trains, or folders of trained pipelines that
            have the encoder's wordpieces and the labels of the labelled set.
        batch_size: The number of windows in an update.
        labelled: The number of labelled windows among them.
        swapped: The number of labelled windows in which a mention is replaced by another one of its
            type, as a multiple of the number of labelled windows; 0 for none. A teacher has to
            find the new mention.
        passes: How often the student reads each window of the text, with other masks each time.
        sure: The probability of a tag from which on it is learnt. Tokens of which the teachers are
            less sure have no loss.
        empty: The share of the windows of text in which the teachers find no mention.
        max_pieces: Longer windows of the text are left out, because they cost most; 0 for no limit.
        dropout: The dropout rate, as in [training].
        seed: The seed of teachers, order, masks and dropout.
        checkpoint_every: The number of updates between checkpoints, beside the output folder, from
            which an interrupted stage continues.
    """

    def __init__(
        self,
        corpus: TextCorpus,
        output: str | None,
        steps: int,
        optimizer: Optimizer,
        teacher_steps: int,
        teacher_optimizer: Optimizer,
        masking: Masking,
        teachers: int | list[str] = 2,
        batch_size: int = 16,
        labelled: int = 4,
        swapped: float = 1.0,
        passes: int = 2,
        sure: float = 0.9,
        empty: float = 0.33,
        max_pieces: int = 56,
        dropout: float = 0.1,
        seed: int = 0,
        checkpoint_every: int = 200,
    ) -> None:
        if not corpus or output is None:
            raise ValueError(
                "Self-training needs text (--paths.text) and a folder for the adapted encoder "
                "(--paths.adapted). Without text, train with vanilla.cfg."
            )
        if not 0 <= labelled < batch_size:
            raise ValueError(
                f"labelled is {labelled}, but must be at least 0 and below batch_size "
                f"({batch_size}), so that each update has text."
            )
        n_teachers = teachers if isinstance(teachers, int) else len(teachers)
        if n_teachers < 1 or passes < 1:
            raise ValueError(f"teachers ({n_teachers}) and passes ({passes}) must be at least 1.")
        if not 0 <= empty < 1:
            raise ValueError(f"empty is {empty}, but must be at least 0 and below 1.")
        self.corpus = corpus
        self.output = output
        self.steps = steps
        self.optimizer = optimizer
        self.teacher_steps = teacher_steps
        self.teacher_optimizer = teacher_optimizer
        self.masking = masking
        self.teachers = teachers
        self.batch_size = batch_size
        self.labelled = labelled
        self.swapped = swapped
        self.passes = passes
        self.sure = sure
        self.empty = empty
        self.max_pieces = max_pieces
        self.dropout = dropout
        self.seed = seed
        self.checkpoint_every = checkpoint_every


class Passage(NamedTuple):
    """A window of the text with what the teachers say.

    Attributes:
        row: The clean window. Its tags are probabilities, (n, 3).
        maskable: The same for a masking strategy, with all mentions that the teachers find.
    """

    row: Row
    maskable: MaskableWindow


def self_train(
    stage: SelfTraining,
    make_pipe: MakePipe,
    teacher_settings: dict[str, Any],
    name: str,
    get_examples: Callable[[], Iterable[Example]],
    labels: Sequence[str],
    nlp: Language,
) -> Path:
    """Run the stage, unless its folder already exists.

    Args and the folder are those of `adaptation.adapt`.

    Raises:
        ValueError: If the folder was made with other settings, or the teachers find no mention.
    """
    settings = stage_settings(nlp, name, with_teacher=True)
    settings["labelled_set"] = labelled_set_digest(get_examples())
    folder = StageFolder(Path(str(stage.output)), RECORD, settings, REMEDY)
    found = folder.read()
    if found is not None:
        folder.check(found if settings["settings"] is not None else {})
        return folder.path
    steps = {TEACHERS_TITLE: stage.teacher_steps, TITLE: stage.steps}
    checkpoints = stage_checkpoints(folder, steps, stage.checkpoint_every)
    start = time.process_time()
    with torch.random.fork_rng():  # the run continues the same whether or not the stage is run
        # A run with the same seed must not start with the initial heads of the stage.
        torch.manual_seed(stage.seed + SEED_OFFSET)
        labelled = list(get_examples())
        student = make_pipe(**TEACHER, **teacher_settings)
        if student.typed:
            raise ValueError(
                "Self-training takes the architecture spacy_mslm.MSLM.v1. For MSLM.v2, which tags "
                "each type separately, use spacy_mslm.Adaptation.v1."
            )
        if isinstance(stage.teachers, int):
            teachers = [make_pipe(**TEACHER, **teacher_settings) for _ in range(stage.teachers)]
            _train_teachers(stage, teachers, labelled, labels, checkpoints.get(TEACHERS_TITLE))
        else:
            teachers = [_load_teacher(path, student, labels) for path in stage.teachers]
        student.start(labelled, labels)
        _check_pieces(teachers, student)
        blank = spacy.blank(
            str(nlp.lang), config={"nlp": {"tokenizer": nlp.config["nlp"]["tokenizer"]}}
        )
        passages = choose_passages(stage, label_text(stage, teachers, blank))
        if not any(len(passage.maskable.mentions) for passage in passages):
            raise ValueError(
                "The teachers found no mention in the text for adaptation. Check --paths.text, and "
                "adaptation.max_pieces if the text has long sentences. Teachers find more after "
                "more --training.max_steps."
            )
        gold = _labelled_rows(teachers[0], labelled)
        gold += _swapped_rows(stage, teachers[0], gold)
        del teachers
        _train_student(stage, student, passages, gold, checkpoints.get(TITLE))
    seconds = round(time.process_time() - start)
    save_student(folder, student, {"sentences": len(passages), "cpu_seconds": seconds})
    for checkpoint in checkpoints.values():
        checkpoint.remove()
    return folder.path


def _load_teacher(path: str, student: "MSLM", labels: Sequence[str]) -> "MSLM":
    """Load the `mslm` pipe of a trained pipeline.

    Raises:
        ValueError: If the pipeline has no such pipe, or the pipe has other labels.
    """
    pipes = [pipe for _, pipe in spacy.load(path).pipeline if isinstance(pipe, type(student))]
    if len(pipes) != 1 or pipes[0].typed or pipes[0].labels != tuple(labels):
        found = "; ".join(", ".join(pipe.labels) for pipe in pipes) or "none"
        raise ValueError(
            f"{path} cannot teach: a teacher has one mslm pipe, of spacy_mslm.MSLM.v1, with the "
            f"labels of the labelled set ({', '.join(labels)}). Labels found: {found}."
        )
    return pipes[0]


def _check_pieces(teachers: Sequence["MSLM"], student: "MSLM") -> None:
    """Raise a ValueError if a teacher reads other wordpieces than the student."""
    own = student.shim.wordpieces.tokenizer.get_vocab()
    if any(teacher.shim.wordpieces.tokenizer.get_vocab() != own for teacher in teachers):
        raise ValueError(
            "A teacher has other wordpieces than the encoder. Train the teachers with the same "
            "--vars.encoder."
        )


def _train_teachers(
    stage: SelfTraining,
    teachers: list["MSLM"],
    labelled: list[Example],
    labels: Sequence[str],
    checkpoint: StageCheckpoint | None,
) -> None:
    """Train the teachers side by side: each has its own heads, order and dropout."""
    for teacher in teachers:
        teacher.start(labelled, labels)
    models = {str(index): teacher.model for index, teacher in enumerate(teachers)}
    optimizer, size = stage.teacher_optimizer, stage.batch_size
    done = checkpoint.restore(models, optimizer) if checkpoint else 0
    streams = []
    for index in range(len(teachers)):
        shuffled = random.Random(stage.seed + index).sample(labelled, len(labelled))
        streams.append(minibatch(islice(cycle(shuffled), done * size, None), size))
    with progress_bar(total=stage.teacher_steps, initial=done, desc=TEACHERS_TITLE) as bar:
        for step in range(done + 1, stage.teacher_steps + 1):
            for teacher, batches in zip(teachers, streams, strict=True):
                teacher.update(next(batches), drop=stage.dropout, sgd=optimizer)
            optimizer.step_schedules()
            bar.update()
            if checkpoint:
                checkpoint.write(models, optimizer, step)


def label_text(stage: SelfTraining, teachers: list["MSLM"], nlp: Language) -> Iterator[Passage]:
    """Yield the windows of the text with the tags and mentions of the teachers."""
    first = teachers[0]
    limit = stage.max_pieces or first.windows.size
    transitions = transition_scores(np.array(first.cfg["transitions"]), first.transition_weight)
    docs = stage.corpus(nlp, first.windows.split_sentences)
    for batch in minibatch(docs, DOCS_AT_ONCE):
        documents = [
            (pieces, windows)
            for pieces in first.shim.wordpieces(batch)
            if (windows := [w for w in first.windows.cover(pieces) if w.end - w.start <= limit])
        ]
        pieces_only = [pieces for pieces, _ in documents]
        found = [teacher.predict_pieces(pieces_only) for teacher in teachers]
        for (pieces, windows), predictions in zip(documents, zip(*found, strict=True), strict=True):
            bio, mentions = combine(pieces, predictions, transitions, first.labels)
            gold = soft_gold(bio, mentions, stage.sure)
            every = Gold(gold.tags, mentions, [])
            for window in windows:
                row = gold_row(pieces, window, gold, first.labels)
                tokens = pieces.token_of[window.start + row.tag_at]
                row = replace(row, tags=bio[tokens])
                yield Passage(row, _within(maskable(pieces, window, every)))


def combine(
    pieces: Pieces,
    predictions: Sequence[Prediction],
    transitions: np.ndarray,
    labels: Sequence[str],
) -> tuple[np.ndarray, list[Mention]]:
    """Return the mean probabilities of several predictions, and the mentions decoded from them.

    A mention has the type for which the sum of confidences is largest, over all predicted entities
    that overlap it. Mentions that no entity overlaps are left out.

    Args:
        pieces: The document.
        predictions: The prediction of each teacher.
        transitions: (3, 3) Transition scores.
        labels: The entity types.

    Returns:
        (tokens, 3) The probabilities of B, I, O, and the mentions.
    """
    bio = np.mean([prediction.bio for prediction in predictions], axis=0).astype(np.float32)
    tokens = pieces.tagged
    mentions = []
    for first, last in bio_spans(decode_bio(bio[tokens], transitions)).tolist():
        start, end = int(tokens[first]), int(tokens[last - 1]) + 1
        votes = np.zeros(len(labels))
        for prediction in predictions:
            for entity in prediction.entities:
                if entity.start < end and start < entity.end:
                    votes[entity.type] += entity.confidence
        if votes.any():
            mentions.append(Mention(start, end, labels[int(votes.argmax())]))
    return bio, mentions


def soft_gold(bio: np.ndarray, mentions: Sequence[Mention], sure: float) -> Gold:
    """Return the annotation that is learnt: tags that are at least `sure`, and the types of the
    mentions whose tags are all sure. All other tags are missing."""
    known = bio.max(axis=1) >= sure
    tags = np.where(known, O, MISSING)
    for start, end, _ in mentions:
        tags[start:end] = np.where(known[start:end], I, MISSING)
        tags[start] = B if known[start] else MISSING
    return Gold(tags, [m for m in mentions if known[m.start : m.end].all()], [])


def _within(window: MaskableWindow) -> MaskableWindow:
    """Drop the mentions of a document that are outside a window."""
    if not len(window.token_of):
        return window
    starts, ends = window.mentions.T
    inside = (ends > window.token_of[0]) & (starts <= window.token_of[-1])
    return replace(window, mentions=window.mentions[inside])


def choose_passages(stage: SelfTraining, passages: Iterable[Passage]) -> list[Passage]:
    """Return windows with and without mentions in the wanted proportion, in the order of the text,
    until there are enough for the stage or the text ends."""
    wanted = -(-stage.steps * (stage.batch_size - stage.labelled) // stage.passes)
    without = round(stage.empty * wanted)
    left = {True: wanted - without, False: without}
    chosen: list[Passage] = []
    with progress_bar(total=wanted, desc="Sentences") as bar:
        for passage in passages:
            kind = len(passage.maskable.mentions) > 0
            if left[kind]:
                left[kind] -= 1
                chosen.append(passage)
                bar.update()
                if not any(left.values()):
                    break
    return chosen


def _train_student(
    stage: SelfTraining,
    student: "MSLM",
    passages: list[Passage],
    labelled: list[Row],
    checkpoint: StageCheckpoint | None,
) -> None:
    """Train the student on text and on labelled windows. Each pass has a new order."""
    models, optimizer = {"model": student.model}, stage.optimizer
    done = checkpoint.restore(models, optimizer) if checkpoint else 0
    n_text = stage.batch_size - stage.labelled
    text = _endless(passages, random.Random(stage.seed), done * n_text)
    gold = _endless(labelled, random.Random(stage.seed + 1), done * stage.labelled)
    weights = Terms(mlm=0.0, ed=1.0, el=1.0)
    with progress_bar(total=stage.steps, initial=done, desc=TITLE) as bar:
        for step in range(done + 1, stage.steps + 1):
            generator = np.random.default_rng([stage.seed, step])
            rows = list(islice(gold, stage.labelled))
            for passage in islice(text, n_text):
                rows.append(_masked(student, passage, stage.masking, generator))
            set_dropout_rate(student.model, stage.dropout)
            terms = learn(
                *(student.model, student.shim.wordpieces, rows, student.batch_pieces),
                *(UniformWeights()(0, 0), weights),
            )
            student.shim.finish_update(optimizer)
            optimizer.step_schedules()
            bar.set_postfix({"ed": f"{terms.ed:.2f}", "el": f"{terms.el:.2f}"}, refresh=False)
            bar.update()
            if checkpoint:
                checkpoint.write(models, optimizer, step)


def _labelled_rows(pipe: "MSLM", labelled: Iterable[Example]) -> list[Row]:
    """Return the windows of the labelled set, with tags as probabilities."""
    rows = []
    for example in labelled:
        pieces = pipe.shim.wordpieces([example.predicted])[0]
        gold = pipe.align(example)
        for window in pipe.windows.cover(pieces):
            row = gold_row(pieces, window, gold, pipe.labels)
            rows.append(replace(row, tags=one_hot(row.tags)))
    return rows


def _swapped_rows(stage: SelfTraining, teacher: "MSLM", labelled: list[Row]) -> list[Row]:
    """Return labelled windows with a swapped mention, which the teacher finds."""
    wanted = round(stage.swapped * len(labelled))
    # More than are wanted, as the teacher does not find all.
    new = swap_mentions(labelled, 2 * wanted, teacher.windows.size, random.Random(stage.seed + 2))
    return list(islice(confirmed(new, teacher.predict_pieces), wanted))


def _masked(
    pipe: "MSLM", passage: Passage, masking: Masking, generator: np.random.Generator
) -> Row:
    """Return a masked copy of a window. Its masks are part of the input, as no head reads them."""
    kinds = masking(passage.maskable, generator)
    ids = np.where(kinds == UNMASKED, passage.row.ids, pipe.shim.wordpieces.mask)
    return replace(passage.row, ids=ids)


def _endless(rows: Sequence[RowT], generator: random.Random, start: int) -> Iterator[RowT]:
    """Return an iterator over all rows again and again, in a new order each time, without the first
    `start` of them."""

    def passes() -> Iterator[RowT]:
        while rows:
            yield from generator.sample(rows, len(rows))

    return islice(passes(), start, None)
