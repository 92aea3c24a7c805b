"""Masked-LM training of an encoder on plain text: a new encoder, or one from a checkpoint.

    text -> documents -> wordpieces -> blocks -> masks -> encoder -> loss of eq. 6

All random numbers depend only on the seed and the step. A run that was interrupted continues from
its last checkpoint and gives the same weights as without the interruption, bit by bit, on the same
kind of machine.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import spacy
import torch
from safetensors.torch import load_file, save_file
from spacy.language import Language
from spacy.tokens import Doc
from spacy.util import minibatch

from ..corpus.readers import read_gold
from ..masking.strategies import Masking
from ..masking.weights import MaskWeighting, MaskWeights
from ..model.architecture import MSLMModel, build_mslm_v1, set_encoder, shim_of
from ..model.checkpoints import save_checkpoint
from ..model.new_encoder import Size, write_new_encoder
from ..model.optimizer import AdamW
from ..model.shim import MSLMShim
from ..pieces.packing import PackedBlock, PackedText
from ..pieces.wordpieces import Wordpieces
from ..scoring.perplexity import perplexities, row_losses
from ..text.plain_texts import TextFiles, as_paths, read_texts, text_files
from ..text.terminology import Terminology
from ..types import BLM, ELM, Pieces, Row, no_ints
from ..util.manifest import signed_folder
from ..util.progress import progress_bar
from ..util.settings import check_at_least
from ..util.stage_folder import StageFolder
from .distillation import DistillationTerms, Teacher, distil
from .losses import Terms
from .step import learn

RECORD = "pretraining.json"
STATE = "optimizer.safetensors"
REMEDY = (
    "Give another folder, or --force to start over in a folder of an earlier pretraining. To "
    "continue the training of a finished encoder, give it with --vars.encoder."
)
# The maximum number of held-out blocks. One in a hundred is held out, but at least one.
HELD_OUT = 200
# The special pieces and some letters; a few words.
MIN_VOCABULARY, MIN_LENGTH = 30, 8


@dataclass
class Pretraining:
    """`spacy_mslm.Pretraining.v1`: the settings of pretraining.

    Args:
        text: Files: plain text (a sentence, passage or document per line) or `.jsonl` with `text`,
            both optionally compressed (`.gz`), or `.spacy`.
        masking: The masking strategy, as in the pipe.
        mask_weights: The weights of masked pieces, as in the pipe.
        optimizer: The optimizer.
        steps: The number of updates.
        terms: Tables of terms. Their names in the text are the mentions of joint masking. In
            `.spacy` files, the entities are the mentions.
        encoder: A checkpoint to continue from, or None for a new encoder.
        size: The size of a new encoder.
        vocab_size: The number of pieces in the vocabulary of a new encoder.
        teacher: A larger encoder whose predictions and vectors are learnt beside the masked LM, or
            None.
        kl_weight: With a teacher, the weight of the divergence from its predictions.
        hidden_weight: With a teacher, the weight of the squared difference from its vectors.
        lowercase: Whether a new encoder converts text to lower case.
        lang: The language whose tokenizer splits words.
        length: The number of pieces in a block of text.
        batch_size: The number of blocks in an update.
        batch_pieces: The maximum number of padded pieces that go through the encoder at once.
        checkpoint_every: The number of updates between checkpoints.
        mixed_precision: Compute in half precision on a GPU.
        seed: The seed of all random numbers.
    """

    text: str | Sequence[str] | None
    masking: Masking
    mask_weights: MaskWeighting
    optimizer: AdamW
    steps: int
    terms: str | Sequence[str] | None = None
    encoder: str | None = None
    size: Size = "mini"
    vocab_size: int = 8000
    teacher: str | None = None
    kl_weight: float = 1.0
    hidden_weight: float = 30.0
    lowercase: bool = True
    lang: str = "en"
    length: int = 128
    batch_size: int = 32
    batch_pieces: int = 4096
    checkpoint_every: int = 500
    mixed_precision: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.files:
            raise ValueError(
                "There is no text for pretraining. Give a file, or a JSON list of files, with "
                "--paths.text."
            )
        if self.teacher is not None and self.encoder is None:
            raise ValueError(
                "A teacher (--paths.teacher) needs an encoder with pieces of its vocabulary. Make "
                "one with `spacy mslm shrink`, and give it with --vars.encoder."
            )
        least = {"steps": 1, "batch_size": 1, "batch_pieces": 1, "checkpoint_every": 1, "seed": 0}
        least |= {"vocab_size": MIN_VOCABULARY, "length": MIN_LENGTH}
        least |= {"kl_weight": 0, "hidden_weight": 0}
        for name, value in least.items():
            check_at_least(f"pretraining.{name}", getattr(self, name), value)

    @cached_property
    def files(self) -> TextFiles:
        """The files of the text, by kind."""
        return text_files(self.text)


def run_pretraining(
    pretraining: Pretraining, folder: Path, settings: dict[str, Any], force: bool = False
) -> dict[str, Any]:
    """Run pretraining to the last step, starting from the checkpoint in the folder if there is one.

    Args:
        pretraining: The settings.
        folder: The folder of the checkpoint.
        settings: The [pretraining] block of the config.
        force: Start over if the folder was made with other settings.

    Returns:
        The record that is also in the folder.

    Raises:
        ValueError: If the folder was made with other settings, or the loss is NaN or infinite.
    """
    recorded = {k: v for k, v in settings.items() if k != "checkpoint_every"}
    stage = StageFolder(folder, RECORD, {"settings": recorded}, REMEDY)
    record = stage.read()
    if record is not None and not force:
        stage.check(record)
    if record is None or force:
        record = {**stage.settings, "step": 0, "history": []}
        if pretraining.encoder is None:
            torch.manual_seed(pretraining.seed)
            with signed_folder(folder) as temporary:
                write_new_encoder(
                    _raw_texts(pretraining),
                    temporary,
                    pretraining.size,
                    pretraining.vocab_size,
                    pretraining.lowercase,
                )
                stage.write(record, temporary)
    if record["step"] < pretraining.steps:
        is_ours = record["step"] or pretraining.encoder is None
        model = _load(pretraining, str(folder) if is_ours else str(pretraining.encoder))
        _train(pretraining, model, stage, record)
    return record


def _load(pretraining: Pretraining, encoder: str) -> MSLMModel:
    """Return the model of an `mslm` pipe. Its entity heads are not trained."""
    model = build_mslm_v1(
        encoder,
        window=pretraining.length,
        context=0,
        mixed_precision=pretraining.mixed_precision,
    )
    model.set_dim("nO", 1)
    set_encoder(model, encoder)
    return model


def _train(
    pretraining: Pretraining, model: MSLMModel, stage: StageFolder, record: dict[str, Any]
) -> None:
    shim = shim_of(model)
    packed = PackedText(_documents(pretraining, shim.wordpieces), pretraining.length)
    n_held_out = min(HELD_OUT, 1 + len(packed) // 100)
    n_train = len(packed) - n_held_out
    if n_train < 1:
        raise ValueError(
            f"The text has {packed.n_pieces} pieces, which is too few: at least two blocks of "
            f"{pretraining.length} pieces (pretraining.length) are needed, one of them to measure "
            "perplexity. Give more text."
        )
    record["pieces"] = packed.n_pieces
    weights = _count_masks(pretraining, packed, n_train)
    optimizer, step = pretraining.optimizer, record["step"]
    if step:
        optimizer.load_moments(shim.id, *shim.encoder_and_heads(), load_file(stage.path / STATE))
    for _ in range(step):
        optimizer.step_schedules()
    learn_rows = _learner(pretraining, model, weights)
    order = _Order(n_train, pretraining.seed)
    bar = progress_bar(total=pretraining.steps, initial=step, desc="Pretraining")
    losses: list[dict[str, float]] = []
    start = time.perf_counter()
    pieces = 0
    with bar:
        while step < pretraining.steps:
            torch.manual_seed(_seed_of_step(pretraining.seed, step))
            generator = np.random.default_rng([pretraining.seed, step])
            chosen = range(step * pretraining.batch_size, (step + 1) * pretraining.batch_size)
            rows = [_masked_row(packed[order[i]], pretraining.masking, generator) for i in chosen]
            try:
                terms = learn_rows(rows)
                shim.finish_update(optimizer)
            except ValueError as err:
                raise ValueError(
                    f"NaN or infinite loss at step {step}. The last checkpoint (step "
                    f"{record['step']}) is in {stage.path}. Lower the learn rate."
                ) from err
            optimizer.step_schedules()
            step += 1
            losses.append(terms)
            pieces += sum(map(len, rows))
            speed = pieces / (time.perf_counter() - start)
            bar.set_postfix(loss=f"{terms['loss']:.3f}", pieces=f"{speed:,.0f}/s", refresh=False)
            bar.update()
            if step % pretraining.checkpoint_every == 0 or step == pretraining.steps:
                held_out = [packed[i] for i in range(n_train, len(packed))]
                row = {
                    "step": step,
                    **{k: round(float(np.mean([x[k] for x in losses])), 4) for k in losses[0]},
                    **_perplexity(pretraining, shim, held_out),
                    "pieces_per_second": round(speed),
                }
                losses = []
                record["history"].append(row)
                record["step"] = step
                _save(pretraining, model, stage, record)


def _learner(
    pretraining: Pretraining, model: MSLMModel, weights: MaskWeights
) -> Callable[[Sequence[Row]], dict[str, float]]:
    """Return a function that learns from rows and returns the losses by name."""
    shim, budget = shim_of(model), pretraining.batch_pieces
    if pretraining.teacher is None:

        def learn_rows(rows: Sequence[Row]) -> dict[str, float]:
            terms = learn(model, shim.wordpieces, rows, budget, weights, Terms(1.0, 0.0, 0.0))
            return {"loss": terms.mlm}

        return learn_rows
    teacher = Teacher(pretraining.teacher, shim.wordpieces, shim.network.device)
    loss_weights = DistillationTerms(1.0, pretraining.kl_weight, pretraining.hidden_weight)

    def distil_rows(rows: Sequence[Row]) -> dict[str, float]:
        terms = distil(shim, teacher, rows, budget, weights, loss_weights)
        return {"loss": terms.mlm, "kl": terms.kl, "hidden": terms.hidden}

    return distil_rows


def _save(
    pretraining: Pretraining, model: MSLMModel, stage: StageFolder, record: dict[str, Any]
) -> None:
    """Write the checkpoint folder. The state of the optimizer is left out after the last step."""
    shim = shim_of(model)
    with signed_folder(stage.path) as temporary:
        save_checkpoint(shim.network.lm, model.attrs["encoder"], temporary)
        if record["step"] < pretraining.steps:
            named = list(shim.network.named_parameters())
            save_file(pretraining.optimizer.moments(shim.id, named), temporary / STATE)
        stage.write(record, temporary)


class _Order:
    """An endless sequence of block indices. The blocks are shuffled again in each epoch."""

    def __init__(self, n: int, seed: int) -> None:
        self.n = n
        self.seed = seed
        self._epoch = -1
        self._order = no_ints()

    def __getitem__(self, index: int) -> int:
        epoch, place = divmod(index, self.n)
        if epoch != self._epoch:
            self._epoch = epoch
            self._order = np.random.default_rng([self.seed, 0, epoch]).permutation(self.n)
        return int(self._order[place])


def _masked_row(block: PackedBlock, masking: Masking, generator: np.random.Generator) -> Row:
    return Row(block.ids, masking(block.window, generator))


def _count_masks(pretraining: Pretraining, packed: PackedText, n_train: int) -> MaskWeights:
    """Compute the weights of eqs. 2-5 from the masks of one pass over the text."""
    generator = np.random.default_rng([pretraining.seed])
    counts = np.zeros(3, dtype=np.int64)
    for i in range(n_train):
        counts += np.bincount(pretraining.masking(packed[i].window, generator), minlength=3)
    return pretraining.mask_weights(int(counts[BLM]), int(counts[ELM]))


def _perplexity(
    pretraining: Pretraining, shim: MSLMShim, blocks: Sequence[PackedBlock]
) -> dict[str, float | None]:
    """Measure the perplexity on held-out blocks. The masks are always the same."""
    generator = np.random.default_rng([pretraining.seed])
    rows = [_masked_row(block, pretraining.masking, generator) for block in blocks]
    found = perplexities(*row_losses(shim, rows, pretraining.batch_pieces))
    return {name.removeprefix("mslm_"): value for name, value in found.items()}


def _documents(
    pretraining: Pretraining, wordpieces: Wordpieces
) -> Iterator[tuple[Pieces, list[tuple[int, int]]]]:
    """Yield the pieces and the mentions of each document.

    A separate pipeline tokenizes the text, so that its words do not get into another vocabulary.
    """
    nlp = spacy.blank(
        pretraining.lang, config={"nlp": {"tokenizer": {"@tokenizers": "spacy_mslm.Tokenizer.v1"}}}
    )
    terminology = (
        Terminology(as_paths(pretraining.terms), nlp.Defaults.stop_words)
        if pretraining.terms
        else None
    )
    docs = progress_bar(_docs(pretraining, nlp), desc="Reading", unit=" docs")
    for batch in minibatch(docs, 256):
        for doc, pieces in zip(batch, wordpieces(batch), strict=True):
            spans = terminology(doc) if terminology and not doc.ents else doc.ents
            yield pieces, [(span.start, span.end) for span in spans]


def _docs(pretraining: Pretraining, nlp: Language) -> Iterator[Doc]:
    plain, annotated = pretraining.files
    for _, text in read_texts(plain):
        yield nlp.tokenizer(text)
    for path in annotated:
        yield from read_gold(path, nlp.vocab)


def _raw_texts(pretraining: Pretraining) -> Iterator[str]:
    plain, annotated = pretraining.files
    vocab = spacy.blank(pretraining.lang).vocab
    docs = chain.from_iterable(read_gold(path, vocab) for path in annotated)
    return chain((text for _, text in read_texts(plain)), (doc.text for doc in docs))


def _seed_of_step(seed: int, step: int) -> int:
    """Combine a seed and a step into one number."""
    return int(np.random.SeedSequence([seed, step]).generate_state(1)[0])
