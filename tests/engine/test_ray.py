"""The same commands on a real Ray cluster of two nodes, one of which is killed."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from spacy_mslm.engine.place import Engine
from spacy_mslm.tasks import annotate, label, sweep
from spacy_mslm.util.locks import read_lines

from ..commands import run_python
from ..tasks.sweeping.specs import LEARNING, write_spec
from ..tasks.test_annotate import NO_MASKS, contents, make_texts, write_jsonl

pytest.importorskip("ray", reason="needs the extra ray")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A cluster whose head takes no work, with two nodes that do."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_worker_niceness", "0")  # by default, others have priority
    # Nor are workers killed because others use the memory of the machine.
    monkeypatch.setenv("RAY_memory_monitor_refresh_ms", "0")
    from ray.cluster_utils import Cluster

    memory = {"object_store_memory": 80 * 2**20}
    head = {"num_cpus": 0, "include_dashboard": False, **memory}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        for _ in range(2):
            cluster.add_node(num_cpus=1, **memory)
        yield cluster
    finally:
        cluster.shutdown()


def finished_chunks(folder: Path) -> int:
    return len(list((folder / "done").glob("*.json")))


def finished_trials(folder: Path) -> int:
    return len(read_lines(folder / "results.jsonl"))


def kill_node(
    cluster: Any, folder: Path, finished: int, count: Callable[[Path], int] = finished_chunks
) -> threading.Thread:
    """Kill a node when some chunks are finished."""

    def watch() -> None:
        until = time.monotonic() + 1800
        while count(folder) < finished:
            time.sleep(0.02)
            if time.monotonic() > until:
                return
        node = sorted(cluster.worker_nodes, key=lambda node: node.node_id)[0]
        cluster.remove_node(node, allow_graceful=False)

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


@pytest.fixture(scope="module")
def model(train_once, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("model") / "nlp"
    train_once(60, **NO_MASKS).to_disk(path)
    return path


def test_annotation_survives_a_node(model, cluster, tmp_path):
    documents = {f"n{i}": text for i, text in enumerate(make_texts(600))}
    notes = write_jsonl(tmp_path / "notes.jsonl", documents)
    annotate(str(model), notes, tmp_path / "local", chunk=5, jobs=1)
    ray = {"engine": Engine.ray, "address": cluster.address}
    killer = kill_node(cluster, tmp_path / "ray", finished=10)
    found = annotate(str(model), notes, tmp_path / "ray", chunk=5, **ray)
    killer.join()
    assert found.documents == 600 and found.failed == 0
    assert contents(tmp_path / "ray") == contents(tmp_path / "local")
    # The message about a missing pipeline is the same as without Ray.
    with pytest.raises(ValueError, match="There is no pipeline"):
        annotate("nothing", notes, tmp_path / "other", **ray)


def test_labelling_survives_a_node(cluster, tmp_path):
    run_python(ROOT / "scripts/demo_notes.py", tmp_path).check_returncode()
    settings = {
        "paths.notes": str(tmp_path / "notes.csv"),
        "paths.terms": str(tmp_path / "terms.tsv"),
        "paths.patterns": str(tmp_path / "patterns.tsv"),
        "paths.clusters": str(ROOT / "assets" / "semantic_types.yml"),
        "labelling.chunk": 3,
    }
    config = ROOT / "configs" / "weak.cfg"
    label(config, {**settings, "paths.output": str(tmp_path / "local")})
    killer = kill_node(cluster, tmp_path / "ray", finished=5)
    output = {"paths.output": str(tmp_path / "ray")}
    label(config, {**settings, **output}, engine=Engine.ray, address=cluster.address)
    killer.join()
    assert contents(tmp_path / "ray") == contents(tmp_path / "local")


@pytest.mark.timeout(3600)
def test_a_sweep_survives_a_node(cluster, tmp_path):
    grid = {"training.dropout": [0.0, 0.1, 0.2]}
    settings = {"config": str(ROOT / "configs" / "vanilla.cfg"), "grid": grid}
    spec = write_spec(tmp_path, seeds=[0, 1, 2, 3], overrides=LEARNING, **settings)
    killer = kill_node(cluster, tmp_path / "ray", 3, finished_trials)
    swept = sweep(spec, tmp_path / "ray", engine=Engine.ray, address=cluster.address)
    killer.join()
    assert len(cluster.worker_nodes) == 1
    assert swept.trials == 12 and not swept.failures
    rows = read_lines(swept.path)
    assert len({(row["trial"], row["seed"]) for row in rows}) == len(rows) == 12
    # Each training ended once, though that of the dead node was begun twice.
    logs = [path.read_text("utf8") for path in (tmp_path / "ray").glob("*/train.log")]
    assert [log.count("Saved pipeline") for log in logs] == [1] * 12
    local = sweep(spec, tmp_path / "local", threads=1, jobs=2)
    assert scores(rows) == scores(read_lines(local.path))
    assert len({row["ece"] for row in rows}) == 12


def scores(rows: list[dict]) -> dict:
    """All that does not depend on the time, by trial and seed."""
    changing = ("cpu_seconds", "adaptation_cpu_seconds", "machine")
    return {
        (row["trial"], row["seed"]): {k: v for k, v in row.items() if k not in changing}
        for row in rows
    }


def test_ray_starts_on_this_machine_alone(model, tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_worker_niceness", "0")
    monkeypatch.setenv("RAY_ADDRESS", "local")  # and no cluster of others on this machine
    documents = {f"n{i}": text for i, text in enumerate(make_texts(20))}
    notes = write_jsonl(tmp_path / "notes.jsonl", documents)
    annotate(str(model), notes, tmp_path / "local", chunk=5, jobs=1)
    annotate(str(model), notes, tmp_path / "ray", chunk=5, jobs=1, engine=Engine.ray)
    assert contents(tmp_path / "ray") == contents(tmp_path / "local")


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("127.0.0.1:1", "No Ray cluster answers at 127.0.0.1:1"),
        ("ray://127.0.0.1:10001", "is not the address of a Ray cluster"),
        ("head", "is not the address of a Ray cluster"),
    ],
)
def test_a_cluster_that_does_not_answer_is_told_at_once(tmp_path, address, message):
    """Before pipeline, notes and terms, which do not exist here, are read."""
    start = time.monotonic()
    ray = {"engine": Engine.ray, "address": address}
    with pytest.raises(ValueError, match=message):
        annotate("none", tmp_path / "notes.jsonl", tmp_path / "out.jsonl", **ray)
    settings = {"paths.notes": "none", "paths.terms": "none", "paths.clusters": "none"}
    config = ROOT / "configs" / "weak.cfg"
    with pytest.raises(ValueError, match=message):
        label(config, {**settings, "paths.output": str(tmp_path / "out")}, **ray)
    with pytest.raises(ValueError, match=message):
        sweep(tmp_path / "spec.yml", tmp_path / "out", **ray)
    assert time.monotonic() - start < 120
    assert not list(tmp_path.iterdir())
