"""Several processes that train one model: each takes a part of every batch.

    rows of the update ──┬── rows of worker 0 -> forward, backward ──┬── sum ── same step, same
                         └── rows of worker 1 -> forward, backward ──┘          weights everywhere

All workers read the same batches and draw the same masks, so nothing but gradients and losses is
exchanged. A process is alone unless it has joined a group.
"""

import contextlib
import datetime
from collections.abc import Iterator, Sequence

import torch
import torch.distributed as dist
from thinc.api import get_torch_default_device

# From this size on, a vector is summed in two parts.
WORTH_PARTS = 100_000
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
        self._joined: torch.Tensor | None = None

    @property
    def is_first(self) -> bool:
        """Whether this is the worker that evaluates, logs and saves."""
        return self.rank == 0

    @property
    def is_alone(self) -> bool:
        """Whether there are no others."""
        return self.size == 1

    def sum(self, values: torch.Tensor) -> torch.Tensor:
        """Replace the tensor by the sum of those of all workers, and return it."""
        if not self.is_alone:
            with _connected():
                # One part is added up while the other one travels.
                parts = values.chunk(2) if len(values) > WORTH_PARTS else [values]
                for sending in [dist.all_reduce(part, async_op=True) for part in parts]:
                    sending.wait()
        return values

    def sum_gradients(self, parameters: Sequence[torch.nn.Parameter]) -> None:
        """Replace the gradients by their sums over all workers.

        A parameter has a gradient afterwards if it has one in any worker. It is sparse if all of
        these are: then only the rows that any worker has read are exchanged. The memory of the sums
        is used again by the next call.
        """
        if self.is_alone:
            return
        device = parameters[0].device
        kinds = self.sum(torch.tensor([_kind(p.grad) for p in parameters], device=device))
        used = [(p, dense) for p, (n, dense) in zip(parameters, kinds.tolist(), strict=True) if n]
        if not used:
            return
        rows = [None if dense else self._rows(p) for p, dense in used]
        gradients = [_gradient(p, at) for (p, _), at in zip(used, rows, strict=True)]
        parts = self.sum(self._join(gradients)).split([g.numel() for g in gradients])
        for (parameter, _), at, own, part in zip(used, rows, gradients, parts, strict=True):
            values = part.view_as(own)
            if at is not None:
                values = torch.sparse_coo_tensor(
                    at[None], values, parameter.shape, check_invariants=False
                )
            parameter.grad = values

    def _rows(self, parameter: torch.nn.Parameter) -> torch.Tensor:
        """Return the sorted rows that the sparse gradients of all workers have."""
        read = torch.zeros(len(parameter), device=parameter.device)
        if parameter.grad is not None:
            read[parameter.grad._indices()[0]] = 1.0
        return self.sum(read).nonzero()[:, 0]

    def _join(self, gradients: Sequence[torch.Tensor]) -> torch.Tensor:
        """Copy gradients to one vector. Its memory is kept, because new memory is slow."""
        size = sum(gradient.numel() for gradient in gradients)
        if self._joined is None or len(self._joined) < size:
            self._joined = torch.empty(size, device=gradients[0].device)
        flat = [gradient.reshape(-1) for gradient in gradients]
        return torch.cat(flat, out=self._joined[:size])

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


def _kind(gradient: torch.Tensor | None) -> tuple[float, float]:
    """Return whether there is a gradient and whether it is dense, as numbers."""
    if gradient is None:
        return 0.0, 0.0
    return 1.0, float(not gradient.is_sparse)


def _gradient(parameter: torch.nn.Parameter, rows: torch.Tensor | None) -> torch.Tensor:
    """Return the gradient of a parameter, or of some rows of it, and zeros if it has none."""
    gradient = parameter.grad
    if rows is None:
        if gradient is None:
            return torch.zeros_like(parameter)
        return gradient.to_dense() if gradient.is_sparse else gradient
    found = torch.zeros(len(rows), *parameter.shape[1:], device=parameter.device)
    if gradient is not None:
        at = torch.searchsorted(rows, gradient._indices()[0])
        found.index_add_(0, at, gradient._values())
    return found


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
