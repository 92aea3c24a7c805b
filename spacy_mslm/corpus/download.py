"""Download public corpora, or copy them from a local folder, and verify them.

`data/assets.json` lists the files of each corpus: their URLs, which include the full commit, and
their SHA-256. They are saved as `OUTPUT/<corpus>/{train,devel,test}.tsv`. EBM-NLP is an archive:
the parts of it that `formats.ebm_nlp` reads are unpacked next to it.
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
from contextlib import ExitStack
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from tqdm import tqdm

from ..errors import Errors
from ..util.files import replaced_file, replaced_folder

TIMEOUT = 30  # seconds without receiving data
CHUNK = 1 << 16
# Other names of the files in local folders.
ALIASES = {"devel.tsv": ("valid.tsv", "dev.tsv")}
_PARTS = re.compile(
    r"(?:[^/]+/)*(?:documents/(?P<documents>[0-9]+\.tokens)"
    r"|annotations/(?P<annotations>aggregated/(?:starting_spans|hierarchical_labels)/outcomes/"
    r"(?:train|test/gold)/[0-9]+[\w.-]*\.ann))"
)

# By corpus: its licence, and the URL and SHA-256 of each file (None if it is not known).
Table = dict[str, dict[str, Any]]


class Fetched(NamedTuple):
    """A downloaded file.

    was_there: Whether it was up to date before. verified: Whether its checksum was known.
    """

    path: Path
    was_there: bool
    sha256: str
    verified: bool


def read_table() -> Table:
    """Read the table of public corpora, `data/assets.json`."""
    table: Table = json.loads((files("spacy_mslm") / "data/assets.json").read_text("utf8"))
    return table


def fetch_set(
    name: str, output: Path, *, assets: str | None = None, table: Table | None = None
) -> list[Fetched]:
    """Download the files of a corpus and verify their checksums.

    Files that are up to date are skipped. A file that does not match its checksum is never put in
    place.

    Args:
        name: Name of the corpus.
        output: Folder; the files go to `output/name`.
        assets: A local folder or a URL that has the files as `name/file`; by default (or if empty,
            as in project.yml) the URLs of the table.
        table: The corpora; by default those of the package.

    Raises:
        ValueError: If the corpus is unknown, or a file cannot be read or is damaged.
    """
    table = read_table() if table is None else table
    if name not in table:
        expected = ", ".join([*table, "all"])
        raise ValueError(Errors.M101.format(what="set", got=name, expected=expected))
    fetched = []
    for file_name, asset in table[name]["files"].items():
        target = output / name / file_name
        known = asset["sha256"]
        digest = hashlib.sha256(target.read_bytes()).hexdigest() if target.is_file() else ""
        was_there = bool(digest) and known in (None, digest)
        if not was_there:
            target.parent.mkdir(parents=True, exist_ok=True)
            digest = _fetch(_url(name, file_name, asset["url"], assets), target, known)
        if file_name.endswith(".tar.gz"):
            _unpack(target)
        fetched.append(Fetched(target, was_there, digest, known is not None))
    return fetched


def _url(set_name: str, file_name: str, url: str, assets: str | None) -> str:
    if not assets:
        return url
    if re.match("https?://", assets):
        return f"{assets.rstrip('/')}/{set_name}/{file_name}"
    folder = Path(assets).resolve() / set_name
    names = (file_name, *ALIASES.get(file_name, ()))
    found = (folder / name for name in names if (folder / name).is_file())
    return next(found, folder / file_name).as_uri()


def _fetch(url: str, target: Path, known: str | None) -> str:
    """Download to a temporary file, verify and rename it; return the SHA-256."""
    digest = hashlib.sha256()
    with replaced_file(target) as file:
        for chunk in _read(url, f"{target.parent.name}/{target.name}"):
            digest.update(chunk)
            file.write(chunk)
        found = digest.hexdigest()
        if known not in (None, found):
            raise ValueError(
                f"{url} is damaged, or another version: its SHA-256 is {found}, but {known} was "
                "expected. The file was not saved. Download it again, or use another source "
                "(--assets)."
            )
    return found


def _read(url: str, name: str) -> Iterator[bytes]:
    """Yield the bytes of a URL (http, https or file). Any failure to read them is one error."""
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT) as response:
            left = int(response.headers.get("Content-Length") or 0)
            bar = {"total": left or None, "desc": name, "disable": None, "leave": False}
            with tqdm.wrapattr(response, "read", **bar) as body:
                while chunk := body.read(CHUNK):
                    left -= len(chunk)
                    yield chunk
            if left > 0:  # http.client does not report a connection that is closed too early
                raise EOFError(f"{left} bytes are missing")
    except (OSError, EOFError, http.client.HTTPException) as err:
        raise ValueError(
            f"Could not download {name} from {url} ({err}). Either run this where the network can "
            "be reached (for a mirror, give --assets URL), or put the file into a folder as "
            f"{name} and give that folder (--assets DIR)."
        ) from None


def _unpack(archive: Path) -> None:
    """Unpack the parts of EBM-NLP that we read, unless they exist.

    Only files with the names of its layout are written, whatever else the archive contains.
    """
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
        # The archive has no known checksum. A damaged one must not count as downloaded.
        archive.unlink()
        raise ValueError(
            f"{archive} is not the whole archive of EBM-NLP ({err}), and was removed. Download it "
            "again, or use another source (--assets)."
        ) from None
