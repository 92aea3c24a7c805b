"""The workflow `mini` at small scale: its config and script, on four corpora of a few sentences."""

from pathlib import Path

import pytest
import spacy
import srsly
from spacy.tokens import Doc, DocBin, Span

from ..commands import run_python, run_spacy

ROOT = Path(__file__).resolve().parents[2]
TEXT = "the patient had acute renal failure after cisplatin and aspirin ."
# The mentions that each corpus annotates, with its own names of types.
MENTIONS = {
    "ncbi_disease": [(3, 6, "Disease")],
    "bc5cdr": [(3, 6, "Disease"), (7, 8, "Chemical"), (9, 10, "Chemical")],
    "bc2gm": [(7, 8, "GENE")],
    "jnlpba": [(1, 2, "PRGE"), (2, 3, "CLTP"), (5, 6, "CLLN"), (7, 8, "DNA"), (9, 10, "RNA")],
}


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mini")
    vocab = spacy.blank("en").vocab
    for name, mentions in MENTIONS.items():
        (folder / name).mkdir()
        for split in ("train", "dev", "test"):
            doc = Doc(vocab, words=TEXT.split())
            doc.set_ents([Span(doc, *mention) for mention in mentions])
            DocBin(docs=[doc] * 4).to_disk(folder / name / f"{split}.spacy")
    script = ROOT / "scripts" / "mini_corpora.py"
    written = run_python(script, ROOT / "configs" / "mini.cfg", folder, 2)
    assert written.returncode == 0, written.stderr
    return folder


def test_sentences_are_marked_with_what_their_corpus_annotates(corpora: Path) -> None:
    vocab = spacy.blank("en").vocab
    dev = list(DocBin().from_disk(corpora / "dev.spacy").get_docs(vocab))
    assert len(dev) == 8
    (gene, *_) = DocBin().from_disk(corpora / "test" / "bc2gm.spacy").get_docs(vocab)
    assert list(gene._.annotated_labels) == ["Gene"]
    assert [(ent.start, ent.end, ent.label_) for ent in gene.ents] == [(7, 8, "Gene")]
    labels = {label for doc in dev for label in doc._.annotated_labels}
    assert labels == {
        *("Disease", "Chemical", "Gene", "Protein", "CellType", "CellLine", "DNA", "RNA")
    }


def test_train_calibrate_round_and_evaluate(corpora: Path, encoder: Path, tmp_path: Path) -> None:
    paths = [a for name in MENTIONS for a in (f"--paths.{name}", corpora / name)]
    trained = run_spacy(
        *("train", ROOT / "configs" / "mini.cfg", "--output", tmp_path / "pipeline", *paths),
        *("--vars.encoder", encoder, "--components.mslm.model.window", 40),
        *("--components.mslm.model.context", 8, "--training.max_steps", 60),
        *("--training.eval_frequency", 60, "--training.optimizer.learn_rate.rate", 0.001),
        *("--training.optimizer.head_learn_rate.rate", 0.01),
    )
    assert trained.returncode == 0, trained.stdout + trained.stderr
    best, calibrated, half = tmp_path / "pipeline" / "model-best", tmp_path / "c", tmp_path / "h"
    dev = corpora / "dev.spacy"
    for command in (
        ("calibrate", best, dev, "--output", calibrated),
        ("optimize", calibrated, half, "--mode", "half", "--dev", dev),
    ):
        done = run_spacy("mslm", *command)
        assert done.returncode == 0, done.stdout
    scores = tmp_path / "scores.json"
    test = corpora / "test" / "bc5cdr.spacy"
    assert run_spacy("evaluate", half, test, "--output", scores).returncode == 0
    # Genes, which this corpus does not annotate, are not counted as wrong.
    assert set(srsly.read_json(scores)["ents_per_type"]) == {"Disease", "Chemical"}
