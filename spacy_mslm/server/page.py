"""The page for the browser, in one file: style and script are in it, and nothing else is loaded."""

import base64
import hashlib
import html
import json
from importlib.resources import files

from ..tasks.heatmap.html import shade_rules
from .limits import HEATMAP_CHARACTERS, Limits

ASSETS = files("spacy_mslm.server") / "assets"


def render_page(needs_token: bool, limits: Limits) -> tuple[bytes, str]:
    """Return the page, and the value of its Content-Security-Policy.

    The policy allows this style, this script and requests to this server, and nothing else.

    Args:
        needs_token: Whether the page asks for the token.
        limits: The limits that the page tells the user.
    """
    style = _read("page.css") + shade_rules()
    script = _read("page.js")
    settings = {
        "token": needs_token,
        "characters": limits.characters,
        "heatmapCharacters": min(limits.characters, HEATMAP_CHARACTERS),
    }
    page = _read("page.html").replace("{settings}", html.escape(json.dumps(settings)))
    page = page.replace("{style}", style).replace("{script}", script)
    policy = {
        "default-src": "'none'",
        "style-src": _hash(style),
        "script-src": _hash(script),
        "connect-src": "'self'",
        "img-src": "data:",
        **dict.fromkeys(("base-uri", "form-action", "frame-ancestors"), "'none'"),
    }
    return page.encode("utf8"), "; ".join(f"{name} {value}" for name, value in policy.items())


def _read(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf8")


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode("utf8")).digest()).decode("ascii")
    return f"'sha256-{digest}'"
