"""Write the sentences of IOB files as text without labels, one per line.

python scripts/unlabelled_text.py corpus/bc2gm corpus/bc2gm/text.txt assets/jnlpba/train.tsv ...

Sentences of the corpus' dev and test sets are left out, even if they are tokenized differently:
several corpora annotate the same abstracts.
"""

import sys
from itertools import pairwise
from pathlib import Path

from spacy.tokens import DocBin
from spacy.vocab import Vocab
from wasabi import msg

from spacy_mslm.corpus.formats.iob import read_iob
from spacy_mslm.text.plain_texts import letters
from spacy_mslm.text.sentences import sentence_starts
from spacy_mslm.util.files import replace_file


def main(corpus: Path, target: Path, sources: list[Path]) -> None:
    vocab = Vocab()
    held_out = {
        letters(doc[start:end].text)
        for split in ("dev", "test")
        for doc in DocBin().from_disk(corpus / f"{split}.spacy").get_docs(vocab)
        for start, end in pairwise([*sentence_starts(doc).tolist(), len(doc)])
    }
    texts = (" ".join(sentence.words) for path in sources for sentence in read_iob(path))
    lines = {letters(text): text for text in texts}  # each once
    kept = [text for key, text in lines.items() if key not in held_out]
    replace_file(target, ("\n".join(kept) + "\n").encode("utf8"))
    msg.good(f"{target}: {len(kept)} sentences ({len(lines) - len(kept)} of dev and test left out)")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), [Path(path) for path in sys.argv[3:]])
