"""Build the demo's encoder: a small BERT with random weights and a vocabulary of the demo's words.

It stands in for a pretrained checkpoint where no hub can be reached.

    python scripts/demo_encoder.py assets/demo/train.tsv assets/demo_encoder
"""

import sys
from pathlib import Path

import torch
from tokenizers import BertWordPieceTokenizer
from transformers import BertConfig, BertForMaskedLM, BertTokenizerFast


def main(corpus: Path, folder: Path) -> None:
    words = [line.split("\t")[0] for line in corpus.read_text(encoding="utf8").splitlines()]
    tokenizer = BertWordPieceTokenizer(lowercase=True)
    tokenizer.train_from_iterator([" ".join(words)], vocab_size=400, show_progress=False)
    folder.mkdir(parents=True, exist_ok=True)
    BertTokenizerFast(tokenizer_object=tokenizer._tokenizer).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=256,
        max_position_embeddings=512,
    )
    BertForMaskedLM(config).save_pretrained(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
