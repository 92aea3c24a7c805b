"""Measure how run time and memory grow with the length of documents and the size of a corpus.

Every point runs in its own process, so that its peak memory can be measured.
"""

import json
import statistics
from itertools import cycle, islice
from pathlib import Path
from typing import Annotated, Any

import typer
from wasabi import msg

from .machine import write_result
from .speed import RESULTS, ROOT
from .systems import Worker

LENGTHS = (10, 100, 1000, 10_000, 100_000)  # words of a document
SIZES = (1000, 4000, 16_000)  # sentences of a corpus
PROCESSES = (1, 2)  # with one thread each
SHARED_SIZE = 4000  # documents that they share
WORDS = 10_000  # shorter documents are repeated up to this number


def scale(
    model: Annotated[str, typer.Argument(help="A trained pipeline")],
    shared: Annotated[Path, typer.Option(help="Folder with notes/")] = ROOT / "../shared",
    output: Annotated[Path, typer.Option(help="Folder for the texts")] = ROOT / "training/scale",
    rounds: Annotated[int, typer.Option(help="Rounds per point")] = 5,
    longest: Annotated[int, typer.Option(help="Longest document, in words")] = LENGTHS[-1],
    results: Annotated[Path, typer.Option(help="Folder for figures and plot")] = RESULTS,
) -> None:
    """Measure words/s and memory on documents of 10 to 100,000 words, on corpora of several sizes,
    and in several processes."""
    from .scale_plot import draw_scale

    output = output.resolve()
    output.mkdir(parents=True, exist_ok=True)
    lines = (shared / "notes/notes.jsonl").read_text(encoding="utf8").splitlines()
    words = [word for line in lines for word in json.loads(line)["text"].split()]
    lengths = [n for n in LENGTHS if n <= longest]
    points = {("words", n): _documents(words, n, max(1, WORDS // n)) for n in lengths}
    points |= {("documents", n): _documents(words, 10, n) for n in SIZES}
    points |= {("processes", n): _documents(words, 20, SHARED_SIZE) for n in PROCESSES}
    found: dict[tuple[str, int], list[dict[str, float]]] = {}
    for _ in range(rounds):
        for key, texts in points.items():
            path = output / "texts.json"
            path.write_text(json.dumps(texts), encoding="utf8")
            settings = {"n_process": key[1], "threads": 1} if key[0] == "processes" else {}
            found.setdefault(key, []).append(_run(model, path, settings))
    rows = []
    for (axis, n), runs in found.items():
        count = sum(len(text.split()) for text in points[axis, n])
        rate = count / statistics.median(run["seconds"] for run in runs)
        row: dict[str, Any] = {"axis": axis, "n": n, "words_per_second": rate}
        if axis != "processes":  # the memory of other processes is not measured
            row["mb"] = statistics.median(run["mb"] for run in runs)
        rows.append(row)
    record = write_result(results / "scale.json", {"rounds": rounds, "rows": rows})
    draw_scale(record, results / "scale.png")
    labels = {
        "words": "documents of {:,} words",
        "documents": "{:,} documents of 10 words",
        "processes": "n_process={}, one thread each",
    }
    table = [
        (
            labels[row["axis"]].format(row["n"]),
            f"{row['words_per_second']:,.0f}",
            f"{row['mb']:,.0f}" if "mb" in row else "",
        )
        for row in rows
    ]
    header = ("", "words/s", "MB above the loaded model")
    msg.table(table, header=header, divider=True, aligns=("l", "r", "r"))


def _documents(words: list[str], length: int, number: int) -> list[str]:
    source = cycle(words)
    return [" ".join(islice(source, length)) for _ in range(number)]


def _run(model: str, texts: Path, settings: dict[str, int]) -> dict[str, float]:
    """Return the seconds of a stream of documents, and its memory above the loaded pipeline.

    The texts are read twice and the second run is timed, when all words are in the vocab.
    """
    worker = Worker("spacy pipeline", {"model": model, **settings})
    first = worker({"texts": str(texts)})
    second = worker({"texts": str(texts)})
    worker.close()
    return {"seconds": second["seconds"], "mb": first["mb"] - worker.loaded_mb}
