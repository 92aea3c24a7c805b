"""Installation of MedCAT in a separate environment, as it needs another numpy than scispaCy."""

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
# Keeps MedCAT from asking PyPI for new versions when it is imported.
OFFLINE = {"MEDCAT_DISABLE_VERSION_CHECK": "true"}

# An environment cannot be moved, so it is made in place. This file marks the folder as ours from
# the start, and records the installation when it is finished.
MARKER = "medcat-setup.json"


def setup_medcat(
    folder: Path, version: str = MEDCAT_VERSION, extras: Sequence[str] = ("spacy",)
) -> Path:
    """Make a virtual environment and install MedCAT from PyPI. Skipped when up to date; an
    unfinished environment, or one with another version, is replaced.

    folder: Folder of the environment.
    version: MedCAT version.
    extras: Extras of MedCAT. Most model packs need `spacy` for their tokenizer. Others, such as
        `meta-cat`, install torch for features that the annotator does not use.

    Returns the absolute path of the folder.
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
        raise RuntimeError(
            f"MedCAT {version} could not be installed in {folder} ({_reason(err)}). Check that "
            "PyPI can be reached, and run medcat-setup again."
        ) from err
    replace_file(folder / MARKER, json.dumps(done).encode())
    return folder


def is_ready(folder: Path) -> bool:
    """Return whether a folder has a finished installation."""
    return bool(_read_marker(folder)) and environment_python(folder).exists()


def environment_python(folder: Path) -> Path:
    """Return the path of an environment's interpreter."""
    if sys.platform == "win32":
        return folder / "Scripts" / "python.exe"
    return folder / "bin" / "python"


def _read_marker(folder: Path) -> object:
    """Return what is installed; None if the installation is not finished."""
    try:
        return json.loads((folder / MARKER).read_bytes())
    except (OSError, ValueError):
        return None


def _clear(folder: Path) -> None:
    """Empty the folder. Raises a ValueError if medcat-setup did not make it."""
    if folder.is_dir():
        is_ours = (folder / MARKER).exists() or not any(folder.iterdir())
    else:
        is_ours = not folder.exists()
    if not is_ours:
        raise ValueError(
            f"{folder} exists, and was not made by medcat-setup. It was not changed: give another "
            "folder."
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
    """Return the last error line of a command's output, or else the exception's message."""
    output = getattr(err, "stderr", None) or ""
    errors = [line for line in output.splitlines() if line.lower().startswith("error")]
    lines = errors or [line for line in output.splitlines() if line.strip()]
    return lines[-1].strip() if lines else str(err)
