"""The web application: paths, status codes and their order."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from difflib import get_close_matches
from typing import Annotated, Any, TypeAlias

from fastapi import Body, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.responses import JSONResponse, Response

from .. import __version__
from ..util.lines import LONE_SURROGATE
from .access import Access
from .answers import EntityReader, HeatmapReader, Served
from .batching import Batcher, Busy, Run
from .faults import Faults
from .limits import HEATMAP_CHARACTERS, BodyLimit, Limits, refusal
from .metrics import Measured, Metrics
from .page import render_page
from .schema import (
    Document,
    Documents,
    Entity,
    Health,
    Heatmap,
    Pipeline,
    Refusal,
    Text,
    Texts,
)

EXAMPLE = "She developed acute renal failure after two doses of amoxicillin."
# Seconds after which a client may try again when the server is busy.
RETRY_AFTER = "1"
REFUSALS = {
    400: "The body cannot be decoded",
    401: "The token is missing or wrong",
    408: "The request took too long to arrive",
    413: "The request is too large",
    421: "The request is addressed to another host",
    422: "The request is not of the expected form",
    503: "Too many requests are waiting; try again",
}
Responses: TypeAlias = dict[int | str, dict[str, Any]]
RESPONSES: Responses = {
    status: {"model": Refusal, "description": text} for status, text in REFUSALS.items()
}


class Refused(Exception):
    """A request whose texts cannot be read: the status, and what to do."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


def make_app(pipelines: Sequence[Served], token: str | None, limits: Limits) -> FastAPI:
    """Create the application.

    Args:
        pipelines: The pipeline that answers, and those to compare it with in heat maps.
        token: The token of the clients; None if the server is for this machine only.
        limits: What is accepted.

    Raises:
        ValueError: If a pipeline has no `mslm` pipe.
    """
    metrics = Metrics()
    batcher = Batcher(limits.waiting, metrics.batches.observe)
    metrics.watch(lambda: batcher.waiting)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(batcher.close)

    app = FastAPI(
        title="spacy-mslm",
        description="Entities of texts. Texts are neither stored nor logged.",
        version=__version__,
        # The pages of Swagger and ReDoc load scripts from other hosts.
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    _add_page(app, needs_token=token is not None, limits=limits)
    _add_api(app, pipelines, limits, batcher, metrics)
    _add_state(app, batcher, metrics)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(Busy, _busy)
    # The last one is the first to see a request.
    app.add_middleware(BodyLimit, limits=limits)
    app.add_middleware(Access, token=token)
    app.add_middleware(Faults)
    paths = [route.path for route in app.routes if isinstance(route, APIRoute)]
    app.add_middleware(Measured, metrics=metrics, paths=paths)
    return app


def _add_page(app: FastAPI, needs_token: bool, limits: Limits) -> None:
    page, policy = render_page(needs_token, limits)

    @app.get("/", include_in_schema=False)
    async def index() -> Response:
        return Response(page, media_type="text/html", headers={"Content-Security-Policy": policy})


def _add_api(
    app: FastAPI,
    pipelines: Sequence[Served],
    limits: Limits,
    batcher: Batcher,
    metrics: Metrics,
) -> None:
    name, nlp = pipelines[0]
    pipeline = Pipeline(name=name, version=str(nlp.meta.get("version", "0.0.0")))
    entity_reader, heatmap_reader = EntityReader(pipelines[0]), HeatmapReader(pipelines)
    longest = min(limits.characters, *(served.nlp.max_length for served in pipelines))
    longest_heatmap = min(longest, HEATMAP_CHARACTERS)

    async def read(run: Run, texts: list[str]) -> list[Any]:
        future = asyncio.wrap_future(batcher.submit(run, texts))
        try:
            answers = await asyncio.wait_for(future, limits.seconds)
        except asyncio.TimeoutError:
            raise Busy from None
        metrics.texts.inc(len(texts))
        metrics.characters.inc(sum(map(len, texts)))
        return answers

    @app.post("/v1/entities", responses=RESPONSES, summary="Find the entities of texts")
    async def entities(
        request: Annotated[Texts, Body(examples=[{"texts": [EXAMPLE]}])],
    ) -> Documents:
        _check(request.texts, longest)
        found: list[list[Entity]] = await read(entity_reader, request.texts)
        metrics.entities.inc(sum(map(len, found)))
        return Documents(pipeline=pipeline, documents=[Document(entities=own) for own in found])

    @app.post("/v1/heatmap", responses=RESPONSES, summary="How sure the pipelines are of each word")
    async def heatmap(
        request: Annotated[Text, Body(examples=[{"text": EXAMPLE}])],
    ) -> Heatmap:
        _check([request.text], longest_heatmap)
        (block,) = await read(heatmap_reader, [request.text])
        return Heatmap.model_validate(block, from_attributes=True)


def _check(texts: Sequence[str], most: int) -> None:
    """Refuse texts that are too long or cannot be encoded."""
    characters = sum(map(len, texts))
    if characters > most:
        raise Refused(
            413,
            f"The request has {characters:,} characters of text, and {most:,} are the maximum. "
            "Send fewer or shorter texts.",
        )
    for number, text in enumerate(texts):
        if surrogate := LONE_SURROGATE.search(text):
            raise Refused(
                422,
                f"Text {number} is not valid Unicode: half a surrogate pair at offset "
                f"{surrogate.start()}. Decode the text as UTF-8 with errors='replace'.",
            )


def _add_state(app: FastAPI, batcher: Batcher, metrics: Metrics) -> None:
    @app.get("/healthz", responses={503: RESPONSES[503]}, summary="Whether the server answers")
    async def healthz() -> Health:
        if not batcher.alive:
            raise Busy
        return Health(status="ok")

    responses: Responses = {status: RESPONSES[status] for status in (401, 421)}

    @app.get("/metrics", responses=responses, summary="Figures for Prometheus")
    async def figures() -> Response:
        return metrics.render()


# ---- refusals: what FastAPI says by itself quotes the request ----


async def _invalid(request: Request, err: Exception) -> JSONResponse:
    assert isinstance(err, RequestValidationError)
    known = {"/v1/heatmap": list(Text.model_fields)}.get(request.url.path, list(Texts.model_fields))
    return refusal(422, " ".join(_sentence(fault, known) for fault in err.errors()[:3]))


def _sentence(fault: Any, known: list[str]) -> str:
    """Say what is wrong in a request and where, without its content."""
    kind, place = fault["type"], [part for part in fault["loc"] if part != "body"]
    if kind == "json_invalid":
        return f"The body is not valid JSON, at byte {place[0] if place else 0}."
    if kind == "extra_forbidden":
        nearest = get_close_matches(str(place[-1]), known, n=1, cutoff=0)[0]
        return f"The request has an unknown key. Did you mean {nearest!r}?"
    if not place:
        return f"The body must be a JSON object with the key {known[0]!r} (application/json)."
    where = ".".join(map(str, place))
    return f"{where}: {fault['msg'].rstrip('.')}."


async def _refused(request: Request, err: Exception) -> JSONResponse:
    assert isinstance(err, Refused)
    return refusal(err.status, str(err))


async def _busy(request: Request, err: Exception) -> JSONResponse:
    detail = "The server is busy. Try again in a moment."
    return refusal(503, detail, **{"Retry-After": RETRY_AFTER})
