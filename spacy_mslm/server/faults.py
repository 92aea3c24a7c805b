"""Faults of the server, told without the text that caused them, and the headers of all answers."""

import logging
import traceback
from pathlib import Path

from .limits import App, Message, Receive, Scope, Send, refusal

logger = logging.getLogger("spacy_mslm")

# Answers have text of documents: nobody may keep them.
HEADERS = {
    b"cache-control": b"no-store",
    b"referrer-policy": b"no-referrer",
    b"x-content-type-options": b"nosniff",
}


class Faults:
    """Middleware that answers with 500 and logs the kind and the place of an exception.

    The message of an exception and the values in a traceback may quote a text, so they are left
    out.

    Args:
        app: The application behind it.
    """

    def __init__(self, app: App) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, whatever happens in the application."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message = {**message, "headers": [*message.get("headers", ()), *HEADERS.items()]}
            await send(message)

        try:
            await self.app(scope, receive, send_with_headers)
        except Exception as err:
            logger.error(f"A request failed: {place_of(err)}")
            if not started:
                detail = (
                    f"The pipeline or the server failed on this request ({type(err).__name__}). "
                    "The log of the server says where."
                )
                await refusal(500, detail)(scope, receive, send_with_headers)


def place_of(err: BaseException) -> str:
    """Return the type of an exception and the lines of code it passed through, innermost last."""
    frames = traceback.extract_tb(err.__traceback__)[-4:]
    lines = [f"{Path(frame.filename).name}:{frame.lineno} in {frame.name}" for frame in frames]
    return f"{type(err).__name__} at {', '.join(lines) or 'an unknown place'}"
