"""Writing of labelled documents as shards of a corpus, one sentence per document, split by
patient."""

import hashlib
from collections import Counter
from pathlib import Path

from spacy.tokens import Doc, DocBin
from srsly.msgpack._packer import Packer

from ..corpus.formats.records import SPLITS
from ..text.sentences import sentence_docs
from ..util.files import replace_file

# DocBin packs user data with srsly, which searches all installed packages for plug-ins each time.
# At 1.4 ms per sentence, this would be most of the run time of labelling.
_PACKER = Packer(use_bin_type=True)
ATTRIBUTES = ("SPACY", "ENT_IOB", "ENT_TYPE", "ENT_KB_ID")


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
        self.bins = {split: DocBin(attrs=ATTRIBUTES) for split in SPLITS}
        self.counts: Counter[str] = Counter()

    def add(self, doc: Doc, split: str) -> None:
        """Add the sentences of a note that are not white space only."""
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
        """Write `train/00007.spacy` and so on. A split without sentences gets no file."""
        for split, docs in self.bins.items():
            if len(docs):
                docs.store_user_data = True
                path = folder / split / f"{number:05}.spacy"
                path.parent.mkdir(exist_ok=True)
                replace_file(path, docs.to_bytes())
