"""Masked-LM heads by model family: token vectors -> vocabulary logits, at masked positions only.

transformers projects every position onto the vocabulary. For a BERT with 30,000 pieces, this takes
more time than a small encoder itself. Each family stores its head under other names, so each has an
adapter here.
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
    """Return the adapter for the family of a model, or None if every position must be projected."""
    head = HEADS.get(model.config.model_type)
    if head is None:
        logger.info(
            f"There is no masked-LM head adapter for encoders of type {model.config.model_type!r}. "
            "Every position is projected onto the vocabulary, which is slower and gives the same "
            "result."
        )
    return head
