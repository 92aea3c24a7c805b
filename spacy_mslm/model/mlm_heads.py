"""Masked-LM heads by family: token vectors -> vocabulary logits, for masked positions alone.

transformers projects every position onto the vocabulary; a BERT of 30,000 pieces spends more time
there than in a small encoder. Each family keeps its head elsewhere, hence one adapter for each.
"""

import logging
from collections.abc import Callable

import torch
from transformers import PreTrainedModel

logger = logging.getLogger("spacy_mslm")

Head = Callable[[PreTrainedModel, torch.Tensor], torch.Tensor]


def bert_head(model: PreTrainedModel, vectors: torch.Tensor) -> torch.Tensor:
    return model.cls(vectors)


def roberta_head(model: PreTrainedModel, vectors: torch.Tensor) -> torch.Tensor:
    return model.lm_head(vectors)


def electra_head(model: PreTrainedModel, vectors: torch.Tensor) -> torch.Tensor:
    return model.generator_lm_head(model.generator_predictions(vectors))


def distilbert_head(model: PreTrainedModel, vectors: torch.Tensor) -> torch.Tensor:
    transformed = model.vocab_layer_norm(model.activation(model.vocab_transform(vectors)))
    return model.vocab_projector(transformed)


def modernbert_head(model: PreTrainedModel, vectors: torch.Tensor) -> torch.Tensor:
    return model.decoder(model.head(vectors))


HEADS: dict[str, Head] = {
    "bert": bert_head,
    "roberta": roberta_head,
    "roberta-prelayernorm": roberta_head,
    "xlm-roberta": roberta_head,
    "camembert": roberta_head,
    "electra": electra_head,
    "distilbert": distilbert_head,
    "modernbert": modernbert_head,
}


def head_for(model: PreTrainedModel) -> Head | None:
    """The adapter of the model's family, or None: then every position is projected."""
    head = HEADS.get(model.config.model_type)
    if head is None:
        logger.info(
            f"No masked-LM head adapter for encoders of type {model.config.model_type!r}: "
            "every position is projected onto the vocabulary, which is slower and gives the "
            "same result."
        )
    return head
