"""A disk without space, and a folder that cannot be written to.

Both need Linux and root: a small disk is mounted in a mount namespace of this process, which others
do not see, and a process gives up root's right to write everywhere. Without root, the length of
files is limited instead, and folders are read-only as they are.
"""

import ctypes
import os
import random
import resource
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from .experiment import Run
from .kills import Make, Task, contents
from .parts import Row, Work, files_of, run_forked

DISK = 64 << 20  # bytes
NEW_NAMESPACE, PRIVATE = 0x20000, (1 << 18) | (1 << 14)  # CLONE_NEWNS, MS_PRIVATE | MS_REC
DETACH = 2  # MNT_DETACH
TOLD = 3  # exit code after an error that names the place


def fill_disk(
    name: str, make: Make, output: str = "out", in_place: bool = False
) -> Callable[[Work], Run]:
    """Return an experiment: at some point there is no space left.

    The command ends with an error that names a file of the disk, the files are those of before, and
    nothing else is left. With space again, the command ends as it should.

    Args:
        name: The name of the row.
        make: Makes the task.
        output: The name of the output.
        in_place: Whether the command reads what it replaces.
    """

    def prepare(work: Work) -> Run:
        folder = work.new(name.replace(" ", "_"))
        task = make(work, folder)
        disk = folder / "disk"
        disk.mkdir()
        is_mounted = mount(disk)
        if is_mounted:
            work.at_end.callback(unmount, disk)
        kind = "no space left" if is_mounted else "files are limited"
        out = disk / output
        if run_forked(lambda: task(out)):
            raise RuntimeError(f"{name} failed")
        size = sum(len(data) for data in files_of(disk).values())

        def run(cases: range) -> list[Row]:
            good = sum(
                _on_full_disk(
                    *(task, out, disk, size, is_mounted),
                    *(random.Random(f"{name} {case}"), in_place),
                )
                for case in cases
            )
            return [Row(f"{name} ({kind})", len(cases), good, wrong=len(cases) - good)]

        return run

    return prepare


def _on_full_disk(
    task: Task,
    out: Path,
    disk: Path,
    size: int,
    is_mounted: bool,
    draw: random.Random,
    in_place: bool,
) -> bool:
    if not in_place and draw.random() < 0.5:  # it is written for the first time
        _clear(disk)
    before = files_of(disk)
    left = draw.randrange(size)
    filler = disk.parent / "filler"
    if is_mounted:
        filler = disk / "filler"
        with filler.open("wb") as file:
            free = shutil.disk_usage(disk).free - left
            os.posix_fallocate(file.fileno(), 0, max(4096, free))
        code = run_forked(lambda: _telling(lambda: task(out), disk))
    else:
        code = run_forked(lambda: _limited(lambda: _telling(lambda: task(out), disk), left // 4))
    filler.unlink(missing_ok=True)
    after = files_of(disk)
    # What a command that continues has finished is kept. It is continued below.
    whole = all(after.get(name) == data for name, data in before.items())
    hidden = any(part.startswith(".") for name in after for part in Path(name).parts)
    told = code in (0, TOLD) and (code == 0 or (whole and not hidden))
    return told and run_forked(lambda: task(out)) == 0 and bool(contents(out))


def write_protected(name: str, make: Make, output: str = "out") -> Callable[[Work], Run]:
    """Return an experiment: the folder of the output cannot be written to.

    Args:
        name: The name of the row.
        make: Makes the task.
        output: The name of the output.
    """

    def prepare(work: Work) -> Run:
        folder = work.new(name.replace(" ", "_"))
        task = make(work, folder)
        place = folder / "place"

        def run(cases: range) -> list[Row]:
            good = 0
            for _ in cases:
                place.mkdir()
                place.chmod(0o555)
                code = run_forked(
                    lambda: _as_user(lambda: _telling(lambda: task(place / output), place))
                )
                good += code == TOLD and not any(place.iterdir())
                place.rmdir()
            return [Row(name, len(cases), good, wrong=len(cases) - good)]

        return run

    return prepare


def mount(folder: Path) -> bool:
    """Mount a small disk that only this process and its forks see. Returns whether it could."""
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None)
    return (
        libc.unshare(NEW_NAMESPACE) == 0
        and libc.mount(b"none", b"/", None, PRIVATE, None) == 0
        and libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, f"size={DISK}".encode()) == 0
    )


def unmount(folder: Path) -> None:
    """Unmount a disk."""
    ctypes.CDLL(None).umount2(os.fsencode(folder), DETACH)


def _clear(folder: Path) -> None:
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _telling(task: Callable[[], object], place: Path) -> None:
    """Run a task. Exit with TOLD after an error that a command prints as one sentence, if it names
    the place."""
    try:
        task()
    except (OSError, ValueError) as err:
        sys.exit(TOLD if str(place) in str(err) else 1)


def _limited(task: Callable[[], object], limit: int) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    task()


def _as_user(task: Callable[[], object]) -> None:
    """Run a task without root's right to write everywhere, but with root's files."""
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # the version of the call, this thread
    ctypes.CDLL(None).capset(header, (ctypes.c_uint32 * 6)())
    task()
