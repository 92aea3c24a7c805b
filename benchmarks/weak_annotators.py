"""Score every annotator, given the terms of the demo, on the annotated notes of the demo.

scispaCy gets the terms as a knowledge base, MedCAT as a model pack. scispaCy must be installed here
(extra `weak`), MedCAT in its own environment (`python -m spacy mslm weak medcat-setup FOLDER`).
"""

import csv
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer
from wasabi import msg

from spacy_mslm.tasks.configs import read_config
from spacy_mslm.text.terminology import read_terms
from spacy_mslm.weak.medcat_setup import OFFLINE, environment_python
from spacy_mslm.weak.scoring import ALL, VOTE, score_labels

from .machine import write_result

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results" / "weak_annotators.json"
# Runs in the environment of MedCAT. Arguments: a table of concepts, the folder for the pack. It
# uses the tokenizer of MedCAT, and finds names without any training.
MAKE_PACK = """
import sys
from medcat.cat import CAT
from medcat.config import Config
from medcat.model_creation.cdb_maker import CDBMaker
from medcat.vocab import Vocab

config = Config()
config.general.nlp.provider = "regex"
cdb = CDBMaker(config).prepare_csvs([sys.argv[1]])
cat = CAT(cdb=cdb, vocab=Vocab(), config=config)
cat.save_model_pack(sys.argv[2], pack_name="pack", only_archive=True, add_hash_to_pack_name=False)
"""


def weak_annotators(
    medcat: Annotated[Path, typer.Argument(help="Environment created by medcat-setup")],
    output: Annotated[Path, typer.Option(help="JSON file for the figures")] = RESULTS,
) -> None:
    """Score all annotators and their vote on the demo's notes; write and print P, R and F."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _python("scripts/demo_notes.py", str(folder))
        _python("-m", "spacy", "mslm", "convert", f"{folder}/truth.jsonl", f"{folder}/truth.spacy")
        settings = _settings(folder)
        settings["annotators"] |= {
            "scispacy": {
                "@misc": "spacy_mslm.scispacy_linker.v1",
                "kb": write_knowledge_base(folder),
            },
            "medcat": {
                "@misc": "spacy_mslm.medcat.v1",
                "model": make_pack(folder, medcat),
                "environment": str(medcat),
            },
        }
        scores = score_labels(settings, folder / "truth.spacy")
    told = {
        source: {
            label: [round(100 * x, 1) for x in (score.precision, score.recall, score.fscore)]
            for label, score in sorted(found.items(), key=lambda item: (item[0] != ALL, item[0]))
        }
        for source, found in scores.items()
    }
    write_result(output, {"scores": told})
    labels = list(told[VOTE])
    rows = [
        (source, *(" / ".join(map(str, found.get(label, ()))) for label in labels))
        for source, found in told.items()
    ]
    msg.table(rows, header=("P / R / F", *labels), divider=True)


def _settings(folder: Path) -> dict[str, Any]:
    paths = {
        "notes": folder / "notes.csv",
        "terms": folder / "terms.tsv",
        "patterns": folder / "patterns.tsv",
        "clusters": ROOT / "assets" / "semantic_types.yml",
    }
    overrides = {f"paths.{key}": str(path) for key, path in paths.items()}
    return read_config(ROOT / "configs" / "weak.cfg", overrides, block="labelling")["labelling"]


def write_knowledge_base(folder: Path) -> str:
    """Write the terms as a JSONL file for scispaCy."""
    path = folder / "kb.jsonl"
    with path.open("w", encoding="utf8") as file:
        for name, concept, semantic_type in read_terms(folder / "terms.tsv"):
            names = {"canonical_name": name, "aliases": []}
            record = {"concept_id": concept, **names, "types": [semantic_type]}
            file.write(json.dumps({**record, "definition": None}) + "\n")
    return str(path)


def make_pack(folder: Path, environment: Path) -> str:
    """Write the terms as a model pack of MedCAT."""
    table = folder / "concepts.csv"
    with table.open("w", encoding="utf8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("cui", "name", "type_ids"))
        for name, concept, semantic_type in read_terms(folder / "terms.tsv"):
            writer.writerow((concept, name, semantic_type))
    python = str(environment_python(environment).absolute())
    command = [python, "-I", "-c", MAKE_PACK, str(table), str(folder)]
    subprocess.run(command, check=True, env={**os.environ, **OFFLINE})
    return str(folder / "pack.zip")


def _python(*arguments: str) -> None:
    subprocess.run([sys.executable, *arguments], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
