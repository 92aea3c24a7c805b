"""Pieces -> entities with confidences: windows through the encoder, detection, classification.

Documents go through in groups of bounded size, and within a group windows of all documents are
batched by padded size, so that memory does not grow with the number of documents.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from .batches import BIO, Entity, O, Pieces, Prediction, Row, Window, no_ints
from .calibration import rescale
from .collate import batch_by_padded_size, pad_rows
from .decoding import bio_spans, decode_bio
from .model import MSLMModel, document_windows, shim_of
from .network import MSLMNetwork, mean_pool
from .wordpieces import Wordpieces

# Pieces whose vectors are kept at a time; a longer document is a group of its own.
GROUP_PIECES = 32_768


def predict_entities(
    model: MSLMModel,
    documents: Sequence[Pieces],
    batch_pieces: int,
    transitions: np.ndarray,
    temperature: float,
) -> list[Prediction]:
    """Entities of each document, in order.

    batch_pieces: the most padded pieces that go through the encoder at once.
    transitions: (3, 3) scores of one tag after another.
    temperature: of the confidences.
    """
    shim = shim_of(model)
    predictions: list[Prediction] = []
    with shim.inference() as network:
        for group in _groups(documents):
            vectors = _encode(model, network, shim.wordpieces, group, batch_pieces)
            predictions.extend(_read_heads(network, group, vectors, transitions, temperature))
    return predictions


def _groups(documents: Sequence[Pieces]) -> Iterator[list[Pieces]]:
    group: list[Pieces] = []
    size = 0
    for pieces in documents:
        if group and size + len(pieces.ids) > GROUP_PIECES:
            yield group
            group, size = [], 0
        group.append(pieces)
        size += len(pieces.ids)
    if group:
        yield group


def _encode(
    model: MSLMModel,
    network: MSLMNetwork,
    wordpieces: Wordpieces,
    group: list[Pieces],
    batch_pieces: int,
) -> torch.Tensor:
    """(all pieces of the group, hidden): each piece's vector from the window that owns it."""
    rows: list[Row] = []
    windows: list[tuple[int, Window]] = []  # with the document's offset in the group
    offset = 0
    for pieces in group:
        for window in document_windows(model, pieces):
            ids = pieces.ids[window.start : window.end]
            rows.append(Row(ids, np.zeros(len(ids), np.int8), no_ints(), no_ints(), []))
            windows.append((offset, window))
        offset += len(pieces.ids)
    hidden = network.lm.config.hidden_size
    vectors = torch.zeros(offset, hidden, device=network.device)
    for indices in batch_by_padded_size(rows, batch_pieces, wordpieces.extra):
        batch = pad_rows([rows[i] for i in indices], wordpieces)
        encoded = network.encode(batch).view(len(indices), -1, hidden)
        for row, i in enumerate(indices):
            at, window = windows[i]
            first = len(wordpieces.prefix) - window.start
            owned = slice(window.own_start + first, window.own_end + first)
            vectors[at + window.own_start : at + window.own_end] = encoded[row, owned]
    return vectors


def _read_heads(
    network: MSLMNetwork,
    group: list[Pieces],
    vectors: torch.Tensor,
    transitions: np.ndarray,
    temperature: float,
) -> list[Prediction]:
    """Detection on every token's first piece, decoding, then classification of what was found."""
    firsts, offset = [], 0
    for pieces in group:
        firsts.append(offset + pieces.starts[pieces.tagged])
        offset += len(pieces.ids)
    at = torch.from_numpy(np.concatenate(firsts))
    bio = network.detect(vectors[at.to(vectors.device)]).float().softmax(-1).cpu().numpy()
    found: list[tuple[np.ndarray, np.ndarray]] = []  # each document's spans, their probabilities
    span_at, start, offset = [], 0, 0
    predictions = []
    for pieces in group:
        tokens = pieces.tagged
        probabilities = bio[start : start + len(tokens)]
        # Without a type to give it, a mention cannot be named: an untrained pipe finds none.
        visible = probabilities if network.types else probabilities[:0]
        spans, confidences = _find_spans(visible, transitions)
        # Tokens without pieces are passed over: a mention goes on across a line break.
        ranges = np.stack([tokens[spans[:, 0]], tokens[spans[:, 1] - 1] + 1], axis=1)
        found.append((ranges, confidences))
        for s, e in ranges:
            span_at.append(np.arange(offset + pieces.starts[s], offset + pieces.starts[e]))
        full = np.zeros((len(pieces.words), len(BIO)), dtype=np.float32)
        full[:, O] = 1.0
        full[tokens] = probabilities
        predictions.append(Prediction([], full))
        start += len(tokens)
        offset += len(pieces.ids)
    types, type_confidences = _classify(network, vectors, span_at)
    k = 0
    for prediction, (ranges, confidences) in zip(predictions, found, strict=True):
        of_types = slice(k, k + len(ranges))
        joint = rescale(confidences * type_confidences[of_types], temperature)
        for (s, e), type_, value in zip(
            ranges.tolist(), types[of_types].tolist(), joint.tolist(), strict=True
        ):
            prediction.entities.append(Entity(s, e, type_, value))
        k += len(ranges)
    return predictions


def _find_spans(
    probabilities: np.ndarray, transitions: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(tokens, 3) -> (spans, 2) and (spans,) products of their tokens' tag probabilities."""
    if not len(probabilities):
        return no_ints(0, 2), np.zeros(0)
    tags = decode_bio(probabilities, transitions)
    spans = bio_spans(tags)
    logs = np.log(np.maximum(probabilities[np.arange(len(tags)), tags], 1e-30), dtype=np.float64)
    sums = np.concatenate([[0.0], np.cumsum(np.where(tags == O, 0.0, logs))])
    return spans, np.exp(sums[spans[:, 1]] - sums[spans[:, 0]])


def _classify(
    network: MSLMNetwork, vectors: torch.Tensor, span_at: list[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Type index and its probability for each span, given as positions in `vectors`."""
    if not span_at:
        return no_ints(), np.zeros(0)
    of = np.repeat(np.arange(len(span_at)), [len(at) for at in span_at])
    at = torch.from_numpy(np.concatenate(span_at)).to(vectors.device)
    pooled = mean_pool(vectors[at], torch.from_numpy(of).to(vectors.device), len(span_at))
    best = network.classify(pooled).float().softmax(-1).max(-1)
    return best.indices.cpu().numpy(), best.values.cpu().numpy()
