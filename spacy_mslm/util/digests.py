"""What a stage was made of: settings in which files count by what is in them, not by where they
are. A folder that was made of the same can be used as it is."""

import hashlib
from pathlib import Path
from typing import Any

# Settings that may be paths. An encoder or a pipeline may be a name, too, which stays as it is.
PATHS = ("text", "terms", "vocabulary", "encoder", "path", "model", "kb", "export", "types")


def made_of(settings: Any) -> Any:
    """Settings of a config, with digests in place of paths."""
    if not isinstance(settings, dict):
        return settings
    return {
        key: _digests(value) if key in PATHS and not isinstance(value, dict) else made_of(value)
        for key, value in settings.items()
    }


def _digests(value: Any) -> Any:
    """Of a path or several."""
    if isinstance(value, str) and Path(value).exists():
        return digest_of(Path(value))
    if isinstance(value, list | tuple):
        return [_digests(item) for item in value]
    return value


def digest_of(path: Path) -> str:
    """Of the contents of a file, or of all files of a folder."""
    digest = hashlib.blake2b(digest_size=16)
    files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    for file in files:
        with file.open("rb") as stream:
            for chunk in iter(lambda: stream.read(1 << 20), b""):
                digest.update(chunk)
    return digest.hexdigest()
