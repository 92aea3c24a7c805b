"""The `mslm` pipe: the only place where the model meets Docs."""

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import srsly
from spacy.language import Language
from spacy.pipeline import TrainablePipe
from spacy.tokens import Doc, Span
from spacy.training import Example, validate_examples, validate_get_examples
from spacy.util import minibatch
from spacy.vocab import Vocab
from thinc.api import Config, Optimizer, set_dropout_rate

from ..corpus.gold import align_gold, document_name
from ..inference.calibration import Calibration, calibrate
from ..inference.decoding import count_transitions, transition_scores
from ..inference.predict import predict_entities
from ..masking.strategies import JointMasking, Masking, NoMasking
from ..masking.views import View, gold_row, mask_sequence, view_rows
from ..masking.weights import MaskWeighting, MaskWeights, UniformWeights
from ..model.architecture import MSLMModel, document_windows, load_encoder, shim_of
from ..model.schedules import FloatOrSchedule, StepSchedule
from ..model.shim import ENCODER, build_network
from ..scoring.masked_text import draw_masks, mask_pieces, masked_lm_losses, perplexities
from ..scoring.scorer import confidences, judge
from ..training.adaptation import Adaptation, adapt, keep_heads
from ..training.losses import Terms
from ..training.step import NotFinite, learn
from ..types import (
    BLM,
    ELM,
    MISSING,
    Gold,
    Pieces,
    Prediction,
    Row,
    no_ints,
)
from ..util.extensions import confidence_of
from ..util.files import Content, map_file, replace_file
from .saving import add_manifest, checked_files

logger = logging.getLogger("spacy_mslm")

DEFAULT_CONFIG = """
[mslm]
view = "clean"
mask_probability = 0.5
spans_key = null
token_probabilities = false
transition_weight = 0.5
batch_pieces = 4096
max_unaligned = 0.05
score_perplexity = true
score_masked = false
seed = 0

[mslm.model]
@architectures = "spacy_mslm.MSLM.v1"
encoder = "dmis-lab/biobert-base-cased-v1.2"
window = 256
context = 32
split_sentences = true
detection_size = 100
classification_size = 100
mixed_precision = false
gradient_checkpointing = false

[mslm.masking]
@misc = "spacy_mslm.JointMasking.v1"
elm_rate = 1.0
blm_rate = 0.075

[mslm.mask_weights]
@misc = "spacy_mslm.MaskSpecificWeights.v1"
threshold = 0.5
temperature = 1.0

[mslm.loss_weights]
mlm = 1.0
ed = 1.0
el = 1.0

[mslm.scorer]
@scorers = "spacy_mslm.entity_scorer.v1"
spans_key = null
train = null
limit = 0
seed = null
"""


@Language.factory(
    "mslm",
    assigns=["doc.ents", "token.ent_iob", "token.ent_type"],
    default_config=Config().from_str(DEFAULT_CONFIG)["mslm"],
    default_score_weights={
        "ents_f": 1.0,
        "ents_p": 0.0,
        "ents_r": 0.0,
        "ents_per_type": None,
        "mslm_em": 0.0,
        "mslm_macro_f": 0.0,
    },
)
def make_mslm(
    nlp: Language,
    name: str,
    model: MSLMModel,
    masking: Masking,
    mask_weights: MaskWeighting,
    loss_weights: dict[str, Any],
    view: View,
    mask_probability: float,
    spans_key: str | None,
    token_probabilities: bool,
    transition_weight: float,
    batch_pieces: int,
    max_unaligned: float,
    score_perplexity: bool,
    score_masked: bool,
    seed: int,
    scorer: Callable | None,
) -> "MSLM":
    """Create an `mslm` component.

    model: `spacy_mslm.MSLM.v1`, or another model of that shape.
    masking: which pieces of a training sequence are masked (`misc` registry).
    mask_weights: what a masked piece of each kind weighs in the masked-LM loss (`misc` registry).
    loss_weights: `mlm`, `ed` and `el`, the weights of the three terms of eq. 12; each a number or
        a schedule over update steps.
    view: what the tagging heads read in training: `clean`, `masked` (the paper) or `mixed`.
    mask_probability: how often the `mixed` view masks a sequence.
    spans_key: write `doc.spans[spans_key]` in place of `doc.ents`.
    token_probabilities: also keep each token's probabilities of B, I, O in
        `doc._.bio_probabilities`, (tokens, 3).
    transition_weight: how much decoding heeds which tag follows which in the training set; at 0,
        only that I never follows O.
    batch_pieces: the most padded wordpieces that go through the encoder at once.
    max_unaligned: the largest share of gold mentions that may not fit the tokens.
    score_perplexity: also measure the masked-LM head's perplexity when scoring, which takes one
        more pass over the text.
    score_masked: also score by the protocol of the paper's authors, with the gold mentions masked
        before tagging: `mslm_masked_p`, `_r` (their EM) and `_f`.
    seed: of the masks.
    """
    return MSLM(
        nlp.vocab,
        model,
        name,
        masking=masking,
        mask_weights=mask_weights,
        loss_weights=loss_weights,
        view=view,
        mask_probability=mask_probability,
        spans_key=spans_key,
        token_probabilities=token_probabilities,
        transition_weight=transition_weight,
        batch_pieces=batch_pieces,
        max_unaligned=max_unaligned,
        score_perplexity=score_perplexity,
        score_masked=score_masked,
        seed=seed,
        scorer=scorer,
    )


class MSLM(TrainablePipe):
    """Entity detection and classification on an encoder that is trained to be sensitive to the
    domain's terms (Mask-Specific Language Modeling)."""

    def __init__(
        self,
        vocab: Vocab,
        model: MSLMModel,
        name: str = "mslm",
        *,
        masking: Masking,
        mask_weights: MaskWeighting,
        loss_weights: dict[str, FloatOrSchedule],
        view: View = "clean",
        mask_probability: float = 0.5,
        spans_key: str | None = None,
        token_probabilities: bool = False,
        transition_weight: float = 0.5,
        batch_pieces: int = 4096,
        max_unaligned: float = 0.05,
        score_perplexity: bool = True,
        score_masked: bool = False,
        seed: int = 0,
        scorer: Callable | None = None,
    ) -> None:
        if view not in get_args(View):
            raise ValueError(
                f"There is no view {view!r}. Use one of: {', '.join(get_args(View))} (--vars.view)."
            )
        unknown = loss_weights.keys() ^ set(Terms._fields)
        if unknown:
            raise ValueError(
                f"loss_weights has wrong or missing keys: {sorted(unknown)}. It takes exactly "
                f"{Terms._fields}."
            )
        self.vocab = vocab
        self.model = model
        self.name = name
        self.masking = masking
        self.mask_weighting = mask_weights
        self.loss_weights = {
            term: StepSchedule(f"loss_weights.{term}", weight)
            for term, weight in loss_weights.items()
        }
        self.view = view
        self.mask_probability = mask_probability
        self.spans_key = spans_key
        self.token_probabilities = token_probabilities
        self.transition_weight = transition_weight
        self.batch_pieces = batch_pieces
        self.max_unaligned = max_unaligned
        self.score_perplexity = score_perplexity
        self.score_masked = score_masked
        self.seed = seed
        self.scorer = scorer
        # What is learnt or counted, and saved: the rest comes from the config.
        self.cfg: dict[str, Any] = {
            "labels": [],
            "mask_weights": None,
            "transitions": None,
            "temperature": 1.0,
            "step": 0,
        }
        self._updates = 0  # since the last optimiser step
        self._listed: set[int] = set()  # unaligned mentions that were named already

    # ---- labels ----

    @property
    def labels(self) -> tuple[str, ...]:
        """The entity types."""
        return tuple(self.cfg["labels"])

    @property
    def label_data(self) -> list[str]:
        return list(self.labels)

    def add_label(self, label: str) -> int:
        """Add an entity type. On a trained model, the classification head grows by one output
        and what it knows of the other types stays."""
        if not isinstance(label, str) or not label:
            raise ValueError(
                f"A label must be a non-empty string, but is of type {type(label).__name__}."
            )
        if label in self.labels:
            return 0
        self.cfg["labels"] = [*self.labels, label]
        self.vocab.strings.add(label)
        self.set_output(len(self.labels))
        return 1

    # ---- prediction ----

    def predict(self, docs: Iterable[Doc]) -> list[Prediction]:
        """Entities with confidences, and tag probabilities, for each document."""
        return self._predict(shim_of(self.model).wordpieces(list(docs)))

    def _predict(self, documents: list[Pieces]) -> list[Prediction]:
        counts = np.array(self.cfg["transitions"] or 0)
        transitions = transition_scores(counts, self.transition_weight)
        return predict_entities(
            self.model, documents, self.batch_pieces, transitions, self.cfg["temperature"]
        )

    def set_annotations(self, docs: Iterable[Doc], predictions: list[Prediction]) -> None:
        """Write entities. Those already set on a Doc stay, as with spaCy's own recognizer: what
        is predicted across them is left out."""
        for doc, prediction in zip(docs, predictions, strict=True):
            taken = np.zeros(len(doc), dtype=bool)
            if self.spans_key is None:
                for ent in doc.ents:
                    taken[ent.start : ent.end] = True
            spans = []
            for start, end, type_, probability in prediction.entities:
                if not taken[start:end].any():
                    span = Span(doc, start, end, label=self.labels[type_])
                    span._.confidence = probability
                    spans.append(span)
            if self.spans_key is None:
                doc.set_ents([*doc.ents, *spans], default="outside")
            else:
                doc.spans[self.spans_key] = spans
                scores = np.array([confidence_of(span) for span in spans], dtype=np.float32)
                doc.spans[self.spans_key].attrs["scores"] = scores
            if self.token_probabilities:
                doc._.bio_probabilities = prediction.bio

    # ---- scoring ----

    def score(
        self,
        examples: Iterable[Example],
        *,
        masking: Masking | None = None,
        seed: int = 0,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """The scorer's scores of the annotated documents and, with `score_perplexity`, `mslm_ppl`,
        `mslm_ppl_elm` and `mslm_ppl_blm`; with `score_masked`, `mslm_masked_p`, `_r` and `_f`.

        masking, seed: the masks of those; joint masking at the paper's rates by default,
            whatever the training's, so that models can be compared.
        """
        examples = list(examples)
        scores = super().score(examples, **kwargs)
        if self.scorer is not None and self.score_perplexity:
            scores.update(self.perplexity(examples, masking or JointMasking(), seed))
        if self.scorer is not None and self.score_masked:
            scores.update(self._masked_scores(examples, masking or JointMasking(), seed))
        return scores

    def _masked_scores(
        self, examples: Iterable[Example], masking: Masking, seed: int
    ) -> dict[str, float | None]:
        """The masked protocol's scores, under names of their own, and the documents untouched."""
        copies = [Example(example.predicted.copy(), example.reference) for example in examples]
        for example in copies:
            example.predicted.set_ents([])
        self.annotate_masked(copies, masking, seed)
        scores = super().score(copies)
        attr = "ents" if self.spans_key is None else f"spans_{self.spans_key}"
        return {f"mslm_masked_{rate}": scores[f"{attr}_{rate}"] for rate in "prf"}

    def perplexity(
        self, examples: Iterable[Example], masking: Masking, seed: int = 0
    ) -> dict[str, float | None]:
        """Pseudo-perplexity of the masked-LM head on gold text under a seeded masking (Table 4);
        None of an optimised pipe, which has no such head."""
        if shim_of(self.model).is_optimised:
            return perplexities(np.zeros(0), no_ints())
        masked = ((pieces, kinds) for _, pieces, kinds in self._masked(examples, masking, seed))
        return perplexities(*masked_lm_losses(self.model, masked, self.batch_pieces))

    def annotate_masked(self, examples: Iterable[Example], masking: Masking, seed: int = 0) -> None:
        """Annotate the predicted documents as the paper's authors do: gold mentions are masked
        before tagging, so that the model sees where they are. It exists to reproduce their tables.

        examples: with predicted documents that have no entities yet, as a corpus reader gives them.
        """
        for batch in minibatch(self._masked(examples, masking, seed), 256):
            docs = [doc for doc, _, _ in batch]
            masked = [mask_pieces(self.model, pieces, kinds) for _, pieces, kinds in batch]
            self.set_annotations(docs, self._predict(masked))

    def _masked(
        self, examples: Iterable[Example], masking: Masking, seed: int
    ) -> Iterator[tuple[Doc, Pieces, np.ndarray]]:
        """Predicted documents with their pieces and masks; those without gold are left out, as of
        the other scores."""
        generator = np.random.default_rng([seed])
        for example in examples:
            gold = align_gold(example, self.spans_key)
            if (gold.tags == MISSING).all():
                continue
            pieces = shim_of(self.model).wordpieces([example.predicted])[0]
            yield (
                example.predicted,
                pieces,
                draw_masks(self.model, pieces, gold, masking, generator),
            )

    def calibrate(self, examples: Iterable[Example]) -> Calibration:
        """Fit the temperature of the confidences to gold text that was not trained on, and keep it.
        Training after that makes it stale.

        examples: with predicted documents that have no entities yet, as a corpus reader gives them.
        """
        examples = list(examples)
        self.cfg["temperature"] = 1.0
        for batch in minibatch(examples, 256):
            docs = [example.predicted for example in batch]
            self.set_annotations(docs, self.predict(docs))
        judged = (judge(example, self.spans_key) for example in examples)
        values, correct = confidences(mentions for mentions in judged if mentions is not None)
        fit = calibrate(values, correct)
        self.cfg["temperature"] = fit.temperature
        return fit

    # ---- training ----

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Language | None = None,
        labels: Sequence[str] | None = None,
        adaptation: Adaptation | None = None,
    ) -> None:
        """Load the encoder, take the labels from the data (or as given), list the gold that cannot
        be aligned, and weigh the masks by how many there are of each kind in the data.

        adaptation: a stage before training in which the encoder learns from unlabelled text.
        """
        validate_get_examples(get_examples, "MSLM.initialize")
        if labels is None:
            labels = sorted({label for eg in get_examples() for label in self._gold_labels(eg)})
        adapted = self._adapted(adaptation, nlp, get_examples, labels)
        self.cfg.update(labels=[], mask_weights=None, transitions=None, temperature=1.0, step=0)
        self._updates = 0
        self._listed.clear()
        self.cfg["labels"] = list(labels)
        for label in self.labels:
            self.vocab.strings.add(label)
        if not self.labels:
            logger.warning(
                f"{self.name}: the data has no entity labels, so nothing will be predicted. "
                f"Give data with entities, or labels in [initialize.components.{self.name}]."
            )
        self.model.set_dim("nO", len(self.labels), force=True)
        load_encoder(self.model, str(adapted or self.model.attrs["encoder"]))
        if adapted is not None:
            keep_heads(self.model, adapted, self.labels)
        self._survey(get_examples())
        if self.view == "masked":
            logger.warning(
                "The 'masked' view hides every masked mention from the tagging heads, so the "
                "model will find few or no entities in ordinary, unmasked text. It is there "
                "to reproduce the paper; use 'clean' or 'mixed' for a model that is meant to "
                "be used."
            )
        if adapted is None and self._masks_without_learning():
            logger.warning(
                "Nothing is learnt from masks: the masked-LM loss weighs 0 and there is no "
                "text to adapt to, so this is plain fine-tuning. Give text of the domain "
                "(--paths.text) and a folder for the adapted encoder (--paths.adapted), or "
                "components.mslm.loss_weights.mlm."
            )

    def _masks_without_learning(self) -> bool:
        weight = self.loss_weights["mlm"]
        masks = not isinstance(self.masking, NoMasking)
        return masks and self.view == "clean" and weight.is_constant and weight(0) == 0

    def _adapted(
        self,
        adaptation: Adaptation | None,
        nlp: Language | None,
        get_examples: Callable[[], Iterable[Example]],
        labels: Sequence[str],
    ) -> Path | None:
        """The checkpoint to start from, where it is not the model's own but made of it."""
        if adaptation is None or not adaptation.corpus:
            return None
        if nlp is None:
            raise ValueError(
                "Adaptation needs the pipeline whose tokenizer splits the text: initialise "
                "the pipe by nlp.initialize(), or give it nlp."
            )
        pipe = MSLM(
            Vocab(),
            self.model,
            self.name,
            batch_pieces=self.batch_pieces,
            **adaptation.pipe_settings,
        )
        teacher = MSLM(
            Vocab(),
            self.model,
            self.name,
            masking=NoMasking(),
            mask_weights=UniformWeights(),
            loss_weights={"mlm": 0.0, "ed": 1.0, "el": 1.0},
            spans_key=self.spans_key,
            transition_weight=self.transition_weight,
            batch_pieces=self.batch_pieces,
            max_unaligned=self.max_unaligned,
        )
        settings = self._adaptation_settings(nlp, with_teacher=adaptation.corpus.needs_labels)
        return adapt(adaptation, pipe, teacher, get_examples, labels, nlp, settings)

    def _adaptation_settings(self, nlp: Language, with_teacher: bool) -> dict[str, Any] | None:
        """What the config says that changes what the stage makes; None if it has no stage."""
        config = nlp.config.interpolate()
        stage = config["initialize"]["components"].get(self.name, {}).get("adaptation")
        if not stage:
            return None
        # Where it goes does not change what it is.
        settings = {k: v for k, v in stage.items() if k != "output"}
        settings["tokenizer"] = config["nlp"]["tokenizer"]
        if with_teacher:
            settings["transition_weight"] = self.transition_weight
        else:
            settings = {k: v for k, v in settings.items() if not k.startswith("teacher")}
        return settings

    def _gold_labels(self, example: Example) -> Iterator[str]:
        reference = example.reference
        spans = reference.ents if self.spans_key is None else reference.spans.get(self.spans_key)
        return (span.label_ for span in spans or () if span.label_)

    def _survey(self, examples: Iterable[Example]) -> None:
        """One pass over the training set: count masked pieces (eq. 2), which tag follows which,
        and unaligned gold."""
        counts = np.zeros(3, dtype=np.int64)
        transitions = np.zeros((3, 3), dtype=np.int64)
        generator = np.random.default_rng([self.seed])
        n_docs = n_mentions = n_unaligned = 0
        for index, example in enumerate(examples):
            n_docs += 1
            gold = align_gold(example, self.spans_key)
            n_mentions += len(gold.mentions) + len(gold.unaligned)
            n_unaligned += len(gold.unaligned)
            self._list_unaligned(example, index, gold)
            pieces = shim_of(self.model).wordpieces([example.predicted])[0]
            transitions += count_transitions(gold.tags[pieces.tagged])
            for window in document_windows(self.model, pieces):
                sequence = mask_sequence(pieces, window, gold)
                counts += np.bincount(self.masking(sequence, generator), minlength=3)
        if not n_docs:
            raise ValueError(
                f"{self.name}: the training set has no documents. Check the path (--paths.train)."
            )
        if n_unaligned > self.max_unaligned * n_mentions:
            share = n_unaligned / n_mentions
            raise ValueError(
                f"{n_unaligned} of {n_mentions} gold mentions ({share:.1%}) cannot be "
                f"expressed in the tokens; up to {self.max_unaligned:.1%} is allowed. They "
                "are listed above by document and offsets. Use the tokenizer that the "
                "annotation was made for, or raise components.mslm.max_unaligned."
            )
        n_blm, n_elm = int(counts[BLM]), int(counts[ELM])
        weights = self.mask_weighting(n_blm, n_elm)
        self.cfg["mask_weights"] = weights._asdict()
        self.cfg["transitions"] = transitions.tolist()
        if n_blm + n_elm:
            logger.info(
                "Mask weights: ELM %.3f, BLM %.3f (%d and %d masked pieces)",
                *(weights.elm, weights.blm, n_elm, n_blm),
            )
            if weights.elm == weights.blm and n_blm and n_elm:
                logger.warning(
                    f"The mask-specific weights are equal ({n_elm} ELM and {n_blm} BLM pieces "
                    "are masked): domain terms weigh no more than other words. Lower the ELM "
                    "rate, raise the BLM rate, or set mask_weights.threshold and temperature."
                )

    def update(
        self,
        examples: Iterable[Example],
        *,
        drop: float = 0.0,
        sgd: Optimizer | None = None,
        losses: dict[str, float] | None = None,
    ) -> dict[str, float]:
        """Learn from a batch. `losses[name]` is the weighted sum of eq. 12; `{name}_mlm`,
        `{name}_ed` and `{name}_el` are its terms, unweighted."""
        losses = {} if losses is None else losses
        keys = [self.name, *(f"{self.name}_{term}" for term in Terms._fields)]
        for key in keys:
            losses.setdefault(key, 0.0)
        examples = list(examples)
        validate_examples(examples, "MSLM.update")
        step = self.cfg["step"]
        weights = Terms(*(self.loss_weights[term](step) for term in Terms._fields))
        generator = np.random.default_rng([self.seed, step, self._updates])
        rows = list(self._training_rows(examples, weights, generator))
        set_dropout_rate(self.model, drop)
        try:
            terms = learn(self.model, rows, self.batch_pieces, self._mask_weights(), weights)
        except NotFinite as err:
            self._updates = 0
            raise ValueError(
                f"The loss {f'{self.name}_{err.term}'} is not finite at step {step}. Training "
                "stops here; no step was taken, the weights are those of the step before. "
                "Lower the learn rate (training.optimizer), or look for broken documents in "
                "that batch."
            ) from err
        for key, value in zip(keys, (_dot(weights, terms), *terms), strict=True):
            losses[key] += value
        self._updates += 1
        if sgd not in (None, False):
            self.finish_update(sgd)
        return losses

    def _training_rows(
        self, examples: list[Example], weights: Terms, generator: np.random.Generator
    ) -> Iterator[Row]:
        documents = shim_of(self.model).wordpieces([eg.predicted for eg in examples])
        for index, (example, pieces) in enumerate(zip(examples, documents, strict=True)):
            gold = align_gold(example, self.spans_key)
            self._list_unaligned(example, index, gold)
            self._check_labels(example, index, gold)
            for window in document_windows(self.model, pieces):
                row = gold_row(pieces, window, gold, self.labels)
                if self.view == "clean" and not weights.mlm:
                    yield row  # a masked row would be read by no head
                    continue
                kinds = partial(self.masking, mask_sequence(pieces, window, gold), generator)
                yield from view_rows(self.view, row, kinds, self.mask_probability, generator)

    def _check_labels(self, example: Example, index: int, gold: Gold) -> None:
        for mention in gold.mentions:
            if mention.label not in self.labels:
                doc = document_name(example.reference, index)
                raise ValueError(
                    f"Document {doc} has a mention of type {mention.label!r}, which the "
                    f"pipe does not know; it has {self.labels}. Add it with "
                    "nlp.get_pipe('mslm').add_label(...), or initialise anew."
                )

    def _mask_weights(self) -> MaskWeights:
        stored = self.cfg["mask_weights"]
        return MaskWeights(**stored) if stored else self.mask_weighting(0, 0)

    def finish_update(self, sgd: Optimizer) -> None:
        """Step the optimiser with what the updates since the last step have gathered."""
        updates, self._updates = self._updates, 0
        if updates:
            shim_of(self.model).finish_update(sgd, updates)
            self.cfg["step"] += 1

    def _list_unaligned(self, example: Example, index: int, gold: Gold) -> None:
        """Each mention that was lost is named once: document, offsets, reason, no text."""
        doc = document_name(example.reference, index)
        for start, end, reason in gold.unaligned:
            key = hash((example.reference.text, start, end))
            if key not in self._listed:
                self._listed.add(key)
                logger.warning(
                    f"Gold mention left out: document {doc}, characters {start}:{end}: "
                    f"{reason}. Its tokens are treated as not annotated."
                )

    # ---- saving ----

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        return srsly.msgpack_dumps(add_manifest(self._files(exclude)))

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> "MSLM":
        return self._load(srsly.msgpack_loads(bytes_data).get, "bytes", exclude)

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        path = Path(path)
        path.mkdir(parents=True, exist_ok=True)
        for name, data in add_manifest(self._files(exclude)).items():
            replace_file(path / name, data)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> "MSLM":
        path = Path(path)
        return self._load(lambda name: map_file(path / name), str(path), exclude)

    def _files(self, exclude: Iterable[str]) -> dict[str, bytes]:
        files = {}
        if "cfg" not in exclude:
            # Not srsly: its encoder rounds floats, and the mask weights must come back as they are.
            files["cfg"] = json.dumps(self.cfg, indent=2).encode("utf8")
        if "model" not in exclude and shim_of(self.model).is_loaded:
            files.update(shim_of(self.model).to_files())
        return files

    def _load(
        self, read: Callable[[str], Content | None], where: str, exclude: Iterable[str]
    ) -> "MSLM":
        built = None
        with checked_files(read, where) as files:
            if ENCODER in files and "model" not in exclude:
                built = build_network(files)
        if built is not None:
            shim_of(self.model).set(*built)
        if "cfg" in files and "cfg" not in exclude:
            self.cfg.update(json.loads(bytes(files["cfg"])))
            for label in self.labels:
                self.vocab.strings.add(label)
            self.model.set_dim("nO", len(self.labels), force=True)
        self._updates = 0
        return self


def _dot(weights: Terms, terms: Terms) -> float:
    return sum(w * t for w, t in zip(weights, terms, strict=True))


def find_mslm(nlp: Language, where: str) -> tuple[str, MSLM]:
    """The name of a pipeline's one `mslm` pipe, and the pipe.

    where: what a message calls the pipeline.
    """
    pipes = {name: pipe for name, pipe in nlp.pipeline if isinstance(pipe, MSLM)}
    if not pipes:
        names = ", ".join(nlp.pipe_names) or "none"
        raise ValueError(
            f"{where} has no mslm pipe; its pipes: {names}. Give a pipeline that was trained "
            "with spacy-mslm."
        )
    if len(pipes) > 1:
        raise ValueError(
            f"{where} has several mslm pipes ({', '.join(pipes)}), and one can be looked at at "
            "a time. Give a pipeline with one of them."
        )
    return next(iter(pipes.items()))


def run_pipes_before(nlp: Language, name: str, docs: Iterable[Doc]) -> list[Doc]:
    """Documents as the pipe of that name gets them: it may read what others write (sentences)."""
    with nlp.select_pipes(enable=nlp.pipe_names[: nlp.pipe_names.index(name)]):
        return list(nlp.pipe(docs))
