"""Atomic writes: a file or folder is written under a temporary name, synced to disk and renamed."""

import contextlib
import ctypes
import errno
import functools
import mmap
import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

Content: TypeAlias = bytes | mmap.mmap
# Of `shutil.copytree`: temporary files of killed processes are not copied.
HIDDEN = shutil.ignore_patterns(".*")


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

    If the block raises, the temporary file is removed and `path` is unchanged. Only the owner can
    read the temporary file. If the process is killed, the file stays until a process writes into
    the same folder again.

    Args:
        path: The file to replace.
        mode: Its permissions, to which the umask is applied.

    Raises:
        OSError: If the file cannot be written. The error names `path`.
    """
    with _named_errors(path):
        _clean_once(path.parent.resolve())
        temporary, lock = _make_temporary(path, _make_file)
        try:
            with open(temporary, "wb") as file:
                yield file
                _flush(file)
            temporary.chmod(mode & ~_umask())
            _close(lock)  # before the renaming: Windows does not rename open files
            os.replace(temporary, path)
        finally:
            _close(lock)
            temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def replaced_folder(path: Path, mode: int = 0o777) -> Iterator[Path]:
    """Create a temporary folder that replaces `path` at the end of the block, in one step.

    The folder is beside `path`, and only the owner can read it until it is complete. Then it gets
    the permissions of the old folder. If the process is killed, the temporary folder stays until a
    process writes a folder there again.

    Args:
        path: The folder to replace.
        mode: Its permissions, to which the umask is applied. Those of the old folder are not
            extended.

    Raises:
        OSError: If the folder cannot be written. The error names `path`.
    """
    path = path.resolve()  # of a symbolic link, the target is replaced
    with _named_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(path.parent)
        temporary, lock = _make_temporary(path, Path.mkdir)
        try:
            yield temporary
            _sync(temporary)
            exists = path.exists()
            old = stat.S_IMODE(path.stat().st_mode) if exists else ~_umask()
            temporary.chmod(mode & old)
            if exists:
                _exchange(temporary, path)
            else:
                os.rename(temporary, path)
            _sync_entry(path.parent)
        finally:
            # This is the old folder after an exchange, or an unfinished new one after an exception.
            shutil.rmtree(temporary, ignore_errors=True)
            _close(lock)


def mode_like(source: Path) -> int:
    """Return the permissions for a file with text of a source, to which the umask is applied.

    Text from a file or folder that only its owner can read, such as clinical notes, stays private.
    A folder is private if one of its files is.

    Raises:
        OSError: If there is no such file or folder.
    """
    files = [path for path in source.rglob("*") if path.is_file()] if source.is_dir() else []
    is_open = all(path.stat().st_mode & 0o077 for path in (source, *files))
    return 0o666 if is_open or os.name != "posix" else 0o600


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files and folders of killed processes that are directly in a folder.

    Those of running processes are locked. On systems without such locks nothing is removed.
    """
    if fcntl is None or not folder.is_dir():
        return
    for entry in folder.iterdir():
        if not _TEMPORARY.fullmatch(entry.name) or entry.is_symlink():
            continue
        try:
            lock = _lock(entry)
        except OSError:  # it is in use or belongs to another user, or locks are not supported here
            continue
        if entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)
        _close(lock)


# Of `.model-best.k3v9x2ab.partial`.
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{16}\.partial", re.DOTALL)


@functools.lru_cache(maxsize=1024)
def _clean_once(folder: Path) -> None:
    """Remove leftovers from a folder when this process writes a file there for the first time.

    A search each time would make writing of many files into one folder quadratic.
    """
    remove_leftovers(folder)


def _make_temporary(path: Path, make: Callable[[Path, int], Any]) -> tuple[Path, "_Lock"]:
    """Make a hidden temporary file or folder beside `path` and lock it.

    The system releases the lock when this process and its forks have ended, however they end.
    """
    while True:
        # Names may have up to 255 bytes.
        name = path.name.encode("utf8")[:200].decode("utf8", "ignore")
        temporary = path.parent / f".{name}.{secrets.token_hex(8)}.partial"
        make(temporary, 0o700)
        if fcntl is None:
            return temporary, _Lock(None)
        try:
            lock = _lock(temporary)
        except BlockingIOError:  # another process took it for a leftover before it was locked
            continue
        except OSError:  # the file system has no locks
            return temporary, _Lock(None)
        if temporary.exists():
            return temporary, lock
        _close(lock)


def _make_file(path: Path, mode: int) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode & 0o600))


@dataclass
class _Lock:
    """The open file or folder that is locked, or None."""

    handle: int | None


def _lock(path: Path) -> _Lock:
    assert fcntl is not None
    handle = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise
    return _Lock(handle)


def _close(lock: _Lock) -> None:
    if lock.handle is not None:
        os.close(lock.handle)
        lock.handle = None


# What libraries written in Rust (safetensors, tokenizers) put into messages, and `shutil.copytree`,
# whose error is a list of what could not be copied.
_OS_ERROR = re.compile(r"\(os error (\d+)\)|\[Errno (\d+)\]")


@contextlib.contextmanager
def _named_errors(path: Path) -> Iterator[None]:
    """Convert errors of writing to OSErrors that name `path`.

    Python's errors of a full disk name no file, or a temporary one. Some libraries raise errors of
    their own.
    """
    try:
        yield
    except shutil.Error as err:
        _raise_if_written(err, path)
        raise
    except OSError as err:
        if err.errno is None or not (err.filename is None or _is_temporary(err.filename)):
            raise
        raise OSError(err.errno, err.strerror, str(path)) from None
    except Exception as err:
        _raise_if_written(err, path)
        raise


def _raise_if_written(err: Exception, path: Path) -> None:
    """Raise an OSError that names `path` if the message has the number of an error of writing."""
    found = _OS_ERROR.search(str(err))
    number = int(found[1] or found[2]) if found else 0
    if number in _WRITING:
        raise OSError(number, os.strerror(number), str(path)) from None


_WRITING = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


def _is_temporary(name: Any) -> bool:
    return any(_TEMPORARY.fullmatch(part) for part in Path(os.fsdecode(name)).parts)


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
