"""Limits of a request: the size of its texts and of its body, and the time that it may take."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from starlette.responses import JSONResponse

from ..util.settings import check_at_least

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

# The number of texts of a request, and the characters of a text that becomes a heat map.
MAX_TEXTS = 1_000
HEATMAP_CHARACTERS = 20_000
# JSON writes a character beyond U+FFFF as \ud83d\ude00.
BYTES_PER_CHARACTER = 12
BYTES_AROUND = 16_384


@dataclass(frozen=True)
class Limits:
    """What the server accepts.

    characters: The maximum number of characters of all texts of a request.
    seconds: The time in which a request must arrive, and in which it must be answered.
    waiting: The maximum number of requests that wait for the pipeline.
    """

    characters: int = 100_000
    seconds: float = 30.0
    waiting: int = 256

    def __post_init__(self) -> None:
        check_at_least("--max-chars", self.characters, 1)
        check_at_least("--timeout", self.seconds, 0.1)
        check_at_least("--max-waiting", self.waiting, 1)

    @property
    def body(self) -> int:
        """The maximum size of a request's body in bytes, in any spelling of JSON."""
        return BYTES_PER_CHARACTER * self.characters + BYTES_AROUND


def refusal(status: int, detail: str, **headers: str) -> JSONResponse:
    """Return the answer to a request that is refused: `{"detail": ...}`, as FastAPI's own."""
    return JSONResponse({"detail": detail}, status, headers)


class BodyLimit:
    """Middleware that reads the body of a request, and refuses it if it is too large or too slow.

    Args:
        app: The application behind it.
        limits: The limits.
    """

    def __init__(self, app: App, limits: Limits) -> None:
        self.app = app
        self.limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on if it is within the limits."""
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            await self.app(scope, receive, send)
            return
        try:
            messages = await asyncio.wait_for(self._read(scope, receive), self.limits.seconds)
        except asyncio.TimeoutError:
            detail = f"The request did not arrive within {self.limits.seconds:g} seconds."
            await refusal(408, detail, Connection="close")(scope, receive, send)
            return
        if messages is None:
            detail = (
                f"The request has more than {self.limits.body:,} bytes. Send fewer or shorter "
                f"texts: at most {self.limits.characters:,} characters."
            )
            await refusal(413, detail, Connection="close")(scope, receive, send)
            return

        async def replay() -> Message:
            return messages.pop(0) if messages else await receive()

        await self.app(scope, replay, send)

    async def _read(self, scope: Scope, receive: Receive) -> list[Message] | None:
        """Return all messages of a request, or None if it is too large."""
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if declared.isdigit() and int(declared) > self.limits.body:
            return None
        messages: list[Message] = []
        size = 0
        while True:
            message = await receive()
            messages.append(message)
            size += len(message.get("body", b""))
            if size > self.limits.body:
                return None
            if message["type"] != "http.request" or not message.get("more_body"):
                return messages
