"""Load the server of `spacy mslm serve` with 1, 8 and 64 clients, beside plain `nlp` calls.

The server is the real command in a process of its own, on a port of this machine. Each client sends
one note after the other over one connection. Clients run in this process, and share its processor
with the server. Plain calls are measured while the server is idle, before and after, in this
process, with the same number of threads of torch.

Time of the clock depends on what else the machine does. Processor time of the server, from its own
`/metrics`, hardly does, so it is compared, too.
"""

import http.client
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from spacy.language import Language
from wasabi import msg

from spacy_mslm.pipeline.loading import load_pipeline

from .machine import write_result

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results" / "serve.json"
CLIENTS = (1, 8, 64)
# Figures of /metrics that are read before and after a load.
CPU, BATCHES, READ = "process_cpu_seconds_total", "mslm_batch_requests_count", "mslm_texts_total"
MEMORY = "process_resident_memory_bytes"


def serve(
    model: Annotated[str, typer.Argument(help="Pipeline")],
    notes: Annotated[Path, typer.Option(help="Notes, JSON lines")] = ROOT
    / "assets/written_notes.jsonl",
    seconds: Annotated[float, typer.Option(help="Length of each load", max=20)] = 15.0,
    output: Annotated[Path, typer.Option(help="JSON file for the figures")] = RESULTS,
) -> None:
    """Measure requests per second, their latency, processor time and memory of the server."""
    texts = [json.loads(line)["text"] for line in notes.read_text("utf8").splitlines()]
    nlp = load_pipeline(model)
    rows: dict[str, dict[str, Any]] = {}
    with run_server(model) as port:
        call_server(port, texts[:8])  # the first calls allocate
        call_plain(nlp, texts[:8])
        rows["nlp(text), before"] = call_plain(nlp, texts, seconds)
        for clients in CLIENTS:
            rows[f"{clients} clients"] = load_server(port, texts, clients, seconds)
        rows["nlp(text), after"] = call_plain(nlp, texts, seconds)
    words = float(np.mean([len(text.split()) for text in texts]))
    write_result(output, {"words_per_note": words, "seconds": seconds, "rows": rows})
    header = ("", "requests/s", "p50 ms", "p99 ms", "CPU ms/note", "notes/batch", "memory MB")
    table = [
        (
            name,
            f"{row['per_second']:.1f}",
            *(f"{1000 * row[key]:.1f}" for key in ("p50", "p99", "cpu")),
            f"{row['batch']:.1f}" if "batch" in row else "",
            f"{row['memory'] / 1e6:.0f}" if "memory" in row else "",
        )
        for name, row in rows.items()
    ]
    msg.table(table, header=header, divider=True, aligns=("l", *"rrrrrr"))


@contextmanager
def run_server(model: str) -> Iterator[int]:
    """Run the command on a free port; yields the port."""
    command = [sys.executable, "-u", "-m", "spacy", "mslm", "serve", model, "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        found = (re.search(r"http://127\.0\.0\.1:(\d+)/", line) for line in process.stdout)
        port = next((int(match[1]) for match in found if match), None)
        if port is None:
            raise OSError(f"The server did not start: {' '.join(command)}")
        yield port
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()


def call_plain(nlp: Language, texts: list[str], seconds: float = 0.0) -> dict[str, Any]:
    """Call the pipeline with one text after the other, at least once with each."""
    start_cpu = time.process_time()

    def call(text: str) -> None:
        with nlp.memory_zone():
            nlp(text)

    start = time.perf_counter()
    times = repeat(call, texts, seconds)
    wall = time.perf_counter() - start
    return {**_latencies(times, wall), "cpu": (time.process_time() - start_cpu) / len(times)}


def load_server(port: int, texts: list[str], clients: int, seconds: float) -> dict[str, Any]:
    """Let several clients send texts at the same time."""
    before = read_metrics(port)
    start = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        jobs = [
            pool.submit(call_server, port, texts[n % len(texts) :] + texts, seconds)
            for n in range(clients)
        ]
        times = [t for job in jobs for t in job.result()]
    wall = time.perf_counter() - start
    after = read_metrics(port)
    change = {name: after[name] - before[name] for name in (CPU, BATCHES, READ)}
    return {
        **_latencies(times, wall),
        "cpu": change[CPU] / change[READ],
        "batch": change[READ] / change[BATCHES],
        "memory": after[MEMORY],
    }


def call_server(port: int, texts: list[str], seconds: float = 0.0) -> list[float]:
    """Send texts over one connection; returns the time of each request."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)

    def call(text: str) -> None:
        body = json.dumps({"texts": [text]})
        connection.request("POST", "/v1/entities", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        content = json.load(answer)
        if answer.status != 200:
            raise OSError(f"The server answered {answer.status}: {content['detail']}")

    times = repeat(call, texts, seconds)
    connection.close()
    return times


def repeat(call: Callable[[str], None], texts: list[str], seconds: float) -> list[float]:
    """Call a function with texts until the time is over; without a time, once with each."""
    end = time.perf_counter() + seconds
    times = []
    for text in cycle(texts) if seconds else texts:
        start = time.perf_counter()
        call(text)
        times.append(time.perf_counter() - start)
        if seconds and time.perf_counter() > end:
            break
    return times


def read_metrics(port: int) -> dict[str, float]:
    """Return the figures of the server that have no labels."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    return {name: float(value) for name, value in re.findall(r"^(\w+) (\S+)$", text, re.MULTILINE)}


def _latencies(times: list[float], wall: float) -> dict[str, Any]:
    p50, p99 = np.quantile(times, [0.5, 0.99]).tolist()
    return {
        "requests": len(times),
        "per_second": len(times) / wall,
        "p50": p50,
        "p99": p99,
    }
