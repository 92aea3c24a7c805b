"""Digests of the files that settings name, so that settings can be compared by their content."""

import hashlib
from pathlib import Path
from typing import Any

# Settings that name the place where something is written or run. Its content is not an input.
PLACES = ("output", "environment")
# Settings whose value is a path if that path exists. The value of any other setting is a path if it
# also looks like one, so that new settings are covered.
PATHS = ("text", "terms", "vocabulary", "encoder", "path", "model", "kb", "export", "types")


def with_digests(settings: Any) -> Any:
    """Replace each path in the settings of a config by a digest of its content."""
    return _with_digests(settings, key="")


def _with_digests(value: Any, key: str) -> Any:
    if isinstance(value, dict):
        return {name: _with_digests(item, str(name)) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_digests(item, key) for item in value]
    if isinstance(value, str) and key not in PLACES and _is_path(value, key):
        return digest_of(Path(value))
    return value


def _is_path(value: str, key: str) -> bool:
    """Return whether a string names an existing file or folder.

    A bare word does so only under a key in PATHS: `lang = "en"` is not a path, even beside a folder
    called `en`.
    """
    looks_like_one = key in PATHS or "/" in value or "\\" in value or bool(Path(value).suffix)
    try:
        return looks_like_one and Path(value).exists()
    except (OSError, ValueError):  # the name is too long or contains a null character
        return False


def digest_of(path: Path) -> str:
    """Return a digest of the content of a file, or of all files in a folder."""
    digest = hashlib.blake2b(digest_size=16)
    files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    for file in files:
        with file.open("rb") as stream:
            for chunk in iter(lambda: stream.read(1 << 20), b""):
                digest.update(chunk)
    return digest.hexdigest()
