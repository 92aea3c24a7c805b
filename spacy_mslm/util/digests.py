"""Digests of the files that settings name, so that a setting stands for its content."""

import hashlib
from pathlib import Path
from typing import Any

# Settings that say where something goes or runs: the content of that place is no input.
PLACES = ("output", "environment")
# Settings that are read as a path whenever it exists. Any other string is one if it looks like one,
# so a new setting with a path in it is covered, too.
PATHS = ("text", "terms", "vocabulary", "encoder", "path", "model", "kb", "export", "types")


def with_digests(settings: Any) -> Any:
    """Return settings of a config in which each path is replaced by a digest of its content."""
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
    """Whether a string names an existing file or folder. A bare word does so only under a key that
    is known to hold paths: `lang = "en"` is no path, even beside a folder called `en`."""
    looks_like_one = key in PATHS or "/" in value or "\\" in value or bool(Path(value).suffix)
    try:
        return looks_like_one and Path(value).exists()
    except (OSError, ValueError):  # too long, or with a null character
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
