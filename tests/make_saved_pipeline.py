"""Write `tests/data/saved_pipeline`: a small pipeline, trained by `configs/mslm.cfg`, that later
versions must load.

    python -m tests.make_saved_pipeline

The stored copy was written by the code before the package was divided into subpackages (commit
f453820). Do not write it again after a change of the code: it shows that pipelines of users still
load and find the same entities.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import spacy
from spacy.tokens import DocBin

from .conftest import TEXTS, build_encoder, make_examples

FOLDER = Path(__file__).parent / "data" / "saved_pipeline"
CONFIG = Path(__file__).parents[1] / "configs" / "mslm.cfg"
OVERRIDES = {
    "vars.masking": "${maskings.pmi}",
    "vars.mask_weights": '{"@misc": "spacy_mslm.FixedWeights.v1", "blm": 0.3, "elm": 0.7}',
    "components.mslm.model.window": "40",
    "components.mslm.model.context": "8",
    "training.max_steps": "60",
    "training.eval_frequency": "60",
    "training.optimizer.learn_rate.rate": "0.01",
    "training.optimizer.head_learn_rate.rate": "0.01",
}


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        build_encoder(folder / "encoder", hidden_size=16, intermediate_size=32)
        corpus = folder / "corpus.spacy"
        DocBin(docs=[eg.reference for eg in make_examples(spacy.blank("en"))]).to_disk(corpus)
        (folder / "pmi.txt").write_text("3.5\t5\tthe patient\n", encoding="utf8")
        command = [sys.executable, "-m", "spacy", "train", str(CONFIG), "--output", str(folder)]
        overrides = {
            "paths.train": str(corpus),
            "paths.dev": str(corpus),
            "paths.pmi": str(folder / "pmi.txt"),
            "vars.encoder": str(folder / "encoder"),
            **OVERRIDES,
        }
        for name, value in overrides.items():
            command += [f"--{name}", value]
        subprocess.run(command, check=True)
        shutil.rmtree(FOLDER, ignore_errors=True)
        shutil.copytree(folder / "model-last", FOLDER)
    nlp = spacy.load(FOLDER)
    found = [
        [[e.start_char, e.end_char, e.label_, round(e._.confidence, 4)] for e in nlp(text).ents]
        for text, _ in TEXTS
    ]
    (FOLDER / "expected.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf8")


if __name__ == "__main__":
    main()
