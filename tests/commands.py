"""Run Python commands in processes that need not import torch and spaCy again.

Most of a command's time in these tests would be its imports (4 to 8 s). So one process per pytest
worker imports them once and forks for each command:

    tests ── run_python("-m", "spacy", ...) ──> server (has imported torch, spaCy, ...)
                                                  └─ fork ──> runs the command, exits

A command still has a process, an environment and a working directory of its own, and goes through
the same entry point as in a shell. What a fork cannot show (import time, hash seeds, a fault at
start-up) is tested with `fresh=True`, which starts a new interpreter.
"""

import atexit
import gc
import importlib
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).parents[1]
# What takes long to import; our own package is imported by each command.
PRELOAD = ["torch", "spacy.cli", "spacy_transformers", "transformers.models.bert", "pysbd"]
SETTINGS = {"NO_COLOR": "1", "ANSI_COLORS_DISABLED": "1", "PYTHONIOENCODING": "utf8"}
SETTINGS["HF_HUB_OFFLINE"] = "1"


def run_python(
    *arguments: object, cwd: Path | None = None, fresh: bool = False, **env: str
) -> subprocess.CompletedProcess[str]:
    """Run `python ARGUMENTS` and capture its output.

    Args:
        arguments: `-m MODULE ...`, `-c CODE ...` or `SCRIPT ...`.
        cwd: The working directory.
        fresh: Start a new interpreter.
        env: Additional environment variables.

    Returns:
        The finished process, as from `subprocess.run(..., text=True)`.
    """
    command = [sys.executable, *map(str, arguments)]
    environment = {**os.environ, **SETTINGS, **env}
    if fresh or sys.platform != "linux":
        return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    with tempfile.TemporaryDirectory() as folder:
        outputs = [Path(folder, name) for name in ("stdout", "stderr")]
        code = _Server.get().run(
            arguments=command[1:],
            cwd=str(cwd or Path.cwd()),
            env=environment,
            outputs=[str(path) for path in outputs],
        )
        stdout, stderr = (path.read_text("utf8") for path in outputs)
    return subprocess.CompletedProcess(command, code, stdout, stderr)


def run_spacy(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    """Run `python -m spacy ARGUMENTS`; options are those of `run_python`."""
    return run_python("-m", "spacy", *arguments, **options)


class _Server:
    """The process that forks, as the tests see it."""

    current: "_Server | None" = None

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.commands"],
            cwd=ROOT,
            env={**os.environ, **SETTINGS},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        atexit.register(self.stop)

    @classmethod
    def get(cls) -> "_Server":
        if cls.current is None:
            cls.current = cls()
        return cls.current

    def run(self, **job: object) -> int:
        """Run a job; its exit code. A test that is interrupted ends the server and the job."""
        assert self.process.stdin and self.process.stdout
        try:
            self.process.stdin.write(json.dumps(job) + "\n")
            self.process.stdin.flush()
            code = self.process.stdout.readline()
            assert code, f"the process that forks has ended: {self.process.wait()}"
            return int(code)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the server, and the job that it may wait for."""
        type(self).current = None
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def _serve() -> None:
    """Fork for each job of stdin, answer with its exit code."""
    jobs, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    for line in jobs:
        child = os.fork()
        if child == 0:
            jobs.close()
            answers.close()
            _end(_execute, json.loads(line))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), file=answers, flush=True)


def _execute(job: dict) -> None:
    """Run the job in this process as `python ARGUMENTS` does."""
    os.chdir(job["cwd"])
    os.environ.clear()
    os.environ.update(job["env"])
    for target, path in zip((1, 2), job["outputs"], strict=True):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), target)
    kind, *rest = job["arguments"]
    if kind == "-m":
        sys.argv, sys.path[0] = rest, job["cwd"]
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.argv, sys.path[0] = ["-c", *rest[1:]], job["cwd"]
        exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv, sys.path[0] = [kind, *rest], str(Path(kind).resolve().parent)
        runpy.run_path(kind, run_name="__main__")


def _end(target: Callable, *arguments: object) -> NoReturn:
    """Call a function, then exit as the interpreter does, except that it would take 0.4 s to free
    all that was imported."""
    code: object = 0
    try:
        target(*arguments)
    except SystemExit as ended:
        code = ended.code or 0
        if not isinstance(code, int):
            print(code, file=sys.stderr)
    except BaseException:
        code = 1
        sys.excepthook(*sys.exc_info())
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 1)


if __name__ == "__main__":
    for name in PRELOAD:
        with suppress(ImportError):  # the command that needs it says so
            importlib.import_module(name)
    gc.freeze()  # the forks share what was imported
    _serve()
