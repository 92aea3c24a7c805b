"""Count what a GPU would have to start per 1,000 words: kernels, copies to and from the device.

Operations on a GPU are started one by one by the CPU, and each copy of a result waits for all that
is queued. Both are counted on a CPU, with the settings of a GPU, and compared with the bare encoder
with a linear head, which reads the same sentences in the same order.

- Prediction: the bare encoder gets padded batches of at most 4,096 pieces, without windows, and
  copies probabilities to the CPU.
- Training: both get batches of 16 sentences, with dropout, cross-entropy, one backward pass,
  clipping of the global norm and a step of torch's fused AdamW, and read the loss. The bare encoder
  pads a batch to its longest sentence. Ours also has two heads, and the masked-LM head and masks in
  the views `mixed` and `clean`, which the bare encoder never has.

Views of tensors start nothing and are not counted. Operations on the norms of single gradients are
counted once for all, as torch runs them on a GPU. The states of AdamW, which the first update
creates, are counted in both.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Any
from unittest.mock import patch

import spacy
import torch
import typer
from spacy.language import Language
from spacy.training import Example
from spacy.util import minibatch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from wasabi import msg

from spacy_mslm.corpus.readers import make_corpus
from spacy_mslm.inference import predict
from spacy_mslm.model import shim
from spacy_mslm.model.fast.sparse_embeddings import use_sparse_gradient
from spacy_mslm.model.optimizer import make_adamw
from spacy_mslm.pieces import collate
from spacy_mslm.pieces.collate import batch_by_padded_size, pad_ids
from spacy_mslm.pipeline.component import MSLM
from spacy_mslm.pipeline.find import find_mslm

from .machine import write_result
from .reference import SPLITS
from .speed import RESULTS, ROOT

BATCH, PIECES = 16, 4096
JOINT = {"@misc": "spacy_mslm.JointMasking.v1", "elm_rate": 1.0, "blm_rate": 0.075}
WITH_MASKS = {"masking": JOINT, "loss_weights": {"mlm": 1.0, "ed": 1.0, "el": 1.0}}
# Settings of the pipe for each kind of training.
TRAININGS: dict[str, dict[str, Any]] = {
    "training": {},
    "training, mixed view": {**WITH_MASKS, "view": "mixed"},
    "training, clean view": {**WITH_MASKS, "view": "clean"},
}
TO_DEVICE = {torch.Tensor.to}
FROM_DEVICE = {
    *(torch.Tensor.cpu, torch.Tensor.item, torch.Tensor.tolist),
    *(torch.Tensor.__bool__, torch.Tensor.__float__, torch.Tensor.__int__),
}
Counts = dict[str, int]


class Kernels(TorchDispatchMode):
    """Counts operations that compute something: a view of a tensor starts nothing on a GPU."""

    def __init__(self) -> None:
        super().__init__()
        self.n = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.n += not (func.is_view or func is torch.ops.aten.detach.default)
        return func(*args, **(kwargs or {}))


class Copies(TorchFunctionMode):
    """Counts calls that copy to a device, and those that copy back and wait.

    The norms of gradients, which `clip_grad_norm_` moves to one device, are there already.
    """

    def __init__(self) -> None:
        super().__init__()
        self.there = self.back = 0

    def __torch_function__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in TO_DEVICE and any(isinstance(arg, torch.device) for arg in args):
            self.there += args[0].ndim > 0
        self.back += func in FROM_DEVICE
        return func(*args, **(kwargs or {}))


def operations(
    shared: Annotated[Path, typer.Option(help="Folder with blurb/ and encoders/")] = ROOT
    / "../shared",
    sentences: Annotated[int, typer.Option(help="Number of sentences")] = 320,
    results: Annotated[Path, typer.Option(help="Folder for the figures")] = RESULTS,
) -> None:
    """Count operations and copies of prediction and training, and those of the bare encoder."""
    torch.manual_seed(0)
    corpus = make_corpus(shared / "blurb/ncbi_disease" / SPLITS["train"], limit=sentences, seed=0)
    examples = list(corpus(spacy.blank("en")))
    words = sum(len(example.predicted) for example in examples)
    encoder = str((shared / "encoders/biominilm").resolve())
    nlp, pipe = _pipeline(encoder, examples)
    head = torch.nn.Linear(pipe.shim.network.hidden_size, 3)
    counts: dict[str, dict[str, Counts]] = {
        "prediction": {
            "ours": _count(lambda: _predict(nlp, examples)),
            "bare": _count(lambda: _predict_bare(pipe, head, examples)),
        }
    }
    bare_training = _count(lambda: _train_bare(pipe, head, examples))
    for name, settings in TRAININGS.items():
        nlp, pipe = _pipeline(encoder, examples, **settings)
        counts[name] = {"ours": _count(partial(_train, nlp, examples)), "bare": bare_training}
    rows = []
    for task, found in counts.items():
        for kind in found["ours"]:
            ours, bare = (1000 * found[name][kind] / words for name in ("ours", "bare"))
            rows.append((task, kind, f"{ours:.1f}", f"{bare:.1f}", f"{ours / bare:.2f}"))
    write_result(results / "operations.json", {"words": words, "counts": counts})
    header = ("", "per 1,000 words", "spacy-mslm", "bare encoder", "ratio")
    msg.table(rows, header=header, divider=True, aligns=("l", "l", "r", "r", "r"))


def _pipeline(encoder: str, examples: list[Example], **settings: Any) -> tuple[Language, MSLM]:
    """Create a pipeline whose gradients are computed as on a GPU."""
    nlp = spacy.blank("en")
    config = {"model": {"encoder": encoder}, "batch_pieces": PIECES, **settings}
    nlp.add_pipe("mslm", config=config)
    nlp.initialize(lambda: examples)
    _, pipe = find_mslm(nlp, "benchmark")
    use_sparse_gradient(pipe.shim.network.lm, torch.device("cuda"))
    return nlp, pipe


def _count(run: Callable[[], None]) -> Counts:
    with ExitStack() as stack:
        # As on a GPU: torch's own kernels, and large batches.
        stack.enter_context(patch.object(predict, "fast_kernels", lambda device: nullcontext()))
        stack.enter_context(patch.object(predict, "CPU_BATCH_PIECES", PIECES))
        stack.enter_context(patch.object(collate, "WORTH_A_PASS", collate.GPU_WORTH_A_PASS))
        stack.enter_context(patch.object(shim, "is_checked_early", lambda device: True))
        kernels = stack.enter_context(Kernels())
        copies = stack.enter_context(Copies())
        run()
    return {"operations": kernels.n, "copies to": copies.there, "copies back": copies.back}


def _predict(nlp: Language, examples: list[Example]) -> None:
    for _ in nlp.pipe([example.predicted.copy() for example in examples], batch_size=256):
        pass


def _predict_bare(pipe: MSLM, head: torch.nn.Linear, examples: list[Example]) -> None:
    wordpieces, network = pipe.shim.wordpieces, pipe.shim.network
    with torch.inference_mode():
        for batch in minibatch(examples, 256):
            ids = [pieces.ids for pieces in wordpieces([example.predicted for example in batch])]
            for indices in batch_by_padded_size(ids, PIECES, wordpieces.extra):
                vectors = _encode(network, *pad_ids([ids[i] for i in indices], wordpieces))
                head(vectors).softmax(-1).cpu()


def _encode(network: Any, ids: Any, lengths: Any) -> torch.Tensor:
    device = torch.device("cpu")
    mask = (torch.arange(ids.shape[1]) < torch.from_numpy(lengths)[:, None]).long()
    inputs = torch.from_numpy(ids).to(device)
    return network.lm.base_model(input_ids=inputs, attention_mask=mask.to(device))[0]


def _train(nlp: Language, examples: list[Example]) -> None:
    optimizer = make_adamw()
    for batch in minibatch(examples, BATCH):
        nlp.update(batch, sgd=optimizer, drop=0.1)


def _train_bare(pipe: MSLM, head: torch.nn.Linear, examples: list[Example]) -> None:
    network = pipe.shim.network
    parameters = [*network.lm.base_model.parameters(), *head.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=1e-5, fused=True)
    network.train()
    for ids, lengths, labels in _labelled(pipe, examples):
        logits = head(torch.nn.functional.dropout(_encode(network, ids, lengths)))
        targets = labels.to(torch.device("cpu"))
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        loss.item()
    network.eval()


def _labelled(pipe: MSLM, examples: list[Example]) -> Iterator[tuple[Any, Any, torch.Tensor]]:
    wordpieces = pipe.shim.wordpieces
    for batch in minibatch(examples, BATCH):
        ids = [pieces.ids for pieces in wordpieces([example.predicted for example in batch])]
        padded, lengths = pad_ids(ids, wordpieces)
        yield padded, lengths, torch.zeros(padded.shape, dtype=torch.long)
