"""Writing of labelled documents as shards of a corpus, one sentence per document, split by
patient."""

import hashlib
from collections import Counter
from pathlib import Path

from spacy.tokens import Doc

from ..corpus.formats.records import SPLITS
from ..engine.shards import chunk_name
from ..text.sentences import sentence_docs
from ..util.doc_bins import add_doc, bin_bytes, empty_bin
from ..util.files import replace_file


def split_of(patient: str, seed: int, dev: float, test: float) -> str:
    """Return the split of a patient: train, dev or test. It does not depend on the other patients.

    dev: Share of the patients in the development set.
    test: Share of the patients in the test set.
    """
    digest = hashlib.blake2b(f"{seed}:{patient}".encode(), digest_size=8).digest()
    drawn = int.from_bytes(digest, "big") / 2**64
    return "dev" if drawn < dev else "test" if drawn < dev + test else "train"


class Shard:
    """The notes of one chunk, by split, and their counts."""

    def __init__(self) -> None:
        self.bins = {split: empty_bin() for split in SPLITS}
        self.counts: Counter[str] = Counter()

    def add(self, doc: Doc, split: str) -> None:
        """Add the sentences of a note that are not white space only."""
        counts = self.counts
        counts[f"{split}/notes"] += 1
        for number, sentence in enumerate(sentence_docs(doc)):
            if sentence.text.isspace():
                continue
            sentence.user_data["id"] += f":{number}"
            add_doc(self.bins[split], sentence)
            counts[f"{split}/sentences"] += 1
            counts[f"{split}/words"] += sum(not token.is_space for token in sentence)
            for ent in sentence.ents:
                counts[f"{split}/mentions"] += 1
                counts[f"{split}/mention words"] += len(ent)
                counts[f"{split}/label/{ent.label_}"] += 1

    def write(self, folder: Path, number: int) -> None:
        """Write `train/00007.spacy` and so on. A split without sentences gets no file."""
        for split, docs in self.bins.items():
            if len(docs):
                path = folder / split / f"{chunk_name(number)}.spacy"
                path.parent.mkdir(exist_ok=True)
                replace_file(path, bin_bytes(docs))
