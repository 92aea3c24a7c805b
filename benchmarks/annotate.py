"""Measure `annotate`: speed beside plain `nlp.pipe`, memory over documents with new words, runs
that are killed at random moments, and a Ray cluster whose nodes are killed."""

import hashlib
import json
import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer
from wasabi import msg

from .machine import write_result
from .weak_labels import CLUSTERS, ROOT

RESULTS = Path(__file__).parent / "results" / "annotate.json"
SHORT = 300  # characters of a note, where many notes are needed
STORE = 80 * 2**20


def annotate(
    model: Annotated[str, typer.Argument(help="Pipeline")],
    notes: Annotated[Path, typer.Argument(help="Notes, JSON lines")],
    documents: Annotated[int, typer.Option(help="Notes to annotate, for the speed")] = 200,
    rounds: Annotated[int, typer.Option(help="Rounds, for the speed")] = 3,
    new_words: Annotated[int, typer.Option(help="Documents with new words")] = 20_000,
    kills: Annotated[int, typer.Option(help="Kills (SIGKILL) at random moments")] = 5,
    node_kills: Annotated[int, typer.Option(help="Nodes of a Ray cluster to kill")] = 0,
    on_ray: Annotated[int, typer.Option(help="Notes to annotate on Ray")] = 2_000,
    terms: Annotated[Path | None, typer.Option(help="Terms, to label notes on Ray as well")] = None,
    labelled: Annotated[int, typer.Option(help="Notes to label on Ray")] = 500,
    output: Annotated[Path, typer.Option(help="JSON file for the figures")] = RESULTS,
) -> None:
    """Measure, and write and print the figures. A measurement with the size 0 is left out and keeps
    its stored figures."""
    # Ray gives its workers a low priority, with which they would wait for others on a busy machine.
    os.environ.update(OMP_NUM_THREADS="1", RAY_USAGE_STATS_ENABLED="0", RAY_worker_niceness="0")
    figures = json.loads(output.read_text()) if output.exists() else {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if documents and rounds:
            figures["speed"] = measure_speed(model, notes, documents, rounds, folder)
        if new_words:
            figures["memory"] = measure_memory(model, new_words, folder)
        if kills:
            figures["kills"] = measure_kills(model, notes, documents, kills, folder)
        if node_kills and on_ray:
            figures["ray"] = measure_ray(model, notes, on_ray, node_kills, folder)
        if node_kills and labelled and terms is not None:
            figures["ray_labels"] = measure_ray_labels(notes, terms, labelled, node_kills, folder)
    figures.pop("machine", None)
    write_result(output, figures)
    for name, found in figures.items():
        msg.text(f"{name}: {found}")


def write_notes(source: Path, n: int, path: Path, characters: int | None = None) -> Path:
    """Repeat notes with new ids until there are `n`."""
    lines = source.read_text(encoding="utf8").splitlines()
    with path.open("w", encoding="utf8") as file:
        for i in range(n):
            text = json.loads(lines[i % len(lines)])["text"][:characters]
            file.write(json.dumps({"id": f"n{i}", "subject_id": i // 3, "text": text}) + "\n")
    return path


# ---- speed and memory ----


def measure_speed(model: str, source: Path, n: int, rounds: int, folder: Path) -> dict[str, Any]:
    """Time `annotate` and plain spaCy (load, read, `nlp.pipe`) in turn, in one process and thread.

    Processor time is compared: on a machine with other work it is steadier than the clock.
    """
    path = write_notes(source, n, folder / "speed.jsonl")
    times: dict[str, list[tuple[float, float]]] = {"annotate": [], "nlp.pipe": []}
    for turn in range(rounds + 1):
        for name, call in (
            ("annotate", partial(_annotate, model, path, folder / f"speed{turn}.jsonl")),
            ("nlp.pipe", partial(_pipe, model, path)),
        ):
            start = time.perf_counter(), time.process_time()
            call()
            if turn:  # the first one warms up
                taken = time.perf_counter() - start[0], time.process_time() - start[1]
                times[name].append(taken)
    seconds = {
        name: [median(column) for column in zip(*own, strict=True)] for name, own in times.items()
    }
    return {
        "model": Path(model).name,
        "documents": n,
        "rounds": rounds,
        "documents_per_cpu_second": {k: round(n / own[1], 2) for k, own in seconds.items()},
        "to_nlp_pipe": round(seconds["nlp.pipe"][1] / seconds["annotate"][1], 3),
        "to_nlp_pipe_by_the_clock": round(seconds["nlp.pipe"][0] / seconds["annotate"][0], 3),
    }


def _annotate(model: str, path: Path, output: Path, **options: Any) -> None:
    from spacy_mslm import tasks

    tasks.annotate(model, path, output, **{"jobs": 1, **options})


def _pipe(model: str, path: Path) -> None:
    import spacy
    import torch

    torch.set_num_threads(1)
    nlp = spacy.load(model)
    texts = (json.loads(line)["text"] for line in path.open(encoding="utf8"))
    for _ in nlp.pipe(texts):
        pass


def measure_memory(model: str, n: int, folder: Path) -> dict[str, Any]:
    """Record the memory of a process that annotates short documents with new words."""
    generator = random.Random(0)
    path = folder / "words.jsonl"
    with path.open("w") as file:
        for i in range(n):
            new = ["".join(generator.choices("abcdefghijklmnop", k=8)) for _ in range(4)]
            text = " ".join(["the patient had", *new, "after it ."])
            file.write(json.dumps({"id": i, "text": text}) + "\n")
    output = folder / "words"
    process = get_context("fork").Process(target=_annotate, args=(model, path, output))
    process.start()
    resident: dict[int, int] = {}
    while process.is_alive():
        done = 1000 * len(list((output / "done").glob("*.json")))
        if done not in resident and (memory := _resident(process.pid)):
            resident[done] = memory
        time.sleep(0.05)
    assert process.exitcode == 0
    at = {
        f"{share:.0%}": resident[min(resident, key=lambda d: abs(d - share * n))]
        for share in (0.1, 0.25, 0.5, 0.75, 0.99)
    }
    return {"documents": n, "new_words": 4 * n, "resident_mb_at": at}


def _resident(pid: int | None) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20)


# ---- interruptions ----


def digests(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def measure_kills(model: str, source: Path, n: int, kills: int, folder: Path) -> dict[str, Any]:
    """Kill runs at random moments, and start again where they stopped. Runs that finish are
    compared with one that was not killed."""
    path = write_notes(source, n, folder / "kills.jsonl", SHORT)
    expected, output = folder / "expected", folder / "killed"
    start = time.perf_counter()
    _run(partial(_annotate, model, path, expected, chunk=max(n // 20, 1)))
    seconds = time.perf_counter() - start
    generator = random.Random(0)
    done = same = finished = 0
    while done < kills or output.exists():
        wait = generator.uniform(0, seconds) if done < kills else None
        if _run(partial(_annotate, model, path, output, chunk=max(n // 20, 1)), wait):
            finished += 1
            same += digests(output) == digests(expected)
            shutil.rmtree(output)
        else:
            done += 1
    once = _ids(expected) == [f"n{i}" for i in range(n)]
    runs = {"kills": done, "finished": finished, "same_bytes": same}
    return {"documents": n, **runs, "each_document_once": once}


def _run(call: Callable[[], None], seconds: float | None = None) -> bool:
    """Run a function in a process, killed after some seconds. Returns whether it finished."""
    process = get_context("fork").Process(target=call)
    process.start()
    process.join(seconds)
    if process.is_alive():
        process.kill()
        process.join()
        return False
    if process.exitcode:
        raise RuntimeError("A run has failed.")
    return True


def _ids(folder: Path) -> list[str]:
    shards = sorted((folder / "rows").glob("*.jsonl"))
    return [json.loads(line)["id"] for shard in shards for line in shard.open(encoding="utf8")]


# ---- Ray ----


def measure_ray(model: str, source: Path, n: int, kills: int, folder: Path) -> dict[str, Any]:
    """Annotate on a cluster of two nodes, which are killed one after another."""
    path = write_notes(source, n, folder / "ray.jsonl", SHORT)
    expected, output = folder / "local", folder / "ray"
    _run(partial(_annotate, model, path, expected, chunk=100))
    found = _on_cluster(partial(_annotate, model, path, output, chunk=100), output, expected, kills)
    once = _ids(expected) == [f"n{i}" for i in range(n)]
    return {"documents": n, **found, "each_document_once": once}


def measure_ray_labels(
    source: Path, terms: Path, n: int, kills: int, folder: Path
) -> dict[str, Any]:
    """Label on such a cluster."""
    path = write_notes(source, n, folder / "labels.jsonl", SHORT)
    (folder / "types.yml").write_text(CLUSTERS)
    call = partial(_label, path, terms, folder / "types.yml")
    expected, output = folder / "local_labels", folder / "ray_labels"
    _run(partial(call, expected))
    return {"documents": n, **_on_cluster(partial(call, output), output, expected, kills)}


def _label(path: Path, terms: Path, clusters: Path, output: Path, **options: Any) -> None:
    from spacy_mslm import tasks

    paths = {"notes": path, "terms": terms.resolve(), "clusters": clusters, "output": output}
    settings = {f"paths.{name}": str(value) for name, value in paths.items()}
    config = ROOT / "configs" / "weak.cfg"
    tasks.label(config, {**settings, "labelling.chunk": 50}, **{"jobs": 1, **options})


def _on_cluster(
    call: Callable[..., None], output: Path, expected: Path, kills: int
) -> dict[str, Any]:
    """Run on a cluster of two nodes while nodes are killed, and compare with the local run."""
    from spacy_mslm.tasks import Engine

    generator = random.Random(0)
    chunks = _finished(expected)
    moments = sorted(generator.choices(range(chunks - 1), k=kills))
    killed: list[int] = []
    with _cluster() as cluster:
        # Nodes can only be added in the main thread, so the run has a process of its own.
        ray = {"engine": Engine.ray, "address": cluster.address, "jobs": None}
        process = get_context("spawn").Process(target=partial(call, **ray))
        process.start()
        for moment in moments:
            done = 0
            while process.is_alive() and (done := _finished(output)) < moment:
                time.sleep(0.01)
            time.sleep(generator.uniform(0, 1))
            if process.is_alive():
                nodes = sorted(cluster.worker_nodes, key=lambda node: node.node_id)
                cluster.remove_node(generator.choice(nodes), allow_graceful=False)
                cluster.add_node(num_cpus=1, object_store_memory=STORE)
                killed.append(done)
        process.join()
    same = digests(output) == digests(expected)
    return {"chunks": chunks, "nodes_killed_after_chunks": killed, "same_bytes": same}


@contextmanager
def _cluster() -> Iterator[Any]:
    """A head without work, and two nodes."""
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": STORE}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        for _ in range(2):
            cluster.add_node(num_cpus=1, object_store_memory=STORE)
        yield cluster
    finally:
        cluster.shutdown()


def _finished(output: Path) -> int:
    return len(list((output / "done").glob("[0-9]*.json")))
