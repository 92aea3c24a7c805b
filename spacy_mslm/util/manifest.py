"""Manifests: the SHA-256 sums of files, which are verified before the files are used.

A pipe has a manifest of its own files (`manifest.json`). The folder of a whole pipeline or encoder
has one of all files below it (`mslm_manifest.json`). Both have the same format:

    {"sha256": {"vocab/strings.json": ["9f86d0..."], ...}}

A file has one sum for each block of 64 MB.
"""

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from ..errors import Errors
from .files import Content, map_file, replace_file, replaced_folder

MANIFEST = "manifest.json"
# A name of our own: folders of pipelines and encoders also hold files of others.
FOLDER_MANIFEST = "mslm_manifest.json"
# The number of bytes in a block, which is part of the format. Blocks are large because a thread
# needs the interpreter lock between two blocks.
BLOCK = 2**26
# The beginning of the file that Git has in place of a large file that was not fetched.
_LFS = b"version https://git-lfs"

Sums = dict[str, list[str]]


# ---- files directly in a folder, or in bytes ----


def add_manifest(files: dict[str, bytes]) -> dict[str, bytes]:
    """Add a manifest, to be written last, with the SHA-256 sums of the blocks of each file."""
    sums = {name: [_digest(data, at) for at in _blocks(data)] for name, data in files.items()}
    return {**files, MANIFEST: _to_json(sums)}


@contextlib.contextmanager
def checked_files(
    read: Callable[[str], Content | None], where: str
) -> Iterator[Mapping[str, Content]]:
    """Provide the files that the manifest names, and verify their checksums.

    The files are hashed in other threads during the block. Use what is built from them only after
    the block: its end waits for the checksums.

    Args:
        read: Returns the content of a file by its name, or None if it does not exist.
        where: The name of the folder for messages.

    Raises:
        ValueError: If a file is missing or its checksum is wrong.
    """
    data = read(MANIFEST)
    if data is None:
        raise ValueError(Errors.M211.format(where=where, name=MANIFEST))
    sums = _from_json(data, where, MANIFEST)
    files = {}
    for name in sums:
        # The manifest may be forged, too: it must only name files directly in this folder.
        if PurePosixPath(name).name != name or Path(name).name != name:
            raise ValueError(Errors.M212.format(where=where, name=MANIFEST))
        content = read(name)
        if content is None:
            raise ValueError(Errors.M211.format(where=where, name=name))
        files[name] = content
    with ThreadPoolExecutor() as pool:
        found = {name: _submit(pool, content) for name, content in files.items()}
        try:
            yield files
        finally:  # also after an exception in the block: a wrong checksum explains it better
            for name, digests in found.items():
                if [digest.result() for digest in digests] != sums[name]:
                    raise ValueError(_changed(files[name], where, name)) from None


def check_files(folder: Path) -> None:
    """Verify the files that the manifest directly in a folder names, see `checked_files`."""
    with checked_files(lambda name: map_file(folder / name), str(folder)):
        pass


# ---- all files of a folder ----


class Fault(NamedTuple):
    """A file that is missing or was changed, and what is wrong with it."""

    name: str
    message: str


@contextlib.contextmanager
def signed_folder(path: Path) -> Iterator[Path]:
    """Create a temporary folder that replaces `path`, as `replaced_folder` does, with a manifest of
    all that was written to it."""
    with replaced_folder(path) as temporary:
        yield temporary
        write_manifest(temporary)


def write_manifest(folder: Path) -> None:
    """Write the manifest of all files in a folder, except itself."""
    names = sorted(files_of(folder))
    with ThreadPoolExecutor() as pool:
        found = {name: _submit(pool, map_file(folder / name) or b"") for name in names}
        sums = {name: [digest.result() for digest in found[name]] for name in names}
    replace_file(folder / FOLDER_MANIFEST, _to_json(sums))


def read_manifest(folder: Path) -> Sums | None:
    """Return the sums of the files of a folder, or None if it has no manifest.

    Raises:
        ValueError: If the manifest cannot be read, or names files outside the folder.
    """
    data = map_file(folder / FOLDER_MANIFEST)
    if data is None:
        return None
    sums = _from_json(data, str(folder), FOLDER_MANIFEST)
    for name in sums:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or Path(name).is_absolute():
            raise ValueError(Errors.M212.format(where=folder, name=FOLDER_MANIFEST))
    return sums


def find_faults(
    folder: Path, sums: Sums, skip: Callable[[str], bool] = lambda name: False
) -> list[Fault]:
    """Return the files that are missing or were changed.

    Args:
        folder: The folder.
        sums: Its manifest.
        skip: Returns whether not to read a file, because it is verified in another way.
    """
    where = str(folder)
    faults: list[Fault] = []
    with ThreadPoolExecutor() as pool:
        found: dict[str, tuple[Content, list[Future[str]]]] = {}
        for name in sums:
            if skip(name):
                continue
            try:
                content = map_file(folder / name)
            except OSError:  # it cannot be read
                content = None
            if content is None:
                faults.append(Fault(name, Errors.M211.format(where=where, name=name)))
            else:
                found[name] = content, _submit(pool, content)
        for name, (content, digests) in found.items():
            if [digest.result() for digest in digests] != sums[name]:
                faults.append(Fault(name, _changed(content, where, name)))
    return sorted(faults)


def check_folder(folder: Path, skip: Callable[[str], bool] = lambda name: False) -> None:
    """Verify the files of a folder that has a manifest, see `find_faults`.

    Raises:
        ValueError: If a file is missing or was changed.
    """
    sums = read_manifest(folder)
    written = rewritten(folder)
    faults = find_faults(folder, sums, lambda n: n in written or skip(n)) if sums else []
    if faults:
        remedy = f"'python -m spacy mslm verify {folder} --update'"
        raise ValueError(f"{faults[0].message} If you changed it yourself, run {remedy}.")


def rewritten(folder: Path) -> frozenset[str]:
    """Return the files of a pipeline that `spacy package` has written again, so that their sums are
    those of other content: the meta data, if the folder is in a Python package."""
    return frozenset({"meta.json"} if (folder.parent / "__init__.py").exists() else ())


def files_of(folder: Path) -> Iterator[str]:
    """Yield the paths in a folder of all files that its manifest covers."""
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and name != FOLDER_MANIFEST:
            yield name


def is_pointer(content: Content) -> bool:
    """Return whether a file is a Git LFS pointer, which is in place of a file not yet fetched."""
    return bytes(content[: len(_LFS)]) == _LFS


def _changed(content: Content, where: str, name: str) -> str:
    if is_pointer(content):
        return Errors.M213.format(where=where, name=name)
    return Errors.M212.format(where=where, name=name)


# ---- format ----


def _to_json(sums: Sums) -> bytes:
    return json.dumps({"sha256": sums}, indent=2, sort_keys=True).encode("utf8")


def _from_json(data: Content, where: str, name: str) -> Sums:
    try:
        return dict(json.loads(bytes(data))["sha256"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError(_changed(data, where, name)) from None


def _blocks(content: Content) -> range:
    """Return the offsets of the blocks of a file, of which there is at least one."""
    return range(0, max(len(content), 1), BLOCK)


def _submit(pool: ThreadPoolExecutor, content: Content) -> list[Future[str]]:
    return [pool.submit(_digest, content, at) for at in _blocks(content)]


def _digest(content: Content, start: int) -> str:
    return hashlib.sha256(memoryview(content)[start : start + BLOCK]).hexdigest()
