"""Labelled documents -> shards of a corpus: a sentence a document, patients kept apart."""

import hashlib
from collections import Counter
from pathlib import Path

from spacy.tokens import Doc, DocBin
from srsly.msgpack._packer import Packer

from ..text.sentences import sentence_docs
from ..util.files import replace_file

SPLITS = ("train", "dev", "test")
# DocBin packs user data by srsly, which looks for plug-ins in all installed packages every time:
# 1.4 ms a sentence, most of the time that labelling takes.
_PACKER = Packer(use_bin_type=True)
ATTRIBUTES = ("SPACY", "ENT_IOB", "ENT_TYPE", "ENT_KB_ID")


def split_of(patient: str, seed: int, dev: float, test: float) -> str:
    """Always the same one for a patient, whatever else is in the corpus.

    dev, test: the share of the patients in each.
    """
    digest = hashlib.blake2b(f"{seed}:{patient}".encode(), digest_size=8).digest()
    drawn = int.from_bytes(digest, "big") / 2**64
    return "dev" if drawn < dev else "test" if drawn < dev + test else "train"


class Shard:
    """A part of the corpus: the notes of one chunk, by split."""

    def __init__(self) -> None:
        self.bins = {split: DocBin(attrs=ATTRIBUTES) for split in SPLITS}
        self.counts: Counter[str] = Counter()

    def add(self, doc: Doc, split: str) -> None:
        counts = self.counts
        counts[f"{split}/notes"] += 1
        for number, sentence in enumerate(sentence_docs(doc)):
            if sentence.text.isspace():
                continue
            sentence.user_data["id"] += f":{number}"
            self.bins[split].add(sentence)
            self.bins[split].user_data.append(_PACKER.pack(sentence.user_data))
            counts[f"{split}/sentences"] += 1
            counts[f"{split}/words"] += sum(not token.is_space for token in sentence)
            for ent in sentence.ents:
                counts[f"{split}/mentions"] += 1
                counts[f"{split}/mention words"] += len(ent)
                counts[f"{split}/label/{ent.label_}"] += 1

    def write(self, folder: Path, number: int) -> None:
        """As `train/00007.spacy` and so on; no file where there is nothing."""
        for split, docs in self.bins.items():
            if len(docs):
                docs.store_user_data = True
                path = folder / split / f"{number:05}.spacy"
                path.parent.mkdir(exist_ok=True)
                replace_file(path, docs.to_bytes())
