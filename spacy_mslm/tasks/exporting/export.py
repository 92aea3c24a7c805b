"""Export a pipeline to formats that other libraries read."""

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from spacy.language import Language
from spacy.tokens import Doc
from transformers import PreTrainedTokenizerFast

from ...corpus.readers import read_gold
from ...errors import Errors
from ...inference.predict import encode_pieces
from ...model.fast.onnx_encoder import OnnxEncoder
from ...model.fast.onnx_export import export_graph
from ...model.network import MSLMNetwork
from ...model.token_classifier import (
    PipelineHeads,
    fit_linear,
    tag_probabilities,
    token_classifier,
)
from ...pieces.wordpieces import Wordpieces
from ...pipeline.component import MSLM
from ...pipeline.find import find_mslm, run_pipes_before
from ...pipeline.loading import load_pipeline
from ...types import BIO
from ...util.manifest import signed_folder
from ..choices import Target
from .agreement import Agreement, measure

# The maximum number of pieces that the classifier is fitted on: 300 MB of vectors of 768 numbers.
FIT_PIECES = 100_000
# Documents to measure on.
MEASURED = 2000


class Exported(NamedTuple):
    """The folder, and how often the exported classifier and the pipeline agree."""

    path: Path
    agreement: Agreement | None  # None if no classifier was exported


def export(
    model: str,
    output: Path,
    to: Target = Target.hf_mlm,
    train: Path | None = None,
    dev: Path | None = None,
    force: bool = False,
) -> Exported:
    """Export a pipeline to a folder that needs neither spaCy nor this package.

    A classifier of transformers has one linear layer on the encoder, which is fitted to the
    entities that the pipeline finds in `train`. An ONNX graph has the entity heads of the pipeline.
    How often it and the pipeline agree is measured on `dev`, with the texts alone.

    Args:
        model: Name or path of the pipeline.
        output: Folder for the result.
        to: What it is exported to.
        train: Text to fit the classifier on: a .spacy file, a folder of them, or an IOB file; by
            default the training set of the pipeline's config. Its annotation is not used.
        dev: Text to measure the agreement on; by default the dev set of the pipeline's config.
        force: Replace `output` if it exists.

    Raises:
        ValueError: If the pipeline cannot be exported so.
        ImportError: If the extra `onnx` is not installed.
    """
    if output.exists() and not force:
        raise ValueError(Errors.M133.format(path=output))
    nlp = load_pipeline(model)
    name, pipe = find_mslm(nlp, model)
    lm = pipe.shim.network.lm
    if isinstance(lm, OnnxEncoder):
        raise ValueError(
            f"{model} was optimised, and has only the graph of its encoder. Export the original "
            "pipeline instead."
        )
    tokenizer = running_tokenizer(pipe.shim.wordpieces)
    if Target(to) is Target.hf_mlm:
        with signed_folder(output) as folder:
            lm.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
        return Exported(output, None)
    if not pipe.labels:
        raise ValueError(f"{model} has no entity types, so there is nothing to classify.")
    measured = _texts_of(nlp, dev, "dev")
    layer: torch.nn.Module
    if Target(to) is Target.onnx:
        layer = PipelineHeads(pipe.shim.network)
    else:
        layer = _fit(nlp, name, pipe, _texts_of(nlp, train, "train"))
    classifier = token_classifier(lm, layer, pipe.labels)
    agreement = measure(nlp, name, pipe, classifier, tokenizer, _read(nlp, measured, MEASURED))
    with signed_folder(output) as folder:
        if Target(to) is Target.onnx:
            graph = export_graph(classifier, lm.config.model_type, "logits")
            (folder / "model.onnx").write_bytes(graph)
            classifier.config.save_pretrained(folder)
        else:
            classifier.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        facts = json.dumps(agreement._asdict(), indent=2)
        (folder / "agreement.json").write_text(facts, encoding="utf8")
    return Exported(output, agreement)


def running_tokenizer(wordpieces: Wordpieces) -> PreTrainedTokenizerFast:
    """Return the tokenizer of a pipeline for transformers."""
    tokenizer = wordpieces.for_running_text()
    ids = {"mask_token": wordpieces.mask, "pad_token": wordpieces.pad}
    if wordpieces.prefix and wordpieces.suffix:
        ids |= {"cls_token": wordpieces.prefix[0], "sep_token": wordpieces.suffix[-1]}
    special = {name: tokenizer.id_to_token(i) for name, i in ids.items()}
    unknown = getattr(tokenizer.model, "unk_token", None) or "[UNK]"
    special["unk_token"] = unknown if tokenizer.token_to_id(unknown) is not None else "<unk>"
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=wordpieces.max_length,
        # The encoder was trained without the others.
        model_input_names=["input_ids", "attention_mask"],
        **special,
    )


def _texts_of(nlp: Language, given: Path | None, key: str) -> Path:
    path = given or Path(nlp.config["paths"].get(key) or "none")
    if not path.exists():
        raise ValueError(
            f"There is no text for the classifier: the config of the pipeline names {path}. Give "
            f"some (--{key})."
        )
    return path


def _read(nlp: Language, path: Path, limit: int | None = None) -> Iterator[Doc]:
    """Yield documents, tokenized and without annotation."""
    for doc in islice(read_gold(path, nlp.vocab), limit):
        words, spaces = [t.text for t in doc], [bool(t.whitespace_) for t in doc]
        yield Doc(nlp.vocab, words=words, spaces=spaces)


def _fit(nlp: Language, name: str, pipe: MSLM, path: Path) -> torch.nn.Linear:
    """Return a linear layer that is fitted to what the pipe predicts."""
    documents, total = [], 0
    for doc in run_pipes_before(nlp, name, _read(nlp, path)):
        (pieces,) = pipe.shim.wordpieces([doc])
        total += len(pieces.ids)
        documents.append(pieces)
        if total > FIT_PIECES:
            break
    vectors = encode_pieces(pipe.shim, pipe.windows, documents, pipe.batch_pieces)
    probabilities = [prediction.bio for prediction in pipe.predict_pieces(documents)]
    pieces_of = zip(documents, probabilities, strict=True)
    bio = torch.from_numpy(np.concatenate([own[pieces.token_of] for pieces, own in pieces_of]))
    firsts = [np.diff(pieces.token_of, prepend=-1) > 0 for pieces in documents]
    return fit_linear(
        vectors,
        tag_probabilities(
            bio.reshape(len(bio), -1, len(BIO)),
            _types_of(pipe.shim.network, vectors),
            torch.from_numpy(np.concatenate(firsts)),
        ),
    )


def _types_of(network: MSLMNetwork, vectors: torch.Tensor) -> torch.Tensor:
    """Return (n, types) the probabilities of the types at each vector."""
    if network.typed:
        return torch.ones(1, network.types)
    with torch.inference_mode():
        types = network.classify(vectors.to(network.device)).float().softmax(-1)
    return types.cpu().clone()
