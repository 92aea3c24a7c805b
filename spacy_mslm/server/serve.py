"""Load the pipelines, open the port and answer requests until the process is interrupted."""

import socket
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ..pipeline.loading import load_pipeline
from ..tasks.heatmap.draw import model_names
from .access import check_address, is_loopback, read_token

if TYPE_CHECKING:
    from fastapi import FastAPI

# Connections beyond this number are refused; a text waits in the queue of the pipeline, not here.
MAX_CONNECTIONS = 1_024
SECONDS_TO_STOP = 10


class Server:
    """A server whose port is open.

    Args:
        app: The application.
        listener: The socket.
        host: The address that was asked for.
    """

    def __init__(self, app: "FastAPI", listener: socket.socket, host: str) -> None:
        self.app = app
        self.listener = listener
        self.host = host

    @property
    def url(self) -> str:
        """The address of the page."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{name}:{self.listener.getsockname()[1]}/"

    def run(self) -> None:
        """Answer requests until the process is interrupted (Ctrl-C or SIGTERM)."""
        import uvicorn

        config = uvicorn.Config(
            self.app,
            # Its log has the addresses of clients and the tracebacks of faults.
            log_config=None,
            access_log=False,
            server_header=False,
            limit_concurrency=MAX_CONNECTIONS,
            timeout_graceful_shutdown=SECONDS_TO_STOP,
        )
        with suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[self.listener])


def prepare_server(
    model: str,
    compare: str | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    token_file: Path | None = None,
    characters: int = 100_000,
    seconds: float = 30.0,
    waiting: int = 256,
) -> Server:
    """Load pipelines and open a port for them.

    Args:
        model: Name or path of the pipeline.
        compare: Name or path of a second pipeline, for the heat map.
        host: The address to listen on.
        port: The port; 0 for a free one.
        token_file: File with the token of the clients; None for the variable SPACY_MSLM_TOKEN.
            Without a token, only this machine can use the server.
        characters: The maximum number of characters of a request.
        seconds: The time in which a request is answered.
        waiting: The maximum number of requests that wait.

    Raises:
        ImportError: If the extra `serve` is not installed.
        OSError: If there is no such pipeline, or the address cannot be used.
        ValueError: If a setting or a pipeline cannot be used.
    """
    try:
        import uvicorn  # noqa: F401

        from .answers import Served
        from .app import make_app
        from .limits import Limits
    except ImportError as err:
        raise ImportError(
            f"The server needs packages that are not installed ({err}). Install them with 'pip "
            'install "spacy-mslm[serve]"\'.'
        ) from err
    limits = Limits(characters, seconds, waiting)
    token = read_token(token_file)
    check_address(host, token)
    listener = open_port(host, port)
    models = [model, *([compare] if compare else [])]
    pipelines = [
        Served(name, load_pipeline(path))
        for name, path in zip(model_names(models), models, strict=True)
    ]
    return Server(make_app(pipelines, token, limits), listener, host)


def open_port(host: str, port: int) -> socket.socket:
    """Open a port.

    Raises:
        OSError: If the address does not exist here, or the port is in use.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM
        )[0]
        # A name in /etc/hosts or the DNS may be that of another machine, or a public address.
        if is_loopback(host) and not is_loopback(str(address[0])):
            raise ValueError(f"{host} resolves to {address[0]}. Give --host 127.0.0.1.")
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(MAX_CONNECTIONS)
    except OSError as err:
        raise OSError(
            f"Cannot listen on {host}, port {port} ({err.strerror}). Give another --port or --host."
        ) from None
    return listener
