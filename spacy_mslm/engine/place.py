"""Where chunks are processed. This module imports nothing heavy."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .schedule import Workers


class Engine(str, Enum):
    """What runs the processes: this machine, or a Ray cluster."""

    local = "local"
    ray = "ray"


@dataclass(frozen=True)
class Place:
    """Where chunks are processed.

    Attributes:
        engine: This machine, or a Ray cluster.
        jobs: The number of processes. None for as many as torch would use
            threads (one per core, or OMP_NUM_THREADS), or as fit on the cluster.
        address: Host and port of the head of the Ray cluster. None for the cluster that this
            machine belongs to (RAY_ADDRESS, `ray start`), or else Ray on this machine alone.
        gpus: The number of GPUs of each process on Ray, which may be a fraction.
    """

    engine: Engine = Engine.local
    jobs: int | None = None
    address: str | None = None
    gpus: float = 0.0

    def __post_init__(self) -> None:
        if self.engine is not Engine.ray and (self.address is not None or self.gpus):
            raise ValueError(
                "An address of a cluster and GPUs per process are settings of Ray. Give --engine "
                "ray as well, or leave them out."
            )

    def check(self) -> None:
        """Raise a ValueError if no Ray cluster answers at the address. Input may take long to read,
        so this is checked first."""
        if self.address not in (None, "auto", "local"):
            from .ray_actors import check_address

            check_address(str(self.address))

    @contextlib.contextmanager
    def workers(self, chunks: int) -> Iterator["Workers"]:
        """Provide workers for the block.

        Args:
            chunks: The number of chunks, above which workers would have nothing to do.
        """
        if self.engine is Engine.ray and chunks:
            from .ray_actors import RayWorkers

            with RayWorkers(self.jobs, self.address, self.gpus, chunks) as workers:
                yield workers
            return
        import torch

        from .local import Processes, ThisProcess

        number = min(self.jobs or torch.get_num_threads(), chunks)
        yield Processes(number) if number > 1 else ThisProcess()
