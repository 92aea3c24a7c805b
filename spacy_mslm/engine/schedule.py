"""Chunks are given to workers, and those of workers that died to others.

    chunks ──> worker ──> result
      ↑          │ dies (out of memory, a node of a cluster fails)
      └──────────┘ its chunk is processed again, a new worker takes its place

Each worker has one chunk at a time, so documents are read no faster than they are processed.
"""

import contextlib
import logging
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any, Protocol

from ..errors import listing
from .chunks import Chunk, Start

logger = logging.getLogger("spacy_mslm")

# Seconds between two looks at workers that are not ready.
LOOK = 5.0


class WorkerLost(Exception):
    """A worker died: its process was killed, or its node. Says how it was noticed."""


class Worker(Protocol):
    """A process that works on one chunk at a time. Its futures raise WorkerLost if it dies."""

    @property
    def ready(self) -> Future:
        """Done when the worker has started. Raises what the start raised."""
        ...

    def submit(self, chunk: Chunk) -> Future:
        """Process a chunk."""
        ...

    def stop(self) -> None:
        """End the worker, and free what it holds."""
        ...


class Workers(Protocol):
    """Starts workers.

    Attributes:
        number: The number of workers.
        attempts: How often a chunk may lose its worker before it is given up.
        patience: Seconds to wait until a worker is ready.
    """

    number: int
    attempts: int
    patience: float

    def start(self, start: Start) -> Worker:
        """Start a worker."""
        ...


def run_chunks(workers: Workers, start: Start, chunks: Iterator[Chunk]) -> Iterator[Any]:
    """Process chunks, and yield the result of each when it is finished, in any order.

    Args:
        workers: Starts the workers.
        start: Prepares the work in each of them.
        chunks: The chunks. They are read when a worker is free.

    Raises:
        ValueError: If chunks lost their worker in every attempt, after all others are finished; or
            if no worker could be started.
    """
    schedule = _Schedule(workers, start, chunks)
    try:
        yield from schedule.run()
    finally:
        schedule.stop()


class _Schedule:
    def __init__(self, workers: Workers, start: Start, chunks: Iterator[Chunk]) -> None:
        self.workers = workers
        self.start = start
        self.chunks = chunks
        self.starting: dict[Future, Worker] = {}
        self.working: dict[Future, tuple[Worker, Chunk]] = {}
        self.idle: list[Worker] = []  # without a chunk, in case another worker dies
        self.again: list[Chunk] = []  # to process next
        self.lost: Counter[int] = Counter()
        self.given_up: list[Chunk] = []
        self.deaths_at_start = 0

    def run(self) -> Iterator[Any]:
        if not self._has_chunk():
            return
        for _ in range(self.workers.number):
            self._start_worker()
        waited_since = time.monotonic()
        while self.working or (self.starting and self._has_chunk()):
            done, _ = wait([*self.starting, *self.working], LOOK, FIRST_COMPLETED)
            if done or self.working:
                waited_since = time.monotonic()
            elif time.monotonic() - waited_since > self.workers.patience:
                raise ValueError(
                    f"No worker has started for {self.workers.patience:.0f} s. Check that the "
                    "machine or cluster has free cores, GPUs and memory for one."
                )
            for future in done:
                if future in self.starting:
                    self._started(future)
                else:
                    yield from self._finished(future)
        if self.given_up:
            raise ValueError(
                f"The worker of each of the chunks {listing([c.number for c in self.given_up])} "
                f"died {self.workers.attempts} times. The first of them begins with the document "
                f"{self.given_up[0].documents[0].id}. All other chunks are finished and kept. If "
                "memory ran out, use fewer --jobs or smaller chunks; if a document is at fault, "
                "remove it. Then run the command again."
            )

    def stop(self) -> None:
        working = (worker for worker, _ in self.working.values())
        for worker in [*self.idle, *self.starting.values(), *working]:
            worker.stop()

    def _has_chunk(self) -> bool:
        """Return whether a chunk is left, and read it if so."""
        if not self.again:
            self.again += [chunk] if (chunk := next(self.chunks, None)) else []
        return bool(self.again)

    def _start_worker(self) -> None:
        worker = self.workers.start(self.start)
        self.starting[worker.ready] = worker

    def _started(self, ready: Future) -> None:
        worker = self.starting.pop(ready)
        try:
            ready.result()
        except WorkerLost as err:
            worker.stop()
            self.deaths_at_start += 1
            if self.deaths_at_start > self.workers.attempts * self.workers.number:
                raise ValueError(
                    f"The workers die when they start ({err}). If memory runs out, use fewer "
                    "--jobs."
                ) from None
            self._start_worker()
            return
        self._give(worker)

    def _give(self, worker: Worker) -> None:
        """Give a free worker its next chunk, if there is one."""
        if self._has_chunk():
            chunk = self.again.pop()
            self.working[worker.submit(chunk)] = worker, chunk
        else:
            self.idle.append(worker)

    def _finished(self, future: Future) -> Iterator[Any]:
        worker, chunk = self.working[future]
        try:
            result = future.result()
        except WorkerLost:
            del self.working[future]
            with contextlib.suppress(Exception):
                worker.stop()
            self._lose(chunk)
            if self.idle:
                self._give(self.idle.pop())
            else:
                self._start_worker()
            return
        del self.working[future]
        self._give(worker)
        yield result

    def _lose(self, chunk: Chunk) -> None:
        self.lost[chunk.number] += 1
        again = self.lost[chunk.number] < self.workers.attempts
        (self.again if again else self.given_up).append(chunk)
        logger.warning(
            f"A worker died while processing chunk {chunk.number} (attempt "
            f"{self.lost[chunk.number]} of {self.workers.attempts}). "
            + ("The chunk is processed again." if again else "It is given up; others go on.")
        )
