"""Requests that arrive at the same time are read in one call of the pipeline.

    request ──┐                    ┌── answers of request 1
    request ──┼─> queue ─> thread ─┼── answers of request 2       one batch: the requests that
    request ──┘  (bounded)         └── ...                        have come during the last one

A pipeline has one thread, because the vocabulary of a spaCy pipeline belongs to one thread while
its memory zone is open. No request waits for others to come: a batch is what has come while the
last one was read.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeAlias

# Reads texts, and returns an answer for each.
Run: TypeAlias = Callable[[Sequence[str]], Sequence[Any]]
# A batch ends with the request that exceeds this number of characters.
BATCH_CHARACTERS = 50_000
SECONDS_TO_STOP = 10


class Busy(Exception):
    """Too many requests are waiting."""


@dataclass
class Job:
    """A request: its texts, what reads them, and the place for its answers."""

    run: Run
    texts: Sequence[str]
    future: "Future[list[Any]]" = field(default_factory=Future)

    @property
    def size(self) -> int:
        """The number of characters."""
        return sum(map(len, self.texts))


class Batcher:
    """The queue, and the thread that works on it.

    Args:
        limit: The maximum number of requests that wait.
        observe: Called with the number of requests in each batch.
    """

    def __init__(self, limit: int, observe: Callable[[int], object]) -> None:
        self._limit = limit
        self._observe = observe
        self._waiting: deque[Job] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="spacy-mslm", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """The number of requests that wait."""
        return len(self._waiting)

    @property
    def alive(self) -> bool:
        """Whether requests are being answered."""
        return self._thread.is_alive() and not self._closed

    def submit(self, run: Run, texts: Sequence[str]) -> "Future[list[Any]]":
        """Put a request into the queue.

        A request that is cancelled before it is read is left out.

        Args:
            run: Reads the texts. Requests with the same one are read together.
            texts: The texts.

        Returns:
            The answers for the texts, as a future.

        Raises:
            Busy: If the queue is full.
        """
        job = Job(run, texts)
        with self._changed:
            if self._closed or len(self._waiting) >= self._limit:
                raise Busy
            self._waiting.append(job)
            self._changed.notify()
        return job.future

    def close(self) -> None:
        """Finish the batch that is being read, and refuse all other requests."""
        with self._changed:
            self._closed = True
            for job in self._waiting:
                if job.future.set_running_or_notify_cancel():
                    job.future.set_exception(Busy())
            self._waiting.clear()
            self._changed.notify()
        self._thread.join(SECONDS_TO_STOP)

    def _work(self) -> None:
        while (batch := self._next_batch()) is not None:
            if batch:
                self._observe(len(batch))
                answer(batch)

    def _next_batch(self) -> list[Job] | None:
        """Wait for requests; return those to read together, or None when the queue is closed."""
        batch: list[Job] = []
        size = 0
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            if self._closed:
                return None
            while self._waiting and size < BATCH_CHARACTERS:
                if batch and self._waiting[0].run is not batch[0].run:
                    break
                job = self._waiting.popleft()
                if job.future.set_running_or_notify_cancel():
                    batch.append(job)
                    size += job.size
        return batch


def answer(batch: Sequence[Job]) -> None:
    """Read a batch. If that fails, read each request alone, so that only the bad one fails."""
    try:
        answers = list(batch[0].run([text for job in batch for text in job.texts]))
    except Exception as err:
        if len(batch) == 1:
            batch[0].future.set_exception(err)
            return
        for job in batch:
            answer([job])
        return
    for job in batch:
        job.future.set_result(answers[: len(job.texts)])
        del answers[: len(job.texts)]
