"""Make an encoder smaller: drop layers, and the wordpieces that a text does not use."""

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import spacy
from spacy.util import minibatch
from transformers import PreTrainedTokenizerFast

from ..corpus.readers import read_gold
from ..errors import Errors
from ..model.checkpoints import load_encoder, load_fast_tokenizer
from ..model.shrinking import (
    check_family,
    choose_pieces,
    save_half,
    shrink_model,
    shrink_tokenizer,
)
from ..text.plain_texts import read_texts, text_files
from ..util.manifest import signed_folder
from ..util.progress import progress_bar


class Size(NamedTuple):
    """The size of an encoder: layers, wordpieces, and parameters with the masked-LM head."""

    layers: int
    pieces: int
    parameters: int


class Shrunk(NamedTuple):
    """The sizes before and after."""

    before: Size
    after: Size


def shrink(
    encoder: str,
    output: Path,
    *,
    layers: Sequence[int] | None = None,
    text: Sequence[str] = (),
    vocab_size: int | None = None,
    force: bool = False,
) -> Shrunk:
    """Write a smaller encoder, as a Hugging Face checkpoint with weights in 16-bit floats.

    No text becomes unknown that was known: pieces that are dropped are split into smaller ones.

    Args:
        encoder: Hub name or folder of the encoder.
        output: Folder for the smaller encoder.
        layers: The layers to keep, counted from 0; by default all.
        text: Files of text whose pieces are kept; by default all pieces are kept.
        vocab_size: The number of pieces to keep, the most frequent ones; by default all that occur
            in the text.
        force: Replace `output` if it exists.

    Raises:
        ValueError: If the encoder cannot be made smaller so.
    """
    if output.exists() and not force:
        raise ValueError(Errors.M133.format(path=output))
    if vocab_size is not None and not text:
        raise ValueError("--vocab-size needs text to count pieces in. Give it with --text.")
    files = list(text)
    text_files(files)  # raises if one does not exist, before anything is loaded
    model, tokenizer = load_encoder(encoder), load_fast_tokenizer(encoder)
    check_family(model, tokenizer, encoder)
    depth = model.config.num_hidden_layers
    kept = list(range(depth)) if layers is None else list(layers)
    if not kept or kept != sorted(set(kept) & set(range(depth))):
        raise ValueError(
            f"--layers {','.join(map(str, kept))}: give one or more of the layers 0 to {depth - 1} "
            f"of {encoder!r} in ascending order, such as 0,{depth - 1}."
        )
    pieces = tokenizer.get_vocab()
    if files:
        pieces = choose_pieces(tokenizer, _count_pieces(tokenizer, files), vocab_size)
    else:
        pieces = dict(sorted(pieces.items(), key=lambda item: item[1]))
    smaller_tokenizer = shrink_tokenizer(tokenizer, list(pieces))
    pad = smaller_tokenizer.pad_token_id
    smaller = shrink_model(model, kept, list(pieces.values()), pad)
    sizes = Shrunk(
        Size(depth, model.config.vocab_size, model.num_parameters()),
        Size(len(kept), len(pieces), smaller.num_parameters()),
    )
    with signed_folder(output) as folder:
        save_half(smaller, smaller_tokenizer, folder)
    return sizes


def _count_pieces(tokenizer: PreTrainedTokenizerFast, files: Sequence[str]) -> np.ndarray:
    """Return (vocabulary,) how often each piece occurs in the files."""
    backend = tokenizer.backend_tokenizer
    backend.no_truncation()
    plain, annotated = text_files(files)
    vocab = spacy.blank("en").vocab
    docs = chain.from_iterable(read_gold(path, vocab) for path in annotated)
    texts = chain((text for _, text in read_texts(plain)), (doc.text for doc in docs))
    counts = np.zeros(len(tokenizer), dtype=np.int64)
    for batch in minibatch(progress_bar(texts, desc="Counting", unit=" texts"), 1000):
        for encoding in backend.encode_batch(batch, add_special_tokens=False):
            counts += np.bincount(encoding.ids, minlength=len(counts))
    if not counts.any():
        raise ValueError(f"There is no text in {', '.join(map(str, files))}.")
    return counts
