"""A standard token classifier of Hugging Face with the encoder of a pipeline.

The detection head of a pipeline is not linear, and mentions are classified by the mean of their
pieces and decoded as sequences. The token classifiers of transformers have one linear layer over
the labels of a piece. So this layer is fitted to the probabilities that the pipeline predicts. An
ONNX graph can have the real heads instead.
"""

from collections.abc import Sequence

import torch
from torch import nn
from transformers import AutoModelForTokenClassification, PreTrainedModel

from ..types import BIO, B, I, O
from .network import EntityHead, MSLMNetwork

# The strength of the L2 penalty on the weights, and the maximum number of steps of L-BFGS.
PENALTY = 1e-5
STEPS = 300


def tag_names(labels: Sequence[str]) -> list[str]:
    """Return the BIO labels of a token classifier: O, then B and I of each type."""
    return ["O", *(f"{tag}-{label}" for label in labels for tag in "BI")]


def tag_probabilities(
    bio: torch.Tensor, types: torch.Tensor, is_first: torch.Tensor
) -> torch.Tensor:
    """Return (n, tags) the probabilities of `tag_names` for pieces.

    Args:
        bio: (n, columns, 3) The probabilities of B, I and O of the token of each piece: one column,
            or one for each type.
        types: (n, types) The probabilities of the types, of which those of a typed network are 1.
        is_first: (n,) Whether a piece is the first one of its token. The others continue it.
    """
    inside = bio[..., B] + bio[..., I]
    begin = torch.where(is_first[:, None], bio[..., B], torch.zeros_like(inside))
    both = torch.stack([begin * types, (inside - begin) * types], dim=-1).flatten(1)
    outside = bio[..., O].prod(-1, keepdim=True)
    joined = torch.cat([outside, both], dim=-1)
    return joined / joined.sum(-1, keepdim=True)


class PipelineHeads(nn.Module):
    """The entity heads of a pipeline as one layer: (..., hidden) -> (..., tags) log-probabilities.

    Each piece is tagged on its own. The type of a piece is that of its vector, where the pipeline
    takes the mean of the mention.

    Args:
        network: The network of the pipeline.
    """

    def __init__(self, network: MSLMNetwork) -> None:
        super().__init__()
        self.columns = network.columns
        self.detection = _without_vector(network.detection)
        head = network.classification
        self.classification = None if head is None else _without_vector(head)

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        """Return the logarithms of the probabilities of `tag_names`, up to a constant."""
        bio = self.detection(vectors).unflatten(-1, (self.columns, len(BIO))).log_softmax(-1)
        mentions = bio[..., [B, I]]  # (..., columns, 2)
        if self.classification is not None:
            mentions = self.classification(vectors).log_softmax(-1)[..., None] + mentions
        outside = bio[..., O].sum(-1, keepdim=True)
        return torch.cat([outside, mentions.flatten(-2)], dim=-1)


def _without_vector(head: EntityHead) -> nn.Sequential:
    """Return a head as tanh and a linear layer: its trainable vector only adds to the bias."""
    old = head.output
    hidden = old.in_features - len(head.vector)
    new = nn.Linear(hidden, old.out_features)
    with torch.no_grad():
        new.weight.copy_(old.weight[:, :hidden])
        new.bias.copy_(old.bias + old.weight[:, hidden:] @ torch.tanh(head.vector))
    return nn.Sequential(nn.Tanh(), new)


def fit_linear(vectors: torch.Tensor, tags: torch.Tensor) -> nn.Linear:
    """Fit a linear layer that predicts the tags of vectors (multinomial logistic regression).

    Args:
        vectors: (n, hidden) The vectors.
        tags: (n, tags) The probabilities of the tags of each.

    Returns:
        The layer, hidden -> n_tags.
    """
    mean, scale = vectors.mean(0), vectors.std(0).clamp(min=1e-6)
    inputs = (vectors - mean) / scale
    layer = nn.Linear(vectors.shape[1], tags.shape[1])
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    parameters = list(layer.parameters())
    optimizer = torch.optim.LBFGS(
        parameters, max_iter=STEPS, history_size=20, line_search_fn="strong_wolfe"
    )

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        value = nn.functional.cross_entropy(layer(inputs), tags)
        value = value + PENALTY * layer.weight.square().sum()
        value.backward()
        return value

    with torch.enable_grad():
        optimizer.step(loss)
    with torch.no_grad():  # on vectors as they are
        layer.weight.div_(scale)
        layer.bias.sub_(layer.weight @ mean)
    return layer


def token_classifier(
    lm: PreTrainedModel, layer: nn.Module, labels: Sequence[str]
) -> PreTrainedModel:
    """Return a token classifier of transformers with the encoder of a masked LM.

    Args:
        lm: The encoder with its masked-LM head, which is left out.
        layer: (..., hidden) -> (..., tags). If it is not linear, the model can run but not be
            saved for transformers.
        labels: The entity types.

    Raises:
        ValueError: If transformers has no token classifier for this family of encoders whose only
            layer is linear.
    """
    names = tag_names(labels)
    facts = {k: v for k, v in lm.config.to_dict().items() if k not in ("model_type", "dtype")}
    facts["id2label"] = dict(enumerate(names))
    facts["label2id"] = {name: i for i, name in enumerate(names)}
    config = type(lm.config)(**facts)
    try:
        model = AutoModelForTokenClassification.from_config(config)
        classifier = model.classifier
        model.base_model.load_state_dict(lm.base_model.state_dict())
    except (ValueError, AttributeError, RuntimeError):
        classifier = None
    if isinstance(classifier, nn.Linear) and classifier.out_features == len(names):
        model.eval()
        if _is_linear(model, lm, classifier):
            model.classifier = layer
            return model
    raise ValueError(
        f"transformers has no token classifier with a linear layer on a {lm.config.model_type} "
        "encoder. Export the encoder (--to hf-mlm), or use the pipeline as it is."
    )


def _is_linear(model: PreTrainedModel, lm: PreTrainedModel, classifier: nn.Linear) -> bool:
    """Return whether a classifier reads the output of the encoder as it is."""
    ids = torch.arange(5, 9)[None] % lm.config.vocab_size
    with torch.inference_mode():
        expected = classifier(lm.base_model(input_ids=ids)[0])
        return torch.allclose(model(input_ids=ids).logits, expected, atol=1e-4)
