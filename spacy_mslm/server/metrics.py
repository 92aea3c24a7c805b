"""Figures of the server for Prometheus: requests, batches, texts, memory. They contain no text."""

from collections.abc import Callable, Collection
from time import perf_counter

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from starlette.responses import Response

from .limits import App, Message, Receive, Scope, Send

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
OTHER = "other"


class Metrics:
    """The figures of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.requests = Counter(
            "mslm_requests",
            "Requests by path and status",
            ["path", "status"],
            registry=self.registry,
        )
        self.seconds = Histogram(
            "mslm_request_seconds",
            "Time from the first byte of a request to the last of its answer",
            ["path"],
            registry=self.registry,
            buckets=SECONDS,
        )
        self.batches = Histogram(
            "mslm_batch_requests",
            "Requests that were read together",
            registry=self.registry,
            buckets=SIZES,
        )
        self.texts = Counter("mslm_texts", "Texts that were read", registry=self.registry)
        self.characters = Counter(
            "mslm_characters", "Characters of these texts", registry=self.registry
        )
        self.entities = Counter("mslm_entities", "Entities found in them", registry=self.registry)
        self.waiting = Gauge("mslm_waiting_requests", "Requests that wait", registry=self.registry)

    def watch(self, waiting: Callable[[], float]) -> None:
        """Read the number of waiting requests from a function."""
        self.waiting.set_function(waiting)

    def render(self) -> Response:
        """Return the figures in the format of Prometheus."""
        return Response(generate_latest(self.registry), media_type=CONTENT_TYPE_LATEST)


class Measured:
    """Middleware that counts and times requests.

    Args:
        app: The application behind it.
        metrics: Where the figures are kept.
        paths: The paths that have figures of their own. Others are counted together, because a path
            is written by the client and may contain anything.
    """

    def __init__(self, app: App, metrics: Metrics, paths: Collection[str]) -> None:
        self.app = app
        self.metrics = metrics
        self.paths = frozenset(paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on and take its figures."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        path = scope["path"] if scope["path"] in self.paths else OTHER
        start = perf_counter()

        async def count(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.metrics.requests.labels(path, message["status"]).inc()
            await send(message)

        await self.app(scope, receive, count)
        self.metrics.seconds.labels(path).observe(perf_counter() - start)
