"""Workers on this machine: this process, or processes of their own."""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context, parent_process
from typing import Any

from .chunks import Chunk, Start, Work
from .schedule import Worker, WorkerLost
from .shards import PRIVATE

_work: Work  # set in each worker process


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Let torch compute with one thread. Its sums, and so the last bits of a confidence, depend on
    the number of threads; processes share the cores instead."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


class ThisProcess:
    """One worker: the process that calls."""

    number = 1
    attempts = 1
    patience = 0.0

    def start(self, start: Start) -> Worker:
        """Start the worker."""
        return _Here(start)


class Processes:
    """Worker processes. They are spawned: a forked process can hang in torch's threads.

    Args:
        number: The number of processes.
    """

    attempts = 2
    patience = 600.0

    def __init__(self, number: int) -> None:
        self.number = number

    def start(self, start: Start) -> Worker:
        """Start a process."""
        return _Process(start)


class _Here:
    def __init__(self, start: Start) -> None:
        with one_thread():
            self.work = start()
        self.ready: Future = Future()
        self.ready.set_result(None)

    def submit(self, chunk: Chunk) -> Future:
        future: Future = Future()
        with one_thread():
            future.set_result(self.work(chunk))
        return future

    def stop(self) -> None:
        """The process goes on."""


class _Process:
    """A pool of one process: if it dies, only its own chunk is lost."""

    def __init__(self, start: Start) -> None:
        self.pool = ProcessPoolExecutor(1, get_context("spawn"), _end_with_parent)
        self.ready = self._submit(partial(_begin, start))

    def submit(self, chunk: Chunk) -> Future:
        return self._submit(partial(_process, chunk))

    def _submit(self, call: Callable[[], Any]) -> Future:
        try:
            return _translated(self.pool.submit(call))
        except BrokenProcessPool:  # it died while it had nothing to do
            lost: Future = Future()
            lost.set_exception(WorkerLost("BrokenProcessPool"))
            return lost

    def stop(self) -> None:
        # An exception of another worker ends the run: this one is not waited for.
        for process in list((self.pool._processes or {}).values()):
            process.terminate()
        self.pool.shutdown(wait=False, cancel_futures=True)


def _translated(future: Future) -> Future:
    """Return a future that raises WorkerLost where the pool's raises BrokenProcessPool."""
    result: Future = Future()

    def copy(done: Future) -> None:
        error = done.exception()
        if error is None:
            result.set_result(done.result())
        else:
            lost = isinstance(error, BrokenProcessPool)
            result.set_exception(WorkerLost(type(error).__name__) if lost else error)

    future.add_done_callback(copy)
    return result


# ---- in a worker process ----


def _end_with_parent() -> None:
    """A process does not notice by itself that its parent was killed, and would wait forever."""

    def watch() -> None:
        parent = parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _begin(start: Start) -> None:
    global _work
    _work = begin(start)


def begin(start: Start) -> Work:
    """Prepare the work in a process of its own, which computes with one thread and whose files are
    the user's only."""
    import torch

    os.umask(PRIVATE)
    torch.set_num_threads(1)
    return start()


def _process(chunk: Chunk) -> Any:
    return _work(chunk)
