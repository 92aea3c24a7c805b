"""Does cost grow straight with the length of a document and the size of a corpus, and memory not?

Every point is a process of its own: what it has had at most is its memory.
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
WORDS = 10_000  # of shorter documents there are as many as have so many words


def scale(
    model: Annotated[str, typer.Argument(help="A trained pipeline of ours")],
    shared: Annotated[Path, typer.Option(help="Folder with notes/")] = ROOT / "../shared",
    output: Annotated[Path, typer.Option(help="Where texts go")] = ROOT / "training/scale",
    rounds: Annotated[int, typer.Option(help="Of each point")] = 5,
    longest: Annotated[int, typer.Option(help="Of the documents, in words")] = LENGTHS[-1],
    results: Annotated[Path, typer.Option(help="Where figures and plot go")] = RESULTS,
) -> None:
    """Words/s and memory at documents of 10 to 100,000 words, corpora of growing size, and in more
    than one process."""
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
        if axis != "processes":  # the others' memory is not seen from here
            row["mb"] = statistics.median(run["mb"] for run in runs)
        rows.append(row)
    record = write_result(results / "scale.json", {"rounds": rounds, "rows": rows})
    draw_scale(record, results / "scale.png")
    labels = {
        "words": "documents of {:,} words",
        "documents": "{:,} documents of 10 words",
        "processes": "n_process={}, a thread each",
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
    """Seconds, and the memory above that of the loaded pipeline, of a stream that is thrown away.

    The same texts twice, and the second time counts: words are new once.
    """
    worker = Worker("spacy pipeline", {"model": model, **settings})
    first = worker({"texts": str(texts)})
    second = worker({"texts": str(texts)})
    worker.close()
    return {"seconds": second["seconds"], "mb": first["mb"] - worker.loaded_mb}
