"""Public corpora, from their homes on the network or from a local folder, verified.

`data/assets.json` names each set's files, with the full commit in their URLs, and their SHA-256.
What is fetched lands as `OUTPUT/<set>/{train,devel,test}.tsv`; of EBM-NLP it is an archive, and the
parts of it that `formats.ebm_nlp` reads are unpacked beside it.
"""

import gzip
import hashlib
import http.client
import json
import re
import shutil
import tarfile
import urllib.request
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from tqdm import tqdm

from ..errors import Errors
from ..util.files import replaced_file, replaced_folder

TIMEOUT = 30  # seconds without a byte
CHUNK = 1 << 16
# Other names of the splits' files in local folders.
ALIASES = {"devel.tsv": ("valid.tsv", "dev.tsv")}
_PARTS = re.compile(
    r"(?:[^/]+/)*(?:documents/(?P<documents>[0-9]+\.tokens)"
    r"|annotations/(?P<annotations>aggregated/(?:starting_spans|hierarchical_labels)/outcomes/"
    r"(?:train|test/gold)/[0-9]+[\w.-]*\.ann))"
)

# By set: its licence, and by file the URL and the SHA-256, or None where that is not known.
Table = dict[str, dict[str, Any]]


class Fetched(NamedTuple):
    """A file that is there now: whether it was before, its SHA-256, and whether that was known."""

    path: Path
    was_there: bool
    sha256: str
    verified: bool


def read_table() -> Table:
    """The sets of the package."""
    table: Table = json.loads((files("spacy_mslm") / "data/assets.json").read_text("utf8"))
    return table


def fetch_set(
    name: str, output: Path, *, assets: str | None = None, table: Table | None = None
) -> Iterator[Fetched]:
    """Fetch the files of a set, one after the other. A file that is there already and sound stays;
    one that does not have its checksum is never put in place.

    assets: A local folder or a URL that has `<set>/<file>`; the files' own URLs if None
        or empty, which is how a project's variable says it.
    """
    table = read_table() if table is None else table
    if name not in table:
        expected = ", ".join([*table, "all"])
        raise ValueError(Errors.M101.format(what="set", got=name, expected=expected))
    for file_name, asset in table[name]["files"].items():
        target = output / name / file_name
        known = asset["sha256"]
        digest = _digest(target) if target.is_file() else ""
        was_there = bool(digest) and known in (None, digest)
        if not was_there:
            target.parent.mkdir(parents=True, exist_ok=True)
            source = _source(name, file_name, asset["url"], assets)
            digest = _fetch(source, target, known, set_name=name)
        if file_name.endswith(".tar.gz"):
            _unpack(target)
        yield Fetched(target, was_there, digest, known is not None)


def _source(set_name: str, file_name: str, url: str, assets: str | None) -> str | Path:
    if not assets:
        return url
    if re.match("https?://", assets):
        return f"{assets.rstrip('/')}/{set_name}/{file_name}"
    folder = Path(assets) / set_name
    names = (file_name, *ALIASES.get(file_name, ()))
    return next((folder / n for n in names if (folder / n).is_file()), folder / file_name)


def _fetch(source: str | Path, target: Path, known: str | None, *, set_name: str) -> str:
    """Copy to a temporary file, check, rename; returns the SHA-256."""
    digest = hashlib.sha256()
    with replaced_file(target) as file:
        for chunk in _read(source, target.name, set_name):
            digest.update(chunk)
            file.write(chunk)
        found = digest.hexdigest()
        if known not in (None, found):
            raise ValueError(
                f"{source} is damaged, or another version: its SHA-256 is {found}, but {known} "
                "is expected. It was not taken over. Fetch it again, or take it from another "
                "place (--assets)."
            )
    return found


def _read(source: str | Path, name: str, set_name: str) -> Iterator[bytes]:
    """The bytes of a file or URL; what keeps them from being read becomes one error."""
    label = f"{set_name}/{name}"
    try:
        with (
            _open(source) as (file, size),
            tqdm(
                total=size, desc=label, unit="B", unit_scale=True, disable=None, leave=False
            ) as bar,
        ):
            while chunk := file.read(CHUNK):
                bar.update(len(chunk))
                size = size and size - len(chunk)
                yield chunk
            if size:
                raise EOFError(f"{size} bytes are missing")
    except (OSError, EOFError, http.client.HTTPException) as err:
        raise ValueError(
            f"{name} of {set_name} cannot be had from {source} ({err}). Two ways out: "
            "fetch it where the network can be reached (a mirror is given as --assets "
            f"URL), or put the file into a folder as {set_name}/{name} and give that "
            "folder (--assets DIR)."
        ) from None


@contextmanager
def _open(source: str | Path) -> Iterator[tuple[BinaryIO, int | None]]:
    """A file or URL, open for reading, and its size where that is known."""
    if isinstance(source, Path):
        with source.open("rb") as file:
            yield file, source.stat().st_size
    else:
        with urllib.request.urlopen(source, timeout=TIMEOUT) as response:
            length = response.headers.get("Content-Length")
            yield response, int(length) if length else None


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _unpack(archive: Path) -> None:
    """Unpack what is read of EBM-NLP, unless it is there. Only names of its layout are written,
    whatever else an archive holds."""
    folders = {part: archive.parent / part for part in ("documents", "annotations")}
    if all(folder.is_dir() for folder in folders.values()):
        return
    found = set()
    try:
        with ExitStack() as stack:
            stream = stack.enter_context(gzip.open(archive))
            tar = stack.enter_context(tarfile.open(fileobj=stream, mode="r:"))
            targets = {k: stack.enter_context(replaced_folder(f)) for k, f in folders.items()}
            for member in tar:
                match = _PARTS.fullmatch(member.name)
                opened = tar.extractfile(member) if match and member.isfile() else None
                if match is None or opened is None:
                    continue
                part = match.lastgroup or ""
                found.add(part)
                path = targets[part] / match[part]
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("wb") as file:
                    shutil.copyfileobj(opened, file)
            while stream.read(CHUNK):  # to its end, where its checksum is
                pass
            if found != folders.keys():
                raise EOFError("files are missing")
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error) as err:
        # Without a checksum this is how damage shows: it must not count as fetched.
        archive.unlink()
        raise ValueError(
            f"{archive} is not the whole archive of EBM-NLP ({err}), and was removed. Fetch it "
            "again, or take it from another place (--assets)."
        ) from None
