"""Several processes that train one model: each takes a part of every batch.

    rows of the update ──┬── rows of worker 0 -> forward, backward ──┬── sum ── same step, same
                         └── rows of worker 1 -> forward, backward ──┘          weights everywhere

All workers read the same batches and draw the same masks, so nothing but gradients and losses is
exchanged. A process is alone unless it has joined a group.
"""

import contextlib
import datetime
from collections.abc import Iterator, Sequence
from typing import TypeVar

import torch
import torch.distributed as dist
from thinc.api import get_torch_default_device

ItemT = TypeVar("ItemT")
# Longer than any evaluation: the other workers wait for the first one.
PATIENCE = datetime.timedelta(days=7)


class LostWorker(ConnectionError):
    """Another worker has ended."""

    def __init__(self) -> None:
        super().__init__("The connection to another worker was lost, so training stopped.")


class Workers:
    """The workers of a training, as one of them sees them.

    Args:
        rank: The index of this worker. The first one also evaluates, logs and saves.
        size: The number of workers.
    """

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.rank = rank
        self.size = size

    @property
    def is_first(self) -> bool:
        """Whether this is the worker that evaluates, logs and saves."""
        return self.rank == 0

    @property
    def is_alone(self) -> bool:
        """Whether there are no others."""
        return self.size == 1

    def share(self, items: Sequence[ItemT], sizes: Sequence[int]) -> list[ItemT]:
        """Return the items of this worker, so that all workers get similar sums of sizes."""
        order = sorted(range(len(items)), key=lambda i: -sizes[i])
        # Back and forth: 0 1 2 2 1 0 0 1 2 ...
        turn = [*range(self.size), *reversed(range(self.size))]
        own = [i for k, i in enumerate(order) if turn[k % len(turn)] == self.rank]
        return [items[i] for i in sorted(own)]

    def sum(self, values: torch.Tensor) -> torch.Tensor:
        """Return the sum of the tensors of all workers."""
        if not self.is_alone:
            with _connected():
                dist.all_reduce(values)
        return values

    def sum_gradients(self, parameters: Sequence[torch.nn.Parameter]) -> None:
        """Replace the gradients by their sums over all workers.

        A parameter has a gradient afterwards if it has one in any worker.
        """
        if self.is_alone:
            return
        device = parameters[0].device
        has = torch.tensor([float(p.grad is not None) for p in parameters], device=device)
        used = [p for p, n in zip(parameters, self.sum(has).tolist(), strict=True) if n]
        if not used:
            return
        gradients = [p.grad if p.grad is not None else torch.zeros_like(p) for p in used]
        joined = self.sum(torch.cat([gradient.reshape(-1) for gradient in gradients]))
        parts = joined.split([p.numel() for p in used])
        for parameter, part in zip(used, parts, strict=True):
            parameter.grad = part.view_as(parameter)

    def copy_from_first(self, tensors: Sequence[torch.Tensor]) -> None:
        """Overwrite tensors in place by those of the first worker."""
        if not self.is_alone:
            with _connected():
                for tensor in tensors:
                    dist.broadcast(tensor, src=0)

    def wait(self) -> None:
        """Wait until all workers are here."""
        self.sum(torch.zeros(1, device=get_torch_default_device()))

    @contextlib.contextmanager
    def own_dropout(self, seed: int) -> Iterator[None]:
        """Draw torch's random numbers from a generator of this worker during the block.

        The generator that all workers share is not used, so it stays the same everywhere.

        Args:
            seed: The seed of the block, which is the same in all workers.
        """
        if self.is_alone:
            yield
            return
        with torch.random.fork_rng():
            torch.manual_seed(seed + self.rank)
            yield


_joined = Workers()


def workers() -> Workers:
    """Return the workers that this process has joined: by default, it is alone."""
    return _joined


@contextlib.contextmanager
def join(rank: int, size: int, store: str | None = None) -> Iterator[Workers]:
    """Join a group of workers during the block.

    Args:
        rank: The index of this worker.
        size: The number of workers.
        store: A file by which workers on one machine find each other. If None, they find each
            other by the environment variables that `torchrun` sets.
    """
    global _joined
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    with _connected():
        dist.init_process_group(
            backend,
            rank=rank,
            world_size=size,
            store=dist.FileStore(store, size) if store else None,
            timeout=PATIENCE,
        )
    _joined = Workers(rank, size)
    try:
        yield _joined
    finally:
        _joined = Workers()
        dist.destroy_process_group()


@contextlib.contextmanager
def _connected() -> Iterator[None]:
    try:
        yield
    except RuntimeError as err:  # gloo and nccl have no errors of their own
        raise LostWorker from err
