"""Commands on a disk that is full, or in a folder that cannot be written to (Linux only).

A process gets a mount namespace of its own with a small disk in memory, which no other process
sees:

    copy folders to it ──> fill it but for some bytes ──> run the command ──> say what is there
"""

import ctypes
import json
import os
import runpy
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from .commands import ROOT, run_python

NEW_NAMESPACE, PRIVATE = 0x20000, (1 << 18) | (1 << 14)  # CLONE_NEWNS, MS_PRIVATE | MS_REC
CAPABILITIES = 0x20080522  # _LINUX_CAPABILITY_VERSION_3
NO_MOUNT = 77


class OnDisk(NamedTuple):
    """How a command ended, what it said, and the files of the disk before and after it."""

    code: int
    said: str
    before: dict[str, str]
    after: dict[str, str]


def can_mount() -> bool:
    """Return whether this user may mount a disk."""
    return run_python("-m", "tests.disk", "check", cwd=ROOT).returncode == 0


def run_on_full_disk(
    place: Path, free: int, command: Sequence[object], copied: Path | None = None
) -> OnDisk:
    """Run a command of spaCy where no space is left.

    Args:
        place: The folder to mount the disk at.
        free: The number of bytes that are left.
        command: The arguments of `python -m spacy`.
        copied: A folder that is copied to the disk before it is full.
    """
    place.mkdir(exist_ok=True)
    job = {"place": str(place), "free": free, "copied": copied and str(copied)}
    job |= {"command": [str(a) for a in command]}
    done = run_python("-m", "tests.disk", json.dumps(job), cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    return OnDisk(**json.loads(done.stdout.rpartition("\n@")[2]))


def run_as_user(*arguments: object) -> tuple[int, str]:
    """Run a command of spaCy without root's right to write everywhere."""
    job = {"command": [str(a) for a in arguments], "place": None}
    done = run_python("-m", "tests.disk", json.dumps(job), cwd=ROOT)
    return done.returncode, done.stdout + done.stderr


# ---- in a process of its own ----


def _mount(place: str) -> bool:
    libc = ctypes.CDLL(None)
    return (
        libc.unshare(NEW_NAMESPACE) == 0
        and libc.mount(b"none", b"/", None, PRIVATE, None) == 0
        and libc.mount(b"tmpfs", os.fsencode(place), b"tmpfs", 0, b"size=64m") == 0
    )


def _files(place: Path) -> dict[str, str]:
    return {
        str(path.relative_to(place)): path.read_bytes().hex()[:2000] + str(path.stat().st_size)
        for path in sorted(place.rglob("*"))
        if path.is_file()
    }


def _run(arguments: list[str], log: Path) -> int:
    """Run `python -m spacy` in a fork, because a command ends its process."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    code = 0
    try:
        sys.argv = ["spacy", *arguments]
        runpy.run_module("spacy", run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 70
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _on_full_disk(job: dict) -> None:
    place = Path(job["place"])
    assert _mount(job["place"])
    log = place.with_name("log.txt")
    if job["copied"]:
        shutil.copytree(job["copied"], place / Path(job["copied"]).name)
    before = _files(place)
    with (place / "filler").open("wb") as filler:
        os.posix_fallocate(filler.fileno(), 0, shutil.disk_usage(place).free - job["free"])
    code = _run(job["command"], log)
    (place / "filler").unlink()
    found = OnDisk(code, log.read_text(), before, _files(place))
    print(f"\n@{json.dumps(found._asdict())}")


def _as_user(arguments: list[str]) -> None:
    header = (ctypes.c_uint32 * 2)(CAPABILITIES, 0)
    ctypes.CDLL(None).capset(header, (ctypes.c_uint32 * 6)())
    sys.argv = ["spacy", *arguments]
    runpy.run_module("spacy", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    if sys.argv[1] == "check":
        sys.exit(0 if _mount("/tmp") else NO_MOUNT)
    _job = json.loads(sys.argv[1])
    if _job["place"] is None:
        _as_user(_job["command"])
    else:
        _on_full_disk(_job)
