"""Write dev and test sets for en_mslm_mini from the corpora that its config names.

python scripts/mini_corpora.py configs/mini.cfg corpus/mini [SENTENCES]
    dev.spacy           all dev sets, with the types that each sentence is annotated with
    test/CORPUS.spacy   each test set, likewise, with the names of types in the pipeline
    SENTENCES           the maximum number of sentences of each corpus, drawn at random [all]
"""

import sys
from pathlib import Path

import spacy
from spacy.tokens import DocBin
from spacy.util import load_config, registry

from spacy_mslm.util.files import replace_file


def main(config: Path, folder: Path, limit: int) -> None:
    nlp = spacy.blank("en")
    corpora = load_config(config)["corpora"]["dev"]["corpora"]
    dev = DocBin(store_user_data=True)
    for name, settings in corpora.items():
        settings = {**settings, "limit": limit, "seed": 0}
        settings["path"] = str(folder / name / "dev.spacy")
        for example in read(nlp, settings):
            dev.add(example.reference)
        settings["path"] = str(folder / name / "test.spacy")
        test = DocBin(store_user_data=True, docs=[eg.reference for eg in read(nlp, settings)])
        (folder / "test").mkdir(exist_ok=True)
        replace_file(folder / "test" / f"{name}.spacy", test.to_bytes())
    replace_file(folder / "dev.spacy", dev.to_bytes())


def read(nlp, settings):
    return registry.resolve({"corpus": settings})["corpus"](nlp)


if __name__ == "__main__":
    limit = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    main(Path(sys.argv[1]), Path(sys.argv[2]), limit)
