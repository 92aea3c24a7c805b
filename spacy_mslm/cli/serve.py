"""`python -m spacy mslm serve`: a page and an API for the entities of texts."""

from pathlib import Path

from spacy.cli._util import Opt
from wasabi import msg

from .common import Model, command, mslm_cli


@command(mslm_cli, "serve", failure="The server was not started")
def serve_cli(
    model: Model,
    compare: str | None = Opt(None, help="Second pipeline for the heat map, name or path"),
    host: str = Opt("127.0.0.1", help="Address to listen on; others need a token"),
    port: int = Opt(8080, min=0, max=65535, help="Port, 0 for a free one"),
    token_file: Path | None = Opt(
        None, help="File with the token of the clients [default: variable SPACY_MSLM_TOKEN]"
    ),
    max_chars: int = Opt(100_000, min=1, help="Maximum number of characters of a request"),
    timeout: float = Opt(30.0, min=0.1, help="Seconds in which a request is answered"),
    max_waiting: int = Opt(256, min=1, help="Maximum number of requests that wait"),
) -> None:
    """Serve a pipeline: a page for the browser, and an API (POST /v1/entities).

    By default only this machine can use it. Any other address needs a token, which clients send as
    'Authorization: Bearer TOKEN'. Texts are neither stored nor logged. The API is described at
    /openapi.json, figures for Prometheus are at /metrics. Needs the extra `serve`.
    """
    from ..server.serve import prepare_server

    server = prepare_server(
        model,
        compare,
        host=host,
        port=port,
        token_file=token_file,
        characters=max_chars,
        seconds=timeout,
        waiting=max_waiting,
    )
    msg.good(f"Serving {model} at {server.url}")
    msg.text("Stop with Ctrl-C.")
    server.run()
