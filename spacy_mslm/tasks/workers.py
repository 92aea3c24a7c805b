"""Runs a function in several processes that train one model, and ends all of them if one fails."""

import os
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from multiprocessing import connection, get_context, parent_process
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any, NamedTuple

import torch

from ..model.workers import LostWorker, join

# Seconds that the other workers have to end by themselves after one has failed.
GRACE = 5.0
# Errors that a user can correct. They are raised again in the parent.
EXPECTED = {error.__name__: error for error in (ValueError, OSError, ImportError)}


class Answer(NamedTuple):
    """What a worker sends at its end: a result, or the kind of an error and its message."""

    result: Any = None
    error: str | None = None
    message: str = ""


def run_workers(size: int, function: Callable[..., Any], *args: Any) -> Any:
    """Call a function in several processes, each of which has joined the same group.

    Args:
        size: The number of processes.
        function: A function of a module, which is called with `args`.
        args: Its arguments, which are copied to the processes.

    Returns:
        The result in the first process.

    Raises:
        ValueError, OSError, ImportError: The error of a worker, or OSError if a worker was killed.
            All workers are ended first.
        RuntimeError: For any other error of a worker, with its traceback.
    """
    context = get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="mslm.") as folder:
        store = str(Path(folder) / "store")
        processes, answers = [], []
        for rank in range(size):
            receiver, sender = context.Pipe(duplex=False)
            arguments = (sender, rank, size, store, function, args)
            process = context.Process(target=_work, args=arguments, daemon=True)
            process.start()
            sender.close()  # so that the end of the process is noticed
            processes.append(process)
            answers.append(receiver)
        try:
            return _wait(processes, answers)
        finally:
            for process in processes:
                process.kill()
                process.join()


def _wait(processes: list[SpawnProcess], receivers: list[connection.Connection]) -> Any:
    """Wait for all answers. Returns the result of the first worker, or raises the error."""
    answers: dict[int, Answer] = {}
    end: float | None = None
    while len(answers) < len(processes) and (end is None or time.monotonic() < end):
        waiting = [receivers[i] for i in range(len(processes)) if i not in answers]
        for ready in connection.wait(waiting, timeout=None if end is None else 0.2):
            rank = next(i for i, receiver in enumerate(receivers) if receiver is ready)
            try:
                answers[rank] = receivers[rank].recv()
            except EOFError:
                processes[rank].join(GRACE)
                answers[rank] = Answer(error="died", message=_death(rank, processes[rank]))
            if answers[rank].error and end is None:
                end = time.monotonic() + GRACE
    failed = [answer for answer in answers.values() if answer.error]
    if not failed:
        return answers[0].result
    # The first cause: a worker that was killed, then an error. Lost connections follow from both.
    order = ("died", None, LostWorker.__name__)
    cause = min(failed, key=lambda a: order.index(a.error if a.error in order else None))
    if cause.error in EXPECTED:
        raise EXPECTED[str(cause.error)](cause.message)
    if cause.error in order:
        raise OSError(cause.message)
    raise RuntimeError(cause.message)


def _death(rank: int, process: SpawnProcess) -> str:
    code = process.exitcode or 0
    how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
    return (
        f"Worker {rank} {how}, so all workers were stopped. If the machine ran out of memory, use "
        "fewer workers or a lower components.mslm.batch_pieces. Continue with --resume."
    )


def _work(
    sender: connection.Connection,
    rank: int,
    size: int,
    store: str,
    function: Callable[..., Any],
    args: tuple,
) -> None:
    """Run in a process of its own: join the others, call the function and send its answer."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # nobody else can connect
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // size))
    if rank:
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
    try:
        with join(rank, size, store):
            answer = Answer(function(*args))
    except SystemExit:  # a message was printed
        answer = Answer(error="ValueError", message="A worker could not start.")
    except LostWorker as err:
        answer = Answer(error=LostWorker.__name__, message=str(err))
    except tuple(EXPECTED.values()) as err:
        kind = next(name for name, error in EXPECTED.items() if isinstance(err, error))
        answer = Answer(error=kind, message=str(err))
    except Exception:
        answer = Answer(error="bug", message=traceback.format_exc())
    sender.send(answer)
    sender.close()


def _end_with_parent() -> None:
    """End this process when its parent has ended, however that happened."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
