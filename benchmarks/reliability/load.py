"""Threads, worker processes that are killed or not, and memory over many documents."""

import gc
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from spacy.language import Language

from spacy_mslm.pipeline.saving import safe_save

from .experiment import Run
from .hostile import BATCHES, answer, hostile_texts, label_settings, write_notes
from .kills import contents
from .parts import ROOT, SENTENCES, Row, Work

THREADS = 8
METHODS = ("fork", "spawn")
# Words of a document that occur in no other.
NEW_WORDS = 10
# Seconds in which a command has to notice that a worker was killed.
NOTICED = 30


def use_threads(work: Work) -> Run:
    """One pipeline in eight threads."""
    nlp = work.nlp
    texts = [text for text, _ in SENTENCES] + hostile_texts(20, seed=5, surrogates=False)
    expected = {text: answer(nlp(text)) for text in texts}

    def ask(seed: int, calls: int) -> int:
        draw = random.Random(seed)
        chosen = [draw.choice(texts) for _ in range(calls)]
        return sum(answer(nlp(text)) != expected[text] for text in chosen)

    def run(cases: range) -> list[Row]:
        calls = len(cases) // THREADS or 1
        with ThreadPoolExecutor(THREADS) as pool:
            seeds = range(cases.start, cases.start + THREADS)
            wrong = sum(pool.map(ask, seeds, [calls] * THREADS))
        n = THREADS * calls
        return [Row(f"{THREADS} threads", n, n - wrong, wrong=wrong)]

    return run


def use_processes(work: Work) -> Run:
    """One and two processes, forked and spawned, with several sizes of batches."""
    nlp = work.nlp

    def run(cases: range) -> list[Row]:
        texts = hostile_texts(len(cases), seed=cases.start + 6, surrogates=False)
        texts += [text for text, _ in SENTENCES]
        expected = [answer(nlp(text)) for text in texts]
        rows = []
        for method in METHODS:
            with _start_method(method):
                for size in BATCHES:
                    docs = nlp.pipe(texts, n_process=2, batch_size=size)
                    found = [answer(doc) for doc in docs]
                    wrong = sum(a != b for a, b in zip(found, expected, strict=False))
                    missing = len(texts) - len(found)
                    name = f"nlp.pipe, n_process 2 ({method}), batches of {size}"
                    lost, doubled = max(0, missing), max(0, -missing)
                    rows.append(Row(name, len(texts), len(found) - wrong, lost, doubled, wrong))
        return rows

    return run


@contextmanager
def _start_method(method: str) -> Iterator[None]:
    before = multiprocessing.get_start_method()
    multiprocessing.set_start_method(method, force=True)
    try:
        yield
    finally:
        multiprocessing.set_start_method(before, force=True)


# ---- workers that are killed ----


def kill_worker_of_annotate(work: Work) -> Run:
    """`annotate --jobs 2`."""
    folder = work.new("worker of annotate")
    safe_save(work.nlp, folder / "model")
    write_notes(folder / "notes.jsonl", _notes())
    arguments = ["annotate", str(folder / "model"), str(folder / "notes.jsonl")]
    return _kill_workers(
        "a worker killed in annotate --jobs 2",
        lambda out: [*arguments, str(out), "--chunk", "25", "--jobs", "2"],
        folder,
    )


def kill_worker_of_label(work: Work) -> Run:
    """`weak label --jobs 2`."""
    folder = work.new("worker of label")
    settings = label_settings(folder, _notes())
    flags = [part for key, value in settings.items() for part in (f"--{key}", str(value))]
    config = str(ROOT / "configs" / "weak.cfg")
    return _kill_workers(
        "a worker killed in weak label --jobs 2",
        lambda out: ["weak", "label", config, "--jobs", "2", *flags, "--paths.output", str(out)],
        folder,
    )


def _notes() -> list[str]:
    return [" ".join(text for text, _ in SENTENCES * 30) for _ in range(600)]


def _kill_workers(name: str, command: Callable[[Path], list[str]], folder: Path) -> Run:
    """A worker is killed as soon as some chunks are finished. The command has to say so in time, to
    end as if nothing had happened, and with the same bytes."""
    whole, out = folder / "whole", folder / "out"
    subprocess.run(_mslm(command(whole)), check=True, capture_output=True)
    expected = contents(whole)

    def run(cases: range) -> list[Row]:
        good = lost = 0
        for case in cases:
            for path in out.rglob("*"):
                path.unlink() if path.is_file() else None
            draw = random.Random(case)
            told, code = _run_and_kill(_mslm([*command(out), "--force"]), out, draw)
            same = code == 0 and contents(out) == expected
            good += told and same
            lost += not same
        n = len(cases)
        return [Row(name, n, good, lost, wrong=n - good - lost)]

    return run


def _mslm(arguments: list[str]) -> list[str]:
    return [sys.executable, "-m", "spacy", "mslm", *arguments]


def _run_and_kill(command: list[str], out: Path, draw: random.Random) -> tuple[bool, int]:
    """Run a command and kill one of its workers. Returns whether that was reported in time, and the
    exit code."""
    log = out.with_name("log.txt")
    with log.open("w") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file)
        wanted = draw.randint(1, 8)
        while process.poll() is None and len(list(out.glob("done/*.json"))) < wanted:
            time.sleep(0.005)
        workers = _workers_of(process.pid)
        start = time.monotonic()
        for pid in workers[:1]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        told = False
        while not told and process.poll() is None and time.monotonic() - start < NOTICED:
            time.sleep(0.05)
            told = "A worker died" in log.read_text(errors="replace")
        told = told or "A worker died" in log.read_text(errors="replace")
        try:
            return told and bool(workers), process.wait(600)
        except subprocess.TimeoutExpired:
            process.kill()
            return False, process.wait()


def _workers_of(pid: int) -> list[int]:
    """Return the ids of the spawned workers of a process (Linux only)."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            line = (path.parent / "cmdline").read_bytes()
            if parent == pid and b"spawn_main" in line:
                found.append(int(path.parent.name))
    return sorted(found)


# ---- memory ----


def grow(nlp: Language, total: int, whole: bool, samples: int = 20) -> list[tuple[int, int]]:
    """Process documents of new words in memory zones.

    Args:
        nlp: The pipeline.
        total: The number of documents.
        whole: Whether to run the pipeline, or spaCy's tokenizer and vocabulary only.
        samples: The number of measurements.

    Returns:
        The number of documents so far, and resident memory in kB.
    """
    draw = random.Random(7)
    measured = [(0, resident())]
    for start in range(0, total, 200):
        texts = [" ".join(_new_word(draw) for _ in range(NEW_WORDS)) for _ in range(200)]
        with nlp.memory_zone():
            docs = nlp.pipe(texts) if whole else map(nlp.make_doc, texts)
            for _ in docs:
                pass
        if start // 200 % max(1, total // 200 // samples) == 0 or start + 200 >= total:
            gc.collect()
            measured.append((start + 200, resident()))
    return measured


def _new_word(draw: random.Random) -> str:
    # 60 bits are never the same, and 32 letters are one character each.
    bits = draw.getrandbits(60)
    return "".join(chr(97 + (bits >> shift) % 26) for shift in range(0, 60, 6))


def slope(measured: list[tuple[int, int]]) -> float:
    """Return the growth of memory over the second half, in bytes per new word."""
    half = [point for point in measured if point[0] >= measured[-1][0] / 2]
    (first, before), (last, after) = half[0], half[-1]
    return 1024 * (after - before) / max(1, last - first) / NEW_WORDS


def resident() -> int:
    """Return the resident memory of this process in kB (Linux only)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("VmRSS"))
    return int(line.split()[1])


def soak(work: Work, total: int) -> dict[str, object]:
    """Measure memory over documents of new words, in a fork for each of spaCy alone and the whole
    pipeline, because memory that one of them has freed would hide the growth of the other."""
    found: dict[str, object] = {"documents": total}
    for name, whole in (("tokenizer", False), ("pipeline", True)):
        path = work.folder / f"{name}.json"
        process = multiprocessing.get_context("fork").Process(
            target=lambda path=path, whole=whole: path.write_text(
                json.dumps(grow(work.nlp, total, whole))
            )
        )
        process.start()
        process.join()
        points = [tuple(point) for point in json.loads(path.read_text())]
        found[name] = {"kb": points, "bytes_per_new_word": round(slope(points))}
    return found
