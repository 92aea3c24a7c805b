"""The factory of the `mslm` pipe and its default settings."""

from collections.abc import Callable
from inspect import signature
from typing import Any

from spacy.language import Language
from thinc.api import Config

from ..inference.threshold import Threshold
from ..masking.strategies import Masking
from ..masking.views import View
from ..masking.weights import MaskWeighting
from ..model.architecture import MSLMModel
from .component import MSLM

# The settings of configs/mslm.cfg. The masked-LM loss has a weight of 0, because it does not help
# during fine-tuning on the labelled set. Masks are used in the adaptation stage, which needs text.
DEFAULT_CONFIG = """
[mslm]
view = "clean"
mask_probability = 0.5
spans_key = null
token_probabilities = false
transition_weight = 0.5
batch_pieces = 4096
max_unaligned = 0.05
threshold = 0.0
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
elm_rate = 0.5
blm_rate = 0.15

[mslm.mask_weights]
@misc = "spacy_mslm.MaskSpecificWeights.v2"
margin = 0.1
temperature = 0.25

[mslm.loss_weights]
mlm = 0.0
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
    threshold: Threshold,
    score_perplexity: bool,
    score_masked: bool,
    seed: int,
    scorer: Callable | None,
) -> MSLM:
    """`mslm`: creates the pipe.

    Args:
        nlp: The pipeline.
        name: The name of the pipe.
        model: `spacy_mslm.MSLM.v1`, which detects mentions and then classifies them, or
            `spacy_mslm.MSLM.v2`, which tags each entity type separately.
        masking: The masking strategy (`misc` registry), which chooses the pieces to mask.
        mask_weights: The weights of masked pieces of each kind in the masked-LM loss (`misc`
            registry).
        loss_weights: The weights `mlm`, `ed` and `el` of the three losses in eq. 12. Each is a
            number or a schedule over update steps.
        view: What the tagging heads read in training: `clean`, `masked` (the paper) or `mixed`.
        mask_probability: The probability of masking a window in the `mixed` view.
        spans_key: Read and write `doc.spans[spans_key]` instead of `doc.ents`.
        token_probabilities: Also store the probabilities of B, I, O for each token in
            `doc._.bio_probabilities`, (tokens, 3), or (tokens, types, 3) with `MSLM.v2`.
        transition_weight: The weight of tag transitions of the training set in decoding. With 0,
            the only rule is that I cannot follow O.
        batch_pieces: The maximum number of padded wordpieces that go through the encoder at once.
        max_unaligned: The maximum share of gold mentions that do not fit the tokens.
        threshold: Leave out entities with a lower confidence: a number, or a number for each
            entity type. On a loaded pipe it is `pipe.cfg["threshold"]`.
        score_perplexity: Also measure the perplexity of the masked-LM head in scoring, which takes
            another pass over the text.
        score_masked: Also score with the protocol of the paper's authors, in which gold mentions
            are masked before tagging: `mslm_masked_p`, `mslm_masked_r` (their EM) and
            `mslm_masked_f`.
        seed: The seed of the masks.
        scorer: The scorer, by default `spacy_mslm.entity_scorer.v1`.

    Raises:
        ValueError: If one of these functions is of another kind, such as an annotator of notes.
    """
    _check_takes("masking", masking, "a masking strategy", 2)
    _check_takes("mask_weights", mask_weights, "a function of mask weights", 2)
    if scorer is not None:
        _check_takes("scorer", scorer, "a scorer", 1, labels=())
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
        threshold=threshold,
        score_perplexity=score_perplexity,
        score_masked=score_masked,
        seed=seed,
        scorer=scorer,
    )


def _check_takes(name: str, function: Any, kind: str, n: int, **named: Any) -> None:
    """Raise a ValueError if a setting is not a function of `n` arguments and some named ones.

    A config can name any registered function, also one that does not belong in a pipe.
    """
    try:
        signature(function).bind(*[None] * n, **named)
    except (TypeError, ValueError):
        raise ValueError(
            f"The setting {name} of the mslm pipe is {type(function).__name__!r}, which is not "
            f"{kind}. Correct the block that ends in .{name} in the config."
        ) from None
