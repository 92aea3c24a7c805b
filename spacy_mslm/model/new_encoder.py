"""A new encoder: a WordPiece vocabulary that is learnt from text, a BERT with random weights."""

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from tokenizers import BertWordPieceTokenizer
from tokenizers.processors import BertProcessing
from transformers import BertConfig, BertForMaskedLM, BertTokenizerFast

Size = Literal["tiny", "mini", "small", "medium", "base"]
# Number of layers and hidden size, as in the small BERTs of Turc et al. (2019).
SHAPES: dict[Size, tuple[int, int]] = {
    "tiny": (2, 128),
    "mini": (4, 256),
    "small": (4, 512),
    "medium": (8, 512),
    "base": (12, 768),
}
POSITIONS = 512


def write_new_encoder(
    texts: Iterable[str], folder: Path, size: Size, vocab_size: int, lowercase: bool
) -> None:
    """Write a checkpoint folder of a new encoder. Its weights come from torch's generator.

    Args:
        texts: The texts to learn the vocabulary from. They are read once.
        folder: The folder.
        size: The size of the BERT.
        vocab_size: The maximum number of pieces in the vocabulary, each of which occurs at least
            twice.
        lowercase: Whether to convert text to lower case.
    """
    vocabulary = BertWordPieceTokenizer(lowercase=lowercase)
    vocabulary.train_from_iterator(texts, vocab_size=vocab_size, show_progress=False)
    # The trainer does not set the template that puts special pieces around a sentence.
    sep, cls = ((piece, vocabulary.token_to_id(piece)) for piece in ("[SEP]", "[CLS]"))
    vocabulary._tokenizer.post_processor = BertProcessing(sep, cls)
    tokenizer = BertTokenizerFast(
        tokenizer_object=vocabulary._tokenizer, do_lower_case=lowercase, model_max_length=POSITIONS
    )
    tokenizer.save_pretrained(folder)
    layers, width = SHAPES[size]
    config = BertConfig(
        vocab_size=vocabulary.get_vocab_size(),
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=width // 64,
        intermediate_size=4 * width,
        max_position_embeddings=POSITIONS,
    )
    BertForMaskedLM(config).save_pretrained(folder)
