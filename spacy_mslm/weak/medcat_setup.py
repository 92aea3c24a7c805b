"""An environment for MedCAT, of its own: it needs another numpy than scispaCy."""

import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

from ..util.files import replace_file

MEDCAT_VERSION = "2.9.0"
# MedCAT would ask PyPI for news whenever it is imported.
OFFLINE = {"MEDCAT_DISABLE_VERSION_CHECK": "true"}

# An environment cannot be moved once it is there, so it is made in place. What its folder holds is
# trusted only when this file, which is there from the start, says so.
MARKER = "medcat-setup.json"


def setup_medcat(
    folder: Path, version: str = MEDCAT_VERSION, extras: Sequence[str] = ("spacy",)
) -> Path:
    """Make a virtual environment with MedCAT in it, from PyPI. One that is there stays; one that
    was not finished, or has another version, is made anew. Returns the folder.

    extras: of MedCAT. Model packs have a tokenizer of spaCy's, as a rule; `meta-cat` and others,
        which bring torch along, are for what the annotator does not use.
    """
    folder = folder.absolute()
    done = {"medcat": version, "extras": sorted(extras)}
    if _read_marker(folder) == done and environment_python(folder).exists():
        return folder
    _clear(folder)
    try:
        venv.EnvBuilder(with_pip=True, symlinks=os.name != "nt").create(folder)
        names = f"[{','.join(sorted(extras))}]" if extras else ""
        python = str(environment_python(folder))
        _run([python, "-m", "pip", "install", "--quiet", f"medcat{names}=={version}"])
        _run([python, "-I", "-c", "import medcat.cat"])
    except (OSError, subprocess.CalledProcessError) as err:
        message = (
            f"MedCAT {version} cannot be installed in {folder} ({_reason(err)}). Check that "
            "PyPI can be reached, and start medcat-setup again."
        )
        raise RuntimeError(message) from err
    replace_file(folder / MARKER, json.dumps(done).encode())
    return folder


def is_ready(folder: Path) -> bool:
    """Whether a set-up of this folder was finished."""
    return bool(_read_marker(folder)) and environment_python(folder).exists()


def environment_python(folder: Path) -> Path:
    if sys.platform == "win32":
        return folder / "Scripts" / "python.exe"
    return folder / "bin" / "python"


def _read_marker(folder: Path) -> object:
    """What was installed; nothing while it is not finished."""
    try:
        return json.loads((folder / MARKER).read_bytes())
    except (OSError, ValueError):
        return None


def _clear(folder: Path) -> None:
    """Begin anew. Only what was made here is ever deleted."""
    if folder.is_dir():
        is_ours = (folder / MARKER).exists() or not any(folder.iterdir())
    else:
        is_ours = not folder.exists()
    if not is_ours:
        raise ValueError(
            f"{folder} is there already, and was not made by medcat-setup. It stays as it is: "
            "give another folder."
        )
    folder.mkdir(parents=True, exist_ok=True)
    replace_file(folder / MARKER, json.dumps(None).encode())
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != MARKER:
            path.unlink()


def _run(command: list[str]) -> None:
    subprocess.run(
        command,
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env={**os.environ, **OFFLINE},
    )


def _reason(err: Exception) -> str:
    """The last that a command has said, else the error itself."""
    output = getattr(err, "stderr", None) or ""
    errors = [line for line in output.splitlines() if line.lower().startswith("error")]
    lines = errors or [line for line in output.splitlines() if line.strip()]
    return lines[-1].strip() if lines else str(err)
