"""Workers on a Ray cluster: actors, each of which prepares the work once. Nodes have the package
installed and see input and output under the same paths, on a shared file system.

Plain actors and not Ray Data: the shards already are a checkpoint that the local engine has, too,
and Ray Data would need pyarrow for every kind of output.
"""

import contextlib
import os
import socket
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from .chunks import Chunk, Start, Work
from .local import begin
from .schedule import Worker, WorkerLost

CONNECT = 10.0  # seconds
# Enough for the chunks under way, and small enough to stay in memory: nothing is written to disk.
OBJECT_STORE = 256 * 2**20


class RayWorkers:
    """Actors on a Ray cluster. Use it as a context: it connects, and disconnects at the end.

    Args:
        number: The number of actors. None for as many as fit.
        address: Host and port of the head, see `Place`.
        gpus: The number of GPUs of each actor.
        chunks: The number of chunks, above which actors would have nothing to do.

    Raises:
        ImportError: If the extra `ray` is not installed.
    """

    attempts = 5  # also if nodes fail again and again
    patience = 600.0  # a cluster may have to start machines first

    def __init__(self, number: int | None, address: str | None, gpus: float, chunks: int) -> None:
        try:
            import ray
        except ImportError as err:
            raise ImportError(
                f"The engine ray needs Ray ({err}). Install it with 'pip install "
                '"spacy-mslm[ray]"\'.'
            ) from err
        self.ray = ray
        self.number = number or 0  # until the cluster is known
        self.chunks = chunks
        self.address = address
        self.gpus = gpus

    def __enter__(self) -> "RayWorkers":
        self.connected = not self.ray.is_initialized()
        if self.connected:
            _connect(self.ray, self.address)
        try:
            self.number = min(self.number or self._fitting(), self.chunks)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self.connected:
            self.ray.shutdown()

    def _fitting(self) -> int:
        """Return how many actors fit on the cluster."""
        found = self.ray.cluster_resources()
        cpus, gpus = found.get("CPU", 0), found.get("GPU", 0)
        fitting = int(min(cpus, gpus / self.gpus) if self.gpus else cpus)
        if not fitting:
            raise ValueError(
                f"No process fits on the Ray cluster, which has {cpus:g} CPUs and {gpus:g} GPUs. "
                "Add nodes, or change --gpus."
            )
        return fitting

    def start(self, start: Start) -> Worker:
        """Start an actor, on another node than the last one if possible."""
        actor = self.ray.remote(_Actor).options(
            num_cpus=1, num_gpus=self.gpus, max_restarts=0, scheduling_strategy="SPREAD"
        )
        return _Remote(self.ray, actor.remote(), start, bool(self.gpus))


def _connect(ray: Any, address: str | None) -> None:
    # No statistics are sent to the makers of Ray.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    given = address or os.environ.get("RAY_ADDRESS")
    options: dict[str, Any] = {"logging_level": "error", "log_to_driver": False}
    if given and given not in ("auto", "local"):
        check_address(given)
    alone = {"include_dashboard": False, "object_store_memory": OBJECT_STORE, **options}
    try:
        try:
            # Without an address, a cluster that runs on this machine is used, if there is one.
            ray.init(address=given or "auto", **(alone if given == "local" else options))
        except ConnectionError:
            if given:
                raise
            ray.init(address="local", **alone)
    except (ConnectionError, RuntimeError, TimeoutError) as err:
        reason = next((line for line in str(err).splitlines() if line.strip()), type(err).__name__)
        raise ValueError(
            f"Could not connect to the Ray cluster {given or 'on this machine'} "
            f"({reason.rstrip('.')}). Check that Ray runs there ('ray status' on its head) and "
            "that all machines have the same versions of Ray and Python."
        ) from None


def check_address(address: str) -> None:
    """Check that the head of a cluster answers, which Ray tries for minutes.

    Raises:
        ValueError: If the address is not one, or nothing answers there.
    """
    host, _, port = address.rpartition(":")
    if "//" in address or not host or not port.isdigit():
        raise ValueError(
            f"{address} is not the address of a Ray cluster. Give host and port of its head, such "
            "as 10.0.0.1:6379, and run the command on a machine of the cluster."
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT).close()
    except (OSError, OverflowError) as err:
        raise ValueError(
            f"No Ray cluster answers at {address} ({err}). Check that it runs ('ray status' on its "
            "head) and that this machine can reach the port."
        ) from None


class _Remote:
    """An actor, as the scheduler sees it."""

    def __init__(self, ray: Any, actor: Any, start: Start, gpu: bool) -> None:
        self.ray = ray
        self.actor = actor
        self.ready = self._future(actor.begin.remote(start, str(Path.cwd()), gpu))

    def submit(self, chunk: Chunk) -> Future:
        return self._future(self.actor.process.remote(chunk))

    def stop(self) -> None:
        with contextlib.suppress(Exception):  # it may be dead
            self.ray.kill(self.actor)

    def _future(self, reference: Any) -> Future:
        """Return a future that raises WorkerLost for errors of the cluster, and those of our own
        code as they are."""
        result: Future = Future()
        errors = self.ray.exceptions

        def copy(done: Future) -> None:
            error = done.exception()
            if error is None:
                result.set_result(done.result())
            elif isinstance(error, errors.RayTaskError):
                result.set_exception(error.cause if error.cause is not None else error)
            elif isinstance(error, errors.RayError):
                result.set_exception(WorkerLost(type(error).__name__))
            else:
                result.set_exception(error)

        reference.future().add_done_callback(copy)
        return result


# ---- in an actor ----


class _Actor:
    def begin(self, start: Start, folder: str, gpu: bool) -> None:
        """Prepare the work. Paths are relative to the folder of the command."""
        if not Path(folder).is_dir():
            raise ValueError(
                f"The folder {folder} does not exist on the node {socket.gethostname()}. The "
                "nodes of a cluster need the same folders, on a shared file system."
            )
        os.chdir(folder)
        if gpu:
            import spacy

            spacy.require_gpu()  # Ray shows the process only its own GPU
        self.work: Work = begin(start)

    def process(self, chunk: Chunk) -> Any:
        """Process a chunk."""
        return self.work(chunk)
