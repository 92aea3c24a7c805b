"""Pieces -> entities with confidences: encoding of windows, detection, classification.

The windows of all documents are processed in groups of limited size and are batched by length
within a group, so that memory does not grow with the number of documents or their length. A
document longer than a group is read in parts. A part is decoded up to a token that is surely
outside every mention. The rest is decoded with the next part, so the mentions are the same as if
the document were read at once.

    pieces   |<---- group ---->|<---- group ---->|<- ...
    tokens    ..(heart failure).....(renal   failure)....
    decoded  |<------------------>|<------------------ ...
                                  a token that is surely outside

Tags have a column for each BIO decision: one whose mentions are classified afterwards, or one for
each type in a typed network. Each column is decoded separately.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch

from ..model.fast.cpu_kernels import fast_kernels
from ..model.network import MSLMNetwork, mean_pool, to_device
from ..model.shim import MSLMShim
from ..pieces.collate import batch_by_padded_size, pad_ids
from ..pieces.windows import WindowSettings
from ..pieces.wordpieces import Wordpieces
from ..types import BIO, Entity, Evidence, I, O, Pieces, Prediction, Window, no_ints
from .calibration import Calibrate, uncalibrated
from .decoding import bio_spans, columns_with_mentions, decode_bio, last_surely_outside

TYPE = Evidence._fields.index("type")
# The maximum number of pieces whose vectors are kept at a time.
GROUP_PIECES = 16_384
# Larger batches do not fit into the caches of a CPU: 4,096 pieces take 25 % more time per piece.
CPU_BATCH_PIECES = 1024


class Part(NamedTuple):
    """Consecutive windows of a document.

    Attributes:
        document: The index of the document.
        windows: The windows.
        is_last: Whether these are the last windows of the document.
    """

    document: int
    windows: list[Window]
    is_last: bool

    @property
    def start(self) -> int:
        """The first piece that these windows own."""
        return self.windows[0].own_start if self.windows else 0

    @property
    def end(self) -> int:
        """The end of the pieces that these windows own."""
        return self.windows[-1].own_end if self.windows else 0


class Read(NamedTuple):
    """The outputs of the encoder and the detection head for a document from piece `start` on."""

    start: int
    vectors: torch.Tensor  # (pieces, hidden)
    bio: np.ndarray  # (tokens that begin in these pieces, columns, 3) tag probabilities


class Found(NamedTuple):
    """The mentions that were decoded in a part of a document."""

    prediction: Prediction  # of the document
    ranges: np.ndarray  # (mentions, 2) tokens
    columns: np.ndarray  # (mentions,) the column of each
    evidence: np.ndarray  # (mentions, evidence) their Evidence


def predict_entities(
    shim: MSLMShim,
    windows: WindowSettings,
    documents: Sequence[Pieces],
    batch_pieces: int,
    transitions: np.ndarray,
    calibrate: Calibrate = uncalibrated,
    *,
    token_vectors: bool = False,
) -> list[Prediction]:
    """Find the entities of each document.

    Args:
        shim: Holds the network and its wordpieces.
        windows: How documents are divided into windows.
        documents: The documents as wordpieces.
        batch_pieces: The maximum number of padded pieces that go through the encoder at once.
        transitions: (columns, 3, 3) Transition scores.
        calibrate: Converts the evidence of mentions to confidences.
        token_vectors: Whether predictions contain the vectors of tokens.

    Returns:
        One prediction for each document, in order. Its entities are in the order of the text. In a
        typed network, entities of different types may overlap.
    """
    with shim.inference() as network:
        predictions = [_nothing_found(len(pieces.words), network) for pieces in documents]
        if token_vectors:
            for prediction in predictions:
                shape = (len(prediction.bio), network.hidden_size)
                prediction.vectors = np.zeros(shape, dtype=np.float32)
        if network.device.type == "cpu":
            batch_pieces = min(batch_pieces, CPU_BATCH_PIECES)
        left: Read | None = None  # the rest of the document in which the last group ended
        for group in _groups(windows, documents):
            # The vectors of a group are not bound to a name, so that they are freed before the
            # next group is read.
            left = _find_entities(
                network,
                documents,
                group,
                _read(network, shim.wordpieces, documents, group, batch_pieces, left, predictions),
                predictions,
                transitions,
                calibrate,
            )
    return predictions


def encode_pieces(
    shim: MSLMShim, windows: WindowSettings, documents: Sequence[Pieces], batch_pieces: int
) -> torch.Tensor:
    """Return (pieces of all documents, hidden): the vectors that prediction reads."""
    with shim.inference() as network:
        if network.device.type == "cpu":
            batch_pieces = min(batch_pieces, CPU_BATCH_PIECES)
        vectors = [
            _encode(network, shim.wordpieces, documents, group, batch_pieces)
            for group in _groups(windows, documents)
        ]
    none = torch.zeros(0, shim.network.hidden_size)
    # A copy, as no gradient could be computed from tensors of the inference mode.
    return torch.cat([none, *(part.cpu() for part in vectors)]).clone()


def _nothing_found(n_tokens: int, network: MSLMNetwork) -> Prediction:
    columns = (network.columns,) if network.typed else ()
    bio = np.zeros((n_tokens, *columns, len(BIO)), dtype=np.float32)
    bio[..., O] = 1.0
    return Prediction([], bio)


def _groups(settings: WindowSettings, documents: Sequence[Pieces]) -> Iterator[list[Part]]:
    """Yield groups of parts with at most GROUP_PIECES pieces. A single window may exceed it."""
    group: list[Part] = []
    size = 0
    for i, pieces in enumerate(documents):
        part: list[Window] = []
        for window in settings.cover(pieces):
            owned = window.own_end - window.own_start
            if size and size + owned > GROUP_PIECES:
                yield [*group, Part(i, part, is_last=False)] if part else group
                group, part, size = [], [], 0
            part.append(window)
            size += owned
        group.append(Part(i, part, is_last=True))
    if group:
        yield group


def _read(
    network: MSLMNetwork,
    wordpieces: Wordpieces,
    documents: Sequence[Pieces],
    group: list[Part],
    batch_pieces: int,
    left: Read | None,
    predictions: list[Prediction],
) -> list[Read]:
    """Return the outputs for each part of a group.

    Those of the first part include the rest of its document that the last group left.
    """
    vectors = _encode(network, wordpieces, documents, group, batch_pieces)
    _pool_tokens(documents, group, vectors, predictions)
    reads = _detect(network, documents, group, vectors)
    if left is not None:
        joined = torch.cat([left.vectors, reads[0].vectors])
        reads[0] = Read(left.start, joined, np.concatenate([left.bio, reads[0].bio]))
    return reads


def _encode(
    network: MSLMNetwork,
    wordpieces: Wordpieces,
    documents: Sequence[Pieces],
    group: list[Part],
    batch_pieces: int,
) -> torch.Tensor:
    """Return (pieces of the group, hidden): each piece's vector from the window that owns it."""
    sequences: list[np.ndarray] = []
    firsts: list[int] = []  # of the pieces that a window owns, in its row
    owned: list[np.ndarray] = []  # their places in the group
    offset = 0
    for part in group:
        for window in part.windows:
            sequences.append(documents[part.document].ids[window.start : window.end])
            firsts.append(len(wordpieces.prefix) + window.own_start - window.start)
            end = offset + window.own_end - window.own_start
            owned.append(np.arange(offset, end))
            offset = end
    vectors = torch.empty(offset, network.hidden_size, device=network.device)
    device = network.device.type
    batches, places = [], []
    for indices in batch_by_padded_size(sequences, batch_pieces, wordpieces.extra, device):
        padded = pad_ids([sequences[i] for i in indices], wordpieces)
        width = padded.ids.shape[1]
        rows = [row * width + firsts[i] + np.arange(len(owned[i])) for row, i in enumerate(indices)]
        batches.append(padded)
        places += [np.concatenate([owned[i] for i in indices]), np.concatenate(rows)]
    # All are copied at once: on a GPU, a copy for each window would take as long as the encoder.
    there = iter(to_device(places, network.device))
    for padded, in_group, in_batch in zip(batches, there, there, strict=True):
        with fast_kernels(network.device):
            encoded = network.encode(*padded)
        if device == "cpu":
            # In numpy: threads of torch would keep those of ONNX Runtime from the next batch.
            vectors.numpy()[in_group.numpy()] = encoded.float().numpy()[in_batch.numpy()]
        else:
            rows_read = encoded.index_select(0, in_batch).to(vectors.dtype)
            vectors.index_copy_(0, in_group, rows_read)
    return vectors


def _pool_tokens(
    documents: Sequence[Pieces],
    group: list[Part],
    vectors: torch.Tensor,
    predictions: list[Prediction],
) -> None:
    """Add the pieces of a group to the means of their tokens. A token may span two groups."""
    offset = 0
    for part in group:
        pieces, pooled = documents[part.document], predictions[part.document].vectors
        end = offset + part.end - part.start
        if pooled is not None and part.end > part.start:
            tokens, firsts = np.unique(pieces.token_of[part.start : part.end], return_index=True)
            sums = np.add.reduceat(vectors[offset:end].float().cpu().numpy(), firsts, axis=0)
            counts = pieces.starts[tokens + 1] - pieces.starts[tokens]
            pooled[tokens] += sums / counts[:, None].astype(np.float32)
        offset = end


def _detect(
    network: MSLMNetwork, documents: Sequence[Pieces], group: list[Part], vectors: torch.Tensor
) -> list[Read]:
    """Tag the tokens of each part, each at its first piece."""
    firsts, offset = [], 0
    for part in group:
        pieces = documents[part.document]
        starts = pieces.starts[pieces.tagged]
        first, end = np.searchsorted(starts, [part.start, part.end])
        firsts.append(starts[first:end] - part.start + offset)
        offset += part.end - part.start
    at = torch.from_numpy(np.concatenate(firsts)).to(vectors.device)
    logits = network.detect(vectors[at]).reshape(len(at), network.columns, len(BIO))
    bio = logits.float().softmax(-1).cpu().numpy()
    reads, start, offset = [], 0, 0
    for part, own in zip(group, firsts, strict=True):
        end = offset + part.end - part.start
        reads.append(Read(part.start, vectors[offset:end], bio[start : start + len(own)]))
        start += len(own)
        offset = end
    return reads


def _find_entities(
    network: MSLMNetwork,
    documents: Sequence[Pieces],
    group: list[Part],
    reads: list[Read],
    predictions: list[Prediction],
    transitions: np.ndarray,
    calibrate: Calibrate,
) -> Read | None:
    """Decode the parts of a group, classify mentions, and add the entities to `predictions`.

    Returns:
        The rest of the last document, which is decoded with the next group, or None.
    """
    found: list[Found] = []
    vectors, left = [], None
    for part, read in zip(group, reads, strict=True):
        pieces, prediction = documents[part.document], predictions[part.document]
        firsts = pieces.starts[pieces.tagged]
        tokens = pieces.tagged[np.searchsorted(firsts, read.start) :][: len(read.bio)]
        bio = read.bio
        prediction.bio[tokens] = bio if network.typed else bio[:, 0]
        # If no token is surely outside, the part is decoded up to its end.
        if not part.is_last and (cut := last_surely_outside(bio, transitions)):
            # The token at the cut is decoded on both sides.
            start = int(pieces.starts[tokens[cut]])
            left = Read(start, read.vectors[start - read.start :].clone(), bio[cut:])
            tokens, bio = tokens[: cut + 1], bio[: cut + 1]
        # A network without types cannot label mentions, so it predicts none.
        if not network.types:
            continue
        spans, columns, evidence = _find_spans(bio, transitions)
        # Tokens without pieces are skipped, so a mention can continue across a line break.
        ranges = np.stack([tokens[spans[:, 0]], tokens[spans[:, 1] - 1] + 1], axis=1)
        found.append(Found(prediction, ranges, columns, evidence))
        if not network.typed:
            places = (pieces.starts[ranges] - read.start).tolist()
            vectors += [read.vectors[start:end] for start, end in places]
    if found and not network.typed:
        found = _with_types(found, *_classify(network, vectors))
    for prediction, ranges, types, evidence in found:
        confidences = calibrate(evidence, types).tolist()
        prediction.entities += [
            Entity(start, end, type_, value, Evidence(*row))
            for (start, end), type_, value, row in zip(
                ranges.tolist(), types.tolist(), confidences, evidence.tolist(), strict=True
            )
        ]
    return left


def _with_types(found: list[Found], types: np.ndarray, probabilities: np.ndarray) -> list[Found]:
    """Replace the columns by classified types, and add the probabilities of these."""
    ends = np.cumsum([len(part.ranges) for part in found])[:-1]
    typed = []
    for part, own, values in zip(
        found, np.split(types, ends), np.split(probabilities, ends), strict=True
    ):
        part.evidence[:, TYPE] = values
        typed.append(part._replace(columns=own))
    return typed


def _find_spans(
    bio: np.ndarray, transitions: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (spans, 2) ranges in the order of the text, (spans,) their columns and (spans,
    evidence) their Evidence, in which the probability of the type is 1."""
    if bio.shape[1] == 1:
        spans, evidence = _spans_of_column(bio[:, 0], transitions[0])
        return spans, np.zeros(len(spans), dtype=np.int64), evidence
    columns = columns_with_mentions(bio, transitions) if len(bio) else []
    if not columns:
        return no_ints(0, 2), no_ints(), np.zeros((0, len(Evidence._fields)))
    found = [_spans_of_column(bio[:, column], transitions[column]) for column in columns]
    spans, evidence = (np.concatenate(values) for values in zip(*found, strict=True))
    of = np.repeat(columns, [len(own) for own, _ in found])
    order = np.lexsort((of, spans[:, 1], spans[:, 0]))
    return spans[order], of[order], evidence[order]


def _spans_of_column(
    probabilities: np.ndarray, transitions: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return (spans, 2) ranges and (spans, evidence) their Evidence, with 1 for the type."""
    if not len(probabilities):
        return no_ints(0, 2), np.zeros((0, len(Evidence._fields)))
    tags = decode_bio(probabilities, transitions)
    spans = bio_spans(tags)
    starts, ends = spans.T
    of_tags = probabilities[np.arange(len(tags)), tags].astype(np.float64)
    logs = np.log(np.maximum(of_tags, 1e-30))
    sums = np.concatenate([[0.0], np.cumsum(np.where(tags == O, 0.0, logs))])
    outside = np.where(tags == O, of_tags, 1.0)
    goes_on = np.append(probabilities[:, I], 0.0)
    columns: dict[str, np.ndarray] = {
        "tags": np.exp(sums[ends] - sums[starts]),
        "before": np.append(outside, 1.0)[starts - 1],  # of the first token: the 1 at the end
        "after": 1 - goes_on[ends],
        "type": np.ones(len(spans)),
        "tokens": ends - starts,
    }
    return spans, np.stack([columns[name] for name in Evidence._fields], axis=1)


def _classify(network: MSLMNetwork, spans: list[torch.Tensor]) -> tuple[np.ndarray, np.ndarray]:
    """Return the type index and its probability for each span, given the vectors of its pieces."""
    if not spans:
        return no_ints(), np.zeros(0)
    sizes = torch.tensor([len(vectors) for vectors in spans])
    of = torch.repeat_interleave(torch.arange(len(spans)), sizes).to(spans[0].device)
    pooled = mean_pool(torch.cat(spans), of, len(spans))
    best = network.classify(pooled).float().softmax(-1).max(-1)
    return best.indices.cpu().numpy(), best.values.cpu().numpy()
