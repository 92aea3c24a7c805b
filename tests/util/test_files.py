"""Files and folders are replaced in one step, and what killed processes leave is removed."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from spacy_mslm.util import files
from spacy_mslm.util.files import (
    mode_like,
    remove_leftovers,
    replace_file,
    replaced_file,
    replaced_folder,
)

from ..commands import run_python

needs_locks = pytest.mark.skipif(files.fcntl is None, reason="has no locks")


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def in_killed_process(run: Callable[[], None]) -> None:
    """Run a function in a fork, which is killed at its end."""
    child = os.fork()
    if child == 0:
        try:
            run()
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL


def leave_file(path: Path) -> None:
    def run() -> None:
        with replaced_file(path) as file:
            file.write(b"unfinished")
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)

    in_killed_process(run)


def leave_folder(path: Path) -> None:
    def run() -> None:
        with replaced_folder(path) as temporary:
            (temporary / "file").write_text("unfinished")
            os.kill(os.getpid(), signal.SIGKILL)

    in_killed_process(run)


@needs_locks
def test_leftovers_of_killed_processes_are_removed(tmp_path):
    for leave, path in ((leave_file, tmp_path / "a.txt"), (leave_folder, tmp_path / "model")):
        leave(path)
        (name,) = names(tmp_path)  # the second process removes what the first one left
        assert name.startswith(f".{path.name}.") and name.endswith(".partial")
        assert (tmp_path / name).stat().st_mode & 0o077 == 0  # text may be in it
    replace_file(tmp_path / "b.txt", b"b")
    assert names(tmp_path) == ["b.txt"]
    leave_folder(tmp_path / "model")
    with replaced_folder(tmp_path / "model") as temporary:
        (temporary / "file").write_text("whole")
    assert names(tmp_path) == ["b.txt", "model"]


@needs_locks
def test_temporary_files_of_running_processes_stay(tmp_path):
    """As do files of others that look similar."""
    (tmp_path / ".notes.partial").write_text("not ours")
    with replaced_file(tmp_path / "a") as file, replaced_folder(tmp_path / "b") as folder:
        file.write(b"whole")
        (folder / "c").write_text("whole")
        code = "import sys, pathlib; from spacy_mslm.util.files import remove_leftovers as remove; "
        assert (
            run_python("-c", code + "remove(pathlib.Path(sys.argv[1]))", tmp_path).returncode == 0
        )
        remove_leftovers(tmp_path)
    assert names(tmp_path) == [".notes.partial", "a", "b"]
    assert (tmp_path / "a").read_bytes() == b"whole" and names(tmp_path / "b") == ["c"]


@pytest.mark.skipif(os.name != "posix", reason="has other permissions")
def test_a_folder_keeps_its_permissions(tmp_path):
    (tmp_path / "private").mkdir(mode=0o700)
    with replaced_folder(tmp_path / "private") as temporary:
        (temporary / "file").write_text("new")
    assert (tmp_path / "private").stat().st_mode & 0o777 == 0o700


FULL = """
import resource, shutil, signal, sys
from pathlib import Path
import numpy as np, torch, safetensors.torch
from spacy_mslm.util.files import replace_file, replaced_folder

folder, source = map(Path, sys.argv[1:])
source.mkdir()
(source / "file").write_bytes(bytes(5000))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
def python(path): path.write_bytes(bytes(5000))
def rust(path): safetensors.torch.save_file({"a": torch.zeros(5000)}, path)
def copy(path): shutil.copytree(source, path)
for write in (python, rust, copy):
    try:
        with replaced_folder(folder / "model") as temporary:
            write(temporary / "file")
    except OSError as err:
        print(err)
try:
    replace_file(folder / "file", bytes(5000))
except OSError as err:
    print(err)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits the size of files")
def test_full_disk_is_an_error_that_names_the_target(tmp_path):
    """Whatever library writes. Nothing is left."""
    folder = tmp_path / "folder"
    folder.mkdir()
    done = run_python("-c", FULL, folder, tmp_path / "source")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines == [
        f"[Errno 27] File too large: '{folder / name}'" for name in (*["model"] * 3, "file")
    ]
    assert names(folder) == []


def test_long_names_are_written(tmp_path):
    name = "é" * 120
    replace_file(tmp_path / name, b"x")
    assert names(tmp_path) == [name]


@pytest.mark.skipif(os.name != "posix", reason="has other permissions")
def test_text_of_a_private_source_stays_private(tmp_path):
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "a.txt").chmod(0o600)
    assert mode_like(tmp_path / "a.txt") == 0o600
    tmp_path.chmod(0o755)
    assert mode_like(tmp_path) == 0o600  # a file in it is private
    (tmp_path / "a.txt").chmod(0o644)
    assert mode_like(tmp_path) == mode_like(tmp_path / "a.txt") == 0o666
