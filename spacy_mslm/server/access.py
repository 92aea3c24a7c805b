"""Who may use the server: this machine only, or those who have the token."""

import hmac
import ipaddress
import os
import re
from pathlib import Path

from ..errors import Errors
from .limits import App, Receive, Scope, Send, refusal

TOKEN_VARIABLE = "SPACY_MSLM_TOKEN"
_TOKEN = re.compile(r"[!-~]{16,256}")
# These say nothing about texts: the page asks for the token, a load balancer has none.
OPEN_PATHS = ("/", "/healthz", "/openapi.json")


def read_token(path: Path | None) -> str | None:
    """Return the token from a file, or else from the variable SPACY_MSLM_TOKEN; None if there is
    none.

    It is no argument of the command, because arguments are visible to all users of a machine.

    Raises:
        ValueError: If it can be guessed, or cannot be sent in a header.
    """
    if path is not None and not path.is_file():
        raise ValueError(Errors.M106.format(path=path))
    token = path.read_text("utf8").strip() if path else os.environ.get(TOKEN_VARIABLE)
    if token is not None and not _TOKEN.fullmatch(token):
        raise ValueError(
            f"The token in {path or TOKEN_VARIABLE} must have 16 to 256 visible ASCII characters "
            "and no spaces. Make one with: python -c 'import secrets; "
            "print(secrets.token_urlsafe())'."
        )
    return token


def is_loopback(host: str) -> bool:
    """Return whether an address can be reached from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_address(host: str, token: str | None) -> None:
    """Raise a ValueError if other machines could use the server without a token."""
    if token is None and not is_loopback(host):
        raise ValueError(
            f"{host} can be reached from other machines, so a token is required. Give it with "
            f"--token-file FILE or in the variable {TOKEN_VARIABLE}, or leave out --host."
        )


class Access:
    """Middleware that refuses requests without the token.

    If there is no token, requests must be addressed to this machine by name. Otherwise a website
    whose name resolves to 127.0.0.1 could use the server from the user's browser.

    Args:
        app: The application behind it.
        token: The token, or None.
    """

    def __init__(self, app: App, token: str | None) -> None:
        self.app = app
        self.token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on if it is allowed."""
        if scope["type"] == "http":
            headers = dict(scope["headers"])
            if self.token is None:
                if not is_loopback(_host_name(headers.get(b"host", b""))):
                    detail = (
                        "Without a token, this server answers requests to localhost and 127.0.0.1 "
                        "only. Start it with a token to use it under another name."
                    )
                    await refusal(421, detail)(scope, receive, send)
                    return
            elif scope["path"] not in OPEN_PATHS and not self._knows(headers):
                detail = "This server needs its token, in the header 'Authorization: Bearer TOKEN'."
                await refusal(401, detail, **{"WWW-Authenticate": "Bearer"})(scope, receive, send)
                return
        await self.app(scope, receive, send)

    def _knows(self, headers: dict[bytes, bytes]) -> bool:
        kind, _, given = headers.get(b"authorization", b"").partition(b" ")
        expected = (self.token or "").encode()
        return kind.lower() == b"bearer" and hmac.compare_digest(given.strip(), expected)


def _host_name(header: bytes) -> str:
    """Return the name in a Host header, without the port: `[::1]:8080` is `::1`."""
    match = re.fullmatch(r"\[([^\]]*)\](?::\d*)?|([^:]*)(?::\d*)?", header.decode("latin1"))
    return (match[1] or match[2] or "").lower() if match else ""
