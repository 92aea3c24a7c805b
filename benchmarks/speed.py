"""Measure words per second of `nlp.pipe` and of other systems on the same encoder and texts.

Every system has its own process. They take turns, so that a slow minute of the machine affects all
of them. Figures are medians over the rounds.
"""

import json
import random
import statistics
import subprocess
import sys
import venv
from pathlib import Path
from typing import Annotated, Any

import typer
from wasabi import msg

from .machine import write_result
from .reference import SPLITS, train
from .systems import Worker

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"
# Systems that cannot be installed in our environment.
ENVIRONMENTS = {
    "EDS-NLP": ["edsnlp[ml]==0.23.0", "torch<2.14"],
    "SpanMarker": ["span_marker==1.8.1", "transformers<4.50", "torch<2.14"],
}
STEPS = 60  # of training if no pipeline is given: enough to predict O for most words


def speed(
    shared: Annotated[Path, typer.Option(help="Folder with blurb/, notes/, encoders/")] = ROOT
    / "../shared",
    output: Annotated[Path, typer.Option(help="Folder for trained pipelines and texts")] = ROOT
    / "training/speed",
    model: Annotated[
        Path | None, typer.Option(help="A trained mslm pipeline [default: train one]")
    ] = None,
    encoder: Annotated[
        str, typer.Option(help="Encoder of all systems [default: the shared one]")
    ] = "",
    peers: Annotated[
        Path | None, typer.Option(help="Folder for environments of EDS-NLP and SpanMarker")
    ] = None,
    words: Annotated[int, typer.Option(help="Words of each kind of text")] = 6000,
    rounds: Annotated[int, typer.Option(help="Rounds over all systems")] = 5,
    results: Annotated[Path, typer.Option(help="Folder for figures and plot")] = RESULTS,
) -> None:
    """Measure all systems on sentences and on long notes; print words/s and ratios."""
    from .speed_plot import draw_speed

    output = output.resolve()
    output.mkdir(parents=True, exist_ok=True)
    encoder = encoder or str((shared / "encoders/biominilm").resolve())
    data = (shared / "blurb/ncbi_disease").resolve()
    ours = str(model or prepare_spacy("vanilla", data, encoder, output / "ours"))
    systems: dict[str, tuple[str, dict[str, Any], str]] = {
        "bare encoder": ("bare encoder", {"model": ours}, sys.executable),
        "spacy-mslm": ("spacy pipeline", {"model": ours}, sys.executable),
        "spacy-mslm, 1 thread": ("spacy pipeline", {"model": ours, "threads": 1}, sys.executable),
    }
    for mode in ("onnx", "onnx-int8"):
        optimised = str(prepare_optimised(ours, mode, data, output / mode))
        systems[f"spacy-mslm, {mode}"] = ("spacy pipeline", {"model": optimised}, sys.executable)
    transition = str(prepare_spacy("spacy_ner", data, encoder, output / "spacy_ner"))
    systems["spacy-transformers ner"] = ("spacy pipeline", {"model": transition}, sys.executable)
    classifier = str(prepare_hf(encoder, output / "hf"))
    systems["Hugging Face pipeline"] = ("hf pipeline", {"model": classifier}, sys.executable)
    cnn = str(prepare_cnn(data, output / "cnn"))
    systems["spaCy CNN ner"] = ("spacy pipeline", {"model": cnn}, sys.executable)
    for name in ENVIRONMENTS if peers is not None else ():
        assert peers is not None
        python = prepare_environment(name, peers.resolve())
        systems[name] = (name, {"encoder": encoder}, python)
    texts = {
        "sentences": write_sentences(data, words, output),
        "long notes": write_notes(shared / "notes/notes.jsonl", words, output),
    }
    found = measure(systems, texts, rounds)
    load = measure_loading(ours, encoder, 4 * rounds)  # it is short, and noisy
    figures = {"rounds": rounds, "words_per_second": found, "load_seconds": load}
    record = write_result(results / "speed.json", figures)
    draw_speed(record, results / "speed.png")
    for kind, rates in found.items():
        msg.divider(kind)
        base = rates["bare encoder"]
        peer, hf = rates["spacy-transformers ner"], rates["Hugging Face pipeline"]
        rows = [
            (name, f"{rate:,.0f}", *(f"{rate / other:.2f}" for other in (base, peer, hf)))
            for name, rate in rates.items()
        ]
        header = ("", "words/s", "to bare encoder", "to spacy-transformers", "to HF pipeline")
        msg.table(rows, header=header, divider=True, aligns=("l", *"rrrr"))
    ratio = load["spacy-mslm"] / load["transformers and a blank pipeline"]
    msg.info(f"spacy.load takes {ratio:.2f} × what transformers and a blank pipeline take")


def measure_loading(model: str, encoder: str, rounds: int) -> dict[str, float]:
    """Return the seconds to load a pipeline, and its encoder alone, without imports."""
    workers = {
        "spacy-mslm": Worker("load pipeline", {"model": model}),
        "transformers and a blank pipeline": Worker("load transformers", {"encoder": encoder}),
    }
    seconds: dict[str, list[float]] = {name: [] for name in workers}
    for turn in range(rounds + 1):
        for name, worker in workers.items():
            taken = worker({})["seconds"]
            if turn:
                seconds[name].append(taken)
    for worker in workers.values():
        worker.close()
    return {name: statistics.median(times) for name, times in seconds.items()}


def measure(
    systems: dict[str, tuple[str, dict[str, Any], str]], texts: dict[str, Path], rounds: int
) -> dict[str, dict[str, float]]:
    """Return the median words per second of each system on each kind of text."""
    workers = {name: Worker(*parts) for name, parts in systems.items()}
    seconds: dict[tuple[str, str], list[float]] = {}
    for turn in range(rounds + 1):
        for name, worker in workers.items():
            for kind, path in texts.items():
                taken = worker({"texts": str(path)})["seconds"]
                if turn:  # the first one warms up
                    seconds.setdefault((kind, name), []).append(taken)
    for worker in workers.values():
        worker.close()
    return {
        kind: {name: count_words(path) / statistics.median(seconds[kind, name]) for name in workers}
        for kind, path in texts.items()
    }


def count_words(path: Path) -> int:
    return sum(len(text.split()) for text in json.loads(path.read_text(encoding="utf8")))


# ---- texts ----


def write_sentences(data: Path, words: int, folder: Path) -> Path:
    from spacy_mslm.corpus.formats.iob import read_iob

    sentences = [" ".join(sentence.words) for sentence in read_iob(data / SPLITS["test"])]
    return _write_sample(sentences, words, folder / "sentences.json")


def write_notes(source: Path, words: int, folder: Path) -> Path:
    lines = source.read_text(encoding="utf8").splitlines()
    notes = [text for line in lines if len((text := json.loads(line)["text"]).split()) > 800]
    return _write_sample(notes, words, folder / "notes.json")


def _write_sample(texts: list[str], words: int, path: Path) -> Path:
    random.Random(0).shuffle(texts)
    chosen: list[str] = []
    while texts and sum(len(text.split()) for text in chosen) < words:
        chosen.append(texts.pop())
    path.write_text(json.dumps(chosen), encoding="utf8")
    return path


# ---- pipelines ----


def prepare_spacy(config: str, data: Path, encoder: str, folder: Path) -> Path:
    """Train a pipeline of a shipped config for a few steps, unless it exists."""
    ready = folder / "ready"  # spaCy saves a first model before it is trained
    if not ready.exists():
        steps = ["--training.max_steps", str(STEPS), "--training.eval_frequency", str(STEPS)]
        extra = [*steps, "--corpora.dev.limit", "50"]
        train(config, folder, data, Path(encoder), extra, limit=500)
        ready.touch()
    return folder / "model-last"


def prepare_optimised(model: str, mode: str, data: Path, folder: Path) -> Path:
    from spacy_mslm.tasks import Mode, optimize

    if not folder.exists():
        before, after = optimize(model, folder, Mode(mode), data / SPLITS["dev"], 100.0, False)
        msg.info(f"{mode}: F1 on dev {before.f:.2f} before, {after.f:.2f} after")
    return folder


def prepare_hf(encoder: str, folder: Path) -> Path:
    """Make a token classifier that predicts O only, which is the least work after the encoder."""
    if not folder.exists():
        import torch
        from transformers import AutoModelForTokenClassification, AutoTokenizer

        names = ["O", "B-Disease", "I-Disease"]
        model = AutoModelForTokenClassification.from_pretrained(
            encoder, id2label=dict(enumerate(names)), label2id={n: i for i, n in enumerate(names)}
        )
        with torch.no_grad():
            model.classifier.bias[0] = 20.0
        model.save_pretrained(folder)
        AutoTokenizer.from_pretrained(encoder, model_max_length=512).save_pretrained(folder)
    return folder


def prepare_cnn(data: Path, folder: Path) -> Path:
    """Train spaCy's `ner` with its own tok2vec for two epochs of 500 sentences."""
    if not folder.exists():
        import spacy
        from spacy.util import minibatch

        from spacy_mslm.corpus.readers import make_corpus

        nlp = spacy.blank("en")
        nlp.add_pipe("ner")
        examples = list(make_corpus(data / SPLITS["train"], limit=500, seed=0)(nlp))
        optimizer = nlp.initialize(lambda: examples)
        for _ in range(2):
            for batch in minibatch(examples, 16):
                nlp.update(batch, sgd=optimizer, drop=0.1)
        nlp.to_disk(folder)
    return folder


def prepare_environment(name: str, folder: Path) -> str:
    """Create a virtual environment with another system; return its Python."""
    home = folder / name.lower()
    python = home / "bin" / "python"
    if not (home / "ready").exists():
        venv.create(home, clear=True, with_pip=True)
        command = [str(python), "-m", "pip", "install", "-q", *ENVIRONMENTS[name]]
        subprocess.run(command, check=True)
        (home / "ready").touch()
    return str(python)
