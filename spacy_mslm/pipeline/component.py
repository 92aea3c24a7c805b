"""The `mslm` pipe: the only module in which the model meets Docs."""

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import srsly
from spacy.language import Language
from spacy.pipeline import TrainablePipe
from spacy.tokens import Doc, Span
from spacy.training import Example, validate_examples, validate_get_examples
from spacy.vocab import Vocab
from thinc.api import Optimizer, set_dropout_rate

from ..corpus.gold import UnalignedLog, align_gold, document_name, gold_spans, soft_tags, typed_tags
from ..errors import listing
from ..inference.calibration import Calibration, from_temperature, uncalibrated
from ..inference.decoding import transition_scores
from ..inference.predict import predict_entities
from ..inference.threshold import Threshold, apply_threshold, thresholds
from ..masking.strategies import JointMasking, Masking, NoMasking
from ..masking.views import View, gold_row, maskable, view_rows
from ..masking.weights import MaskWeighting, MaskWeights
from ..model.architecture import (
    MSLMModel,
    blank_copy,
    is_typed,
    set_encoder,
    shim_of,
    window_settings,
)
from ..model.listener import Listener
from ..model.schedules import FloatOrSchedule, StepSchedule
from ..model.shim import MSLMShim
from ..model.token_vectors import share_window
from ..model.weights import ENCODER, build_network
from ..pieces.windows import WindowSettings
from ..scoring.masked_protocol import masked_scores
from ..scoring.perplexity import perplexity
from ..training.adaptation import Adaptation, adapt, keep_heads
from ..training.losses import Terms
from ..training.self_training import SelfTraining, self_train
from ..training.shared_pass import SharedPass
from ..training.step import NotFiniteLoss, learn
from ..training.survey import (
    TrainingSetCounts,
    check_alignment,
    count_training_set,
    log_labels,
    weigh_masks,
)
from ..types import Gold, Pieces, Prediction, Row, Window, no_ints
from ..util.extensions import set_token_vectors
from ..util.files import Content, map_file, replace_file
from ..util.manifest import FOLDER_MANIFEST, add_manifest, checked_files
from ..util.settings import check_at_least, check_between
from ..util.spans import drop_overlapping, most_confident_first
from .advice import Advice
from .listened import Listened
from .loading import check_pipeline

logger = logging.getLogger("spacy_mslm")


class MSLM(Listened, TrainablePipe):
    """Detects and classifies entities with an encoder that is trained on the terms of a domain.

    The method is Mask-Specific Language Modeling. See `spacy_mslm.pipeline.factory.make_mslm` for
    the settings.
    """

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
        threshold: Threshold = 0.0,
        score_perplexity: bool = True,
        score_masked: bool = False,
        seed: int = 0,
        scorer: Callable | None = None,
    ) -> None:
        if view not in get_args(View):
            raise ValueError(
                f"Unknown view {view!r}. Use one of: {', '.join(get_args(View))} (--vars.view)."
            )
        unknown = loss_weights.keys() ^ set(Terms._fields)
        if unknown:
            raise ValueError(
                f"loss_weights has wrong or missing keys: {sorted(unknown)}. It takes exactly "
                f"{Terms._fields}."
            )
        check_between(f"components.{name}.mask_probability", mask_probability, 0, 1)
        check_between(f"components.{name}.max_unaligned", max_unaligned, 0, 1)
        check_at_least(f"components.{name}.transition_weight", transition_weight, 0)
        check_at_least(f"components.{name}.batch_pieces", batch_pieces, 1)
        check_at_least(f"components.{name}.seed", seed, 0)
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
        self._threshold_in_config = threshold
        # Results of training, which are saved with the pipe. Settings come from the config. The
        # threshold is here, too, because `spacy find-threshold` sets it here.
        self.cfg: dict[str, Any] = {
            "labels": [],
            "mask_weights": None,
            "transitions": None,
            "calibration": None,
            "threshold": threshold,
            "step": 0,
        }
        self._updates = 0  # since the last step of the optimizer
        self._shared: SharedPass | None = None  # the last update, if other components listen
        self.listener_map: dict[str, list[Listener]] = {}
        self._log_unaligned = UnalignedLog()
        self._advice = Advice(name)

    @property
    def shim(self) -> MSLMShim:
        """The network and its wordpieces."""
        return shim_of(self.model)

    @property
    def windows(self) -> WindowSettings:
        """How documents are divided into windows."""
        return window_settings(self.model)

    @property
    def typed(self) -> bool:
        """Whether each entity type is tagged separately (`spacy_mslm.MSLM.v2`)."""
        return is_typed(self.model)

    # ---- labels ----

    @property
    def labels(self) -> tuple[str, ...]:
        """The entity types."""
        return tuple(self.cfg["labels"])

    @property
    def label_data(self) -> list[str]:
        """The entity types, for `initialize`."""
        return list(self.labels)

    def add_label(self, label: str) -> int:
        """Add an entity type.

        The head of a trained model that tells types apart gets more outputs. Its weights for the
        other types are kept. Tag transitions, which are counted only at initialization, are taken
        from the other types.

        Args:
            label: The entity type.

        Returns:
            1, or 0 if the pipe already has this type.
        """
        if not isinstance(label, str) or not label:
            raise ValueError(
                f"A label must be a non-empty string, but is of type {type(label).__name__}."
            )
        if label in self.labels:
            return 0
        self.cfg["labels"] = [*self.labels, label]
        if self.typed and self.cfg["transitions"] is not None:
            known = np.array(self.cfg["transitions"]).reshape(-1, 3, 3)
            self.cfg["transitions"].append(known.sum(axis=0).tolist())
        self.vocab.strings.add(label)
        self.set_output(len(self.labels))
        return 1

    # ---- prediction ----

    def predict(self, docs: Iterable[Doc]) -> list[Prediction]:
        """Return the entities of each document with their confidences, and tag probabilities.

        If other components listen, predictions contain the vectors of tokens, too.
        """
        documents = self.shim.wordpieces(list(docs))
        return self.predict_pieces(documents, token_vectors=bool(self.listeners))

    def predict_pieces(
        self, documents: list[Pieces], *, token_vectors: bool = False
    ) -> list[Prediction]:
        """Predict documents that are already split into wordpieces.

        Entities below the threshold are left out.

        Args:
            documents: The documents.
            token_vectors: Whether predictions contain the vectors of tokens.
        """
        least = thresholds(self.cfg["threshold"], self.labels)
        predictions = predict_entities(
            self.shim,
            self.windows,
            documents,
            self.batch_pieces,
            self._transitions(),
            self._calibration.of(self.labels) if self._calibration else uncalibrated,
            token_vectors=token_vectors,
        )
        apply_threshold(predictions, least)
        return predictions

    @property
    def _calibration(self) -> Calibration | None:
        stored = self.cfg["calibration"]
        return Calibration(**stored) if stored else None

    @contextmanager
    def without_threshold(self) -> Iterator[None]:
        """Let the pipe predict all entities, whatever its threshold."""
        threshold, self.cfg["threshold"] = self.cfg["threshold"], 0.0
        try:
            yield
        finally:
            self.cfg["threshold"] = threshold

    def _transitions(self) -> np.ndarray:
        """Return (columns, 3, 3) transition scores: one column, or one for each type."""
        columns = len(self.labels) if self.typed else 1
        counts = np.array(self.cfg["transitions"] or no_ints(columns, 3, 3)).reshape(-1, 3, 3)
        scores = [transition_scores(own, self.transition_weight) for own in counts]
        return np.array(scores).reshape(-1, 3, 3)

    def set_annotations(self, docs: Iterable[Doc], predictions: list[Prediction]) -> None:
        """Write entities to documents.

        Entities that a Doc already has are kept, as in spaCy's own recognizer, and predictions that
        overlap them are left out. If predictions overlap, which those of different types of a typed
        model may, all are written to `doc.spans`, and the most confident one to `doc.ents` (of
        equally confident ones the longer, then the earlier).

        Args:
            docs: The documents.
            predictions: The prediction for each document.
        """
        calibrated = self.cfg["calibration"] is not None
        for doc, prediction in zip(docs, predictions, strict=True):
            entities = prediction.entities
            if self.spans_key is None:
                taken = np.zeros(len(doc), dtype=bool)
                for ent in doc.ents:
                    taken[ent.start : ent.end] = True
                entities = [e for e in entities if not taken[e.start : e.end].any()]
                if self.typed:
                    entities = drop_overlapping(sorted(entities, key=most_confident_first))
            spans = []
            for start, end, type_, probability, evidence in entities:
                span = Span(doc, start, end, label=self.labels[type_])
                span._.confidence = probability
                if calibrated:
                    span._.raw_confidence = evidence.tags * evidence.type
                spans.append(span)
            if self.spans_key is None:
                doc.set_ents([*doc.ents, *spans], default="outside")
            else:
                doc.spans[self.spans_key] = spans
                scores = np.array([entity.confidence for entity in entities], dtype=np.float32)
                doc.spans[self.spans_key].attrs["scores"] = scores
            if self.token_probabilities:
                doc._.bio_probabilities = prediction.bio
            if prediction.vectors is not None:
                set_token_vectors(doc, self.name, prediction.vectors)

    # ---- scoring ----

    def score(
        self,
        examples: Iterable[Example],
        *,
        masking: Masking | None = None,
        seed: int = 0,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Score annotated documents.

        `score_perplexity` adds `mslm_ppl`, `mslm_ppl_elm` and `mslm_ppl_blm`. `score_masked` adds
        `mslm_masked_p`, `mslm_masked_r` and `mslm_masked_f`.

        Args:
            examples: The documents, predicted and gold.
            masking: The masking strategy for these additional scores. The default is joint masking
                with the paper's rates, whatever was used in training, so that models can be
                compared.
            seed: The seed of the masks.
            **kwargs: Further settings for the scorer.
        """
        examples = list(examples)
        scores = super().score(examples, **kwargs)
        if self.scorer is not None and self.score_perplexity:
            scores.update(perplexity(self, examples, masking or JointMasking(), seed))
        if self.scorer is not None and self.score_masked:
            scores.update(masked_scores(self, examples, masking or JointMasking(), seed))
        return scores

    # ---- training ----

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Language | None = None,
        labels: Sequence[str] | None = None,
        adaptation: Adaptation | SelfTraining | None = None,
    ) -> None:
        """Load the encoder and prepare the pipe for training.

        This logs gold mentions that do not fit the tokens, and computes the weights of masks from
        the number of masks of each kind.

        Args:
            get_examples: Returns the training set.
            nlp: The pipeline, which adaptation needs.
            labels: The entity types. By default, they are those of the training set.
            adaptation: A stage before training in which the encoder learns from unlabelled text.
        """
        validate_get_examples(get_examples, "MSLM.initialize")
        if labels is None:
            labels = self.gold_labels(get_examples())
            if not labels and any(_is_annotated(example) for example in get_examples()):
                raise ValueError(self._nothing_to_learn())
        if adaptation is None or not adaptation.corpus:
            log_labels(self.start(get_examples(), labels), self.labels)
            if self._masks_without_learning():
                logger.warning(
                    "Masks are not used: the masked-LM loss has a weight of 0 and there is no text "
                    "for adaptation, so this is plain fine-tuning. Give text of the domain "
                    "(--paths.text) and a folder for the adapted encoder (--paths.adapted), or set "
                    "components.mslm.loss_weights.mlm."
                )
            return
        if nlp is None:
            raise ValueError(
                "Adaptation needs a pipeline to tokenize the text. Call nlp.initialize(), or pass "
                "nlp to MSLM.initialize()."
            )
        shared = {
            "spans_key": self.spans_key,
            "transition_weight": self.transition_weight,
            "max_unaligned": self.max_unaligned,
        }
        make, name = self._blank_pipe, self.name
        if isinstance(adaptation, SelfTraining):
            folder = self_train(adaptation, make, shared, name, get_examples, labels, nlp)
        else:
            folder = adapt(adaptation, make, shared, name, get_examples, labels, nlp)
        log_labels(self.start(get_examples(), labels, encoder=str(folder)), self.labels)
        keep_heads(self.shim.network, folder, self.labels)

    def start(
        self, examples: Iterable[Example], labels: Sequence[str], encoder: str | None = None
    ) -> TrainingSetCounts:
        """Load an encoder, add new heads for the labels and survey the training set.

        Args:
            examples: The training set.
            labels: The entity types.
            encoder: The checkpoint, or None for the one in the settings of the model.

        Returns:
            The counts of the training set.
        """
        self.cfg.update(
            labels=list(labels), mask_weights=None, transitions=None, calibration=None, step=0
        )
        thresholds(self.cfg["threshold"], self.labels)  # an error before training, not after it
        self._updates = 0
        self._log_unaligned = UnalignedLog()
        for label in self.labels:
            self.vocab.strings.add(label)
        if not self.labels:
            logger.warning(
                f"{self.name}: the data has no entity labels, so nothing will be predicted. "
                f"Give data with entities, or labels in [initialize.components.{self.name}]."
            )
        self.model.set_dim("nO", len(self.labels), force=True)
        set_encoder(self.model, encoder or self.model.attrs["encoder"])
        self.tell_width()
        counts = count_training_set(
            *(examples, self.align, self.shim.wordpieces, self.windows),
            *(self.masking, self.seed, self._log_unaligned),
        )
        if not counts.docs:
            raise ValueError(
                f"{self.name}: the training set has no documents. Check the path (--paths.train)."
            )
        check_alignment(counts, self.max_unaligned)
        self.cfg["mask_weights"] = weigh_masks(counts, self.mask_weighting)._asdict()
        self.cfg["transitions"] = counts.transitions.tolist()
        if self.view == "masked":
            logger.warning(
                "The 'masked' view hides every masked mention from the tagging heads, so the "
                "model will find few or no entities in ordinary, unmasked text. Use it only to "
                "reproduce the paper, and 'clean' or 'mixed' for a model that is used in practice."
            )
        return counts

    def _masks_without_learning(self) -> bool:
        weight = self.loss_weights["mlm"]
        masks = not isinstance(self.masking, NoMasking)
        return masks and self.view == "clean" and weight.is_constant and weight(0) == 0

    def _blank_pipe(self, **settings: Any) -> "MSLM":
        """Create a pipe with a copy of this model without weights, for a stage before training."""
        return MSLM(
            *(Vocab(), blank_copy(self.model), self.name),
            batch_pieces=self.batch_pieces,
            **settings,
        )

    def gold_labels(self, examples: Iterable[Example]) -> list[str]:
        """Return the sorted labels of the gold mentions."""
        labels: set[str] = set()
        for example in examples:
            spans = gold_spans(example.reference, self.spans_key)
            labels.update(span.label_ for span in spans if span.label_)
        return sorted(labels)

    def _nothing_to_learn(self) -> str:
        return (
            f"{self.name} has no entity types, so there is nothing to learn. The training set "
            "has no mention with a label: check it with 'python -m spacy debug data', or give "
            f"labels in [initialize.components.{self.name}]."
        )

    def update(
        self,
        examples: Iterable[Example],
        *,
        drop: float = 0.0,
        sgd: Optimizer | None = None,
        losses: dict[str, float] | None = None,
    ) -> dict[str, float]:
        """Learn from a batch.

        `losses[name]` is the weighted sum of eq. 12. `losses[f"{name}_mlm"]`, `_ed` and `_el` are
        its terms, without their weights.

        Args:
            examples: The batch.
            drop: The dropout rate.
            sgd: The optimizer. If it is None, gradients are added up until `finish_update`.
            losses: The losses to add to.

        Returns:
            The losses.

        Raises:
            ValueError: If a loss or the gradient is NaN or infinite, or a mention has an unknown
                label.
        """
        losses = {} if losses is None else losses
        keys = [self.name, *(f"{self.name}_{term}" for term in Terms._fields)]
        for key in keys:
            losses.setdefault(key, 0.0)
        examples = list(examples)
        validate_examples(examples, "MSLM.update")
        if not self.labels:
            raise ValueError(self._nothing_to_learn())
        self._close_shared()
        step = self.cfg["step"]
        weights = Terms(*(self.loss_weights[term](step) for term in Terms._fields))
        generator = np.random.default_rng([self.seed, step, self._updates])
        listeners = self.listeners
        rows = list(self._training_rows(examples, weights, generator, shared=bool(listeners)))
        if listeners:
            self._shared = SharedPass(listeners, self.shim.network)
        set_dropout_rate(self.model, drop)
        try:
            terms = learn(
                *(self.model, self.shim.wordpieces, rows, self.batch_pieces),
                *(self._mask_weights(), weights, int(generator.integers(2**62))),
                shared=self._shared,
            )
        except ValueError as err:
            self._updates = 0
            self._shared = None
            self.shim.drop_gradients()
            if not isinstance(err, NotFiniteLoss):
                raise
            raise ValueError(
                f"NaN or infinite loss {self.name}_{err.term} at step {step}. Training stops, and "
                "the weights are those of the previous step. Lower the learn rate "
                "(training.optimizer), or look for broken documents in this batch."
            ) from err
        for key, value in zip(keys, (_dot(weights, terms), *terms), strict=True):
            losses[key] += value
        self._updates += 1
        if self._shared is not None:
            self._shared.send([eg.predicted for eg in examples])
        if sgd not in (None, False):
            self.finish_update(sgd)
        return losses

    def _training_rows(
        self,
        examples: list[Example],
        weights: Terms,
        generator: np.random.Generator,
        *,
        shared: bool = False,
    ) -> Iterator[Row]:
        documents = self.shim.wordpieces([eg.predicted for eg in examples])
        first_token = 0
        for index, (example, pieces) in enumerate(zip(examples, documents, strict=True)):
            gold = self.align(example)
            self._log_unaligned(example, index, gold)
            self._check_labels(example, index, gold)
            for window in self.windows.cover(pieces):
                row = gold_row(pieces, window, gold, self.labels)
                rows = self._view_rows(row, pieces, window, gold, weights, generator)
                if shared:
                    rows = share_window(rows, pieces, window, first_token)
                yield from rows
            first_token += len(pieces.words)

    def _view_rows(
        self,
        row: Row,
        pieces: Pieces,
        window: Window,
        gold: Gold,
        weights: Terms,
        generator: np.random.Generator,
    ) -> list[Row]:
        if self.view == "clean" and not weights.mlm:
            return [row]  # no head would read a masked row
        kinds = partial(self.masking, maskable(pieces, window, gold), generator)
        return list(view_rows(self.view, row, kinds, self.mask_probability, generator))

    def align(self, example: Example) -> Gold:
        """Return the annotation of an example, with a column of tags for each type if typed.

        Raises:
            ValueError: If the example annotates only some types and the types are not tagged
                separately: its other tokens are not known to be outside every mention.
        """
        gold = align_gold(example, self.spans_key, overlaps=self.typed)
        if self.typed:
            tags = typed_tags(gold, self.labels)
            return replace(gold, tags=tags, soft=soft_tags(example, tags, self.labels))
        if gold.annotated is not None and not gold.annotated.issuperset(self.labels):
            unknown = sorted(set(self.labels) - gold.annotated)
            raise ValueError(
                f"Document {document_name(example.reference, 0)} annotates only some types, and "
                f"not {listing(unknown)}. Use the architecture spacy_mslm.MSLM.v2, which can learn "
                "from partial annotation, or complete the annotation with "
                "spacy_mslm.CompletedCorpus.v1."
            )
        return replace(gold, soft=soft_tags(example, gold.tags, self.labels))

    def _check_labels(self, example: Example, index: int, gold: Gold) -> None:
        for mention in gold.mentions:
            if gold.annotated is not None and mention.label not in gold.annotated:
                doc = document_name(example.reference, index)
                raise ValueError(
                    f"Document {doc} has a mention of type {mention.label!r}, but is marked as "
                    f"annotated with {listing(sorted(gold.annotated)) or 'no type'} only. Add the "
                    "type to doc._.annotated_labels, or remove the mention."
                )
            if mention.label not in self.labels:
                doc = document_name(example.reference, index)
                raise ValueError(
                    f"Document {doc} has a mention of type {mention.label!r}, which the pipe does "
                    f"not have. Its types are {self.labels}. Add the type with "
                    "nlp.get_pipe('mslm').add_label(...), with spacy_mslm.add_labels.v1 in "
                    "[initialize.before_init] of the config, or initialize the pipe again."
                )

    def _mask_weights(self) -> MaskWeights:
        stored = self.cfg["mask_weights"]
        return MaskWeights(**stored) if stored else self.mask_weighting(0, 0)

    def finish_update(self, sgd: Optimizer) -> None:
        """Update the weights with the gradients since the last step of the optimizer.

        `nlp.update(..., sgd=optimizer)` calls this before other components have read the encoder.
        The step is then taken when they have answered, or else when the next update begins.
        """
        if self._shared is not None and not self._shared.was_read:
            self._shared.after(partial(self._step, sgd))
            return
        self._close_shared()
        self._step(sgd)

    def _close_shared(self) -> None:
        shared, self._shared = self._shared, None
        if shared is not None:
            shared.close()

    def _step(self, sgd: Optimizer) -> None:
        updates, self._updates = self._updates, 0
        if updates:
            self.shim.finish_update(sgd, updates)
            self.cfg["step"] += 1
            self._advice.updated(sgd)

    # ---- saving ----

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Return the files of the pipe as bytes. `exclude` may name "cfg" and "model"."""
        return srsly.msgpack_dumps(add_manifest(self._files(exclude)))

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> "MSLM":
        """Load the pipe from bytes. `exclude` may name "cfg" and "model"."""
        try:
            files = dict(srsly.msgpack_loads(bytes_data))
        except Exception as err:  # msgpack has no common base class of errors
            raise ValueError(
                f"These bytes are not a saved mslm pipe ({type(err).__name__}). Save it again."
            ) from err
        return self._load(files.get, "bytes", exclude)

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Write the files of the pipe to a folder. `exclude` may name "cfg" and "model".

        The manifest of a whole pipeline that is there is removed, because it is out of date.
        """
        path = Path(path)
        path.mkdir(parents=True, exist_ok=True)
        (path.parent / FOLDER_MANIFEST).unlink(missing_ok=True)
        self._advice.saved()
        for name, data in add_manifest(self._files(exclude)).items():
            replace_file(path / name, data)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> "MSLM":
        """Load the pipe from a folder. `exclude` may name "cfg" and "model".

        If the folder is in a pipeline that `safe_save` wrote, all other files of the pipeline are
        verified, too. spaCy has read some of them by then, but has not used them.
        """
        path = Path(path)
        check_pipeline(path.parent, path.name)
        return self._load(lambda name: map_file(path / name), str(path), exclude)

    def _files(self, exclude: Iterable[str]) -> dict[str, bytes]:
        self._close_shared()
        files = {}
        if "cfg" not in exclude:
            # srsly rounds floats, but the mask weights must be exact.
            stored = {**self.cfg, "threshold_in_config": self._threshold_in_config}
            files["cfg"] = json.dumps(stored, indent=2).encode("utf8")
        if "model" not in exclude and self.shim.is_loaded:
            files.update(self.shim.to_files())
        return files

    def _load(
        self, read: Callable[[str], Content | None], where: str, exclude: Iterable[str]
    ) -> "MSLM":
        built = None
        with checked_files(read, where) as files:
            stored = _read_cfg(files.get("cfg", b"{}"), where)
            if ENCODER in files and "model" not in exclude:
                built = build_network(files)
        if built is not None:
            self.shim.set(*built)
            self.tell_width()
        if "cfg" in files and "cfg" not in exclude:
            self.cfg.update(self._loaded_cfg(stored))
            for label in self.labels:
                self.vocab.strings.add(label)
            self.model.set_dim("nO", len(self.labels), force=True)
        self._updates = 0
        return self

    def _loaded_cfg(self, stored: dict[str, Any]) -> dict[str, Any]:
        """Return the `cfg` of a file, which may be that of an earlier version."""
        if "temperature" in stored:
            calibration = from_temperature(stored.pop("temperature"))
            stored["calibration"] = calibration.to_dict() if calibration else None
        # If the config has another threshold than when the file was written, it was changed later:
        # by `spacy.load(..., config=...)`, or in the file of the config.
        if stored.pop("threshold_in_config", None) != self._threshold_in_config:
            stored.pop("threshold", None)
        return stored


def _read_cfg(data: Content, where: str) -> dict[str, Any]:
    """Read the results of training. A forged manifest may have the sum of anything."""
    try:
        cfg = json.loads(bytes(data))
        labels, step = cfg.get("labels", []), cfg.get("step", 0)
        valid = isinstance(labels, list) and all(isinstance(label, str) for label in labels)
        valid = valid and len({*labels}) == len(labels) and float(cfg.get("temperature", 1)) > 0
        valid = valid and isinstance(step, int) and step >= 0
        if cfg.get("mask_weights"):
            MaskWeights(**cfg["mask_weights"])
        np.array(cfg.get("transitions") or 0, dtype=np.float64)
    except (ValueError, TypeError, AttributeError, RecursionError):
        valid = False
    if not valid:
        raise ValueError(
            f"{where}: the file cfg does not hold the settings of an mslm pipe. Save the pipeline "
            "again, or retrain it."
        )
    return cfg


def _is_annotated(example: Example) -> bool:
    """Whether the gold document says what is an entity and what is not. The dummy document of
    `nlp.initialize()` does not."""
    return example.reference.has_annotation("ENT_IOB")


def _dot(weights: Terms, terms: Terms) -> float:
    return sum(w * t for w, t in zip(weights, terms, strict=True))
