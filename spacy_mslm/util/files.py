"""Atomic writes: a file or folder is written under a temporary name, synced to disk and renamed."""

import contextlib
import ctypes
import errno
import mmap
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, TypeAlias

Content: TypeAlias = bytes | mmap.mmap


def map_file(path: Path) -> Content | None:
    """Return the content of a file as a memory map, or None if the file does not exist.

    The map can be written to. Such changes do not reach the file.
    """
    if not path.is_file():
        return None
    with path.open("rb") as file:
        # An empty file cannot be mapped.
        empty = os.fstat(file.fileno()).st_size == 0
        return b"" if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)


def replace_file(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Write a file under a temporary name, then rename it.

    Args:
        path: The file.
        data: Its content.
        mode: Its permissions, to which the umask is applied.
    """
    with replaced_file(path, mode) as file:
        file.write(data)


def replace_files(contents: dict[Path, bytes], mode: int = 0o666) -> None:
    """Write several files, and the folders that are missing.

    All files are written under temporary names before any is renamed. If one of them cannot be
    written, the old files stay unchanged and the new folders are removed.

    Args:
        contents: The content of each file.
        mode: Their permissions, to which the umask is applied.
    """
    made: list[Path] = []
    try:
        with contextlib.ExitStack() as stack:
            for path, data in contents.items():
                missing = [f for f in (path.parent, *path.parent.parents) if not f.exists()]
                path.parent.mkdir(parents=True, exist_ok=True)
                made += reversed(missing)
                file = stack.enter_context(replaced_file(path, mode))
                file.write(data)
                _flush(file)
    except BaseException:
        for folder in reversed(made):
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise


@contextlib.contextmanager
def replaced_file(path: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Open a temporary file for writing that replaces `path` at the end of the block.

    If the block raises, the temporary file is removed and `path` is unchanged.

    Args:
        path: The file to replace.
        mode: Its permissions, to which the umask is applied.

    Raises:
        OSError: If the file cannot be written. The error names `path`.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            _flush(file)
        temporary.chmod(mode & ~_umask())
        os.replace(temporary, path)
    except BaseException as err:
        temporary.unlink(missing_ok=True)
        if isinstance(err, OSError) and err.errno is not None and err.filename is None:
            raise OSError(err.errno, err.strerror, str(path)) from None
        raise


@contextlib.contextmanager
def replaced_folder(path: Path) -> Iterator[Path]:
    """Create a temporary folder that replaces `path` at the end of the block, in one step."""
    path = path.resolve()  # of a symbolic link, the target is replaced
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    try:
        os.chmod(temporary, 0o777 & ~_umask())
        yield temporary
        _sync(temporary)
        if path.exists():
            _exchange(temporary, path)
        else:
            os.rename(temporary, path)
        _sync_entry(path.parent)
    finally:
        # This is the old folder after an exchange, or an unfinished new one after an exception.
        shutil.rmtree(temporary, ignore_errors=True)


def _exchange(new: Path, old: Path) -> None:
    """Swap two folders.

    This is atomic on Linux. On other systems it takes two renames, and between them `old` does not
    exist.
    """
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        at_cwd, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
        if hasattr(libc, "renameat2"):
            paths = os.fsencode(new), os.fsencode(old)
            if libc.renameat2(at_cwd, paths[0], at_cwd, paths[1], exchange) == 0:
                return
            if ctypes.get_errno() not in (errno.EINVAL, errno.ENOSYS):
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), str(old))
    aside = Path(tempfile.mkdtemp(dir=old.parent, prefix=f".{old.name}.")) / old.name
    os.rename(old, aside)
    os.rename(new, old)
    shutil.rmtree(aside.parent, ignore_errors=True)


def _flush(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    for root, _, names in os.walk(folder):
        for name in names:
            _sync_entry(Path(root) / name)
        _sync_entry(Path(root))


def _sync_entry(path: Path) -> None:
    if os.name == "posix":  # other systems cannot open a folder
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
