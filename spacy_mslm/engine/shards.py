"""The folder that finished chunks are written to, from which an interrupted run continues:

    folder/
        RECORD                settings, and digests of files
        done/00000.json       written when the files of the first chunk are complete
        .../00000.*           the files of the first chunk, in folders of their own

A chunk writes its files under temporary names and renames them, and its mark in `done` last. So a
chunk that was interrupted, or that two workers have processed, ends with the same files.
"""

import contextlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..util.files import remove_leftovers, replace_file
from ..util.stage_folder import StageFolder

DONE = "done"
PRIVATE = 0o077


@contextlib.contextmanager
def private() -> Iterator[None]:
    """Make files and folders that are created readable by their owner only."""
    mask = os.umask(PRIVATE)
    try:
        yield
    finally:
        os.umask(mask)


def chunk_name(number: int) -> str:
    """Return the stem of the files of a chunk."""
    return f"{number:05}"


class ShardFolder:
    """The finished chunks of a run.

    Args:
        path: The folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def open(self, stage: StageFolder, folders: Sequence[str], force: bool) -> None:
        """Make the folder, or check that it belongs to a run with the same settings and inputs.
        Remove what is unfinished, and what is out of date.

        Args:
            stage: The record of this run.
            folders: The names of the folders with the files of the chunks.
            force: Remove chunks that have other settings instead of raising an error.

        Raises:
            ValueError: If the folder was made with other settings, or by something else.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        record = stage.read()
        if record is not None:
            if not force:
                stage.check(record)
            for name in (DONE, *folders):
                if stage.differences(record):
                    shutil.rmtree(self.path / name, ignore_errors=True)
                for unfinished in (self.path / name).glob(".*"):
                    unfinished.unlink()
        stage.write(stage.settings)
        (self.path / DONE).mkdir(exist_ok=True)

    def clean(self, folders: Sequence[str]) -> None:
        """Remove the temporary files of workers that were killed: they may hold text."""
        for name in (DONE, *folders):
            remove_leftovers(self.path / name)

    def finish(self, number: int, result: dict[str, Any]) -> None:
        """Mark a chunk as finished, after its files are written, with its result."""
        path = self.path / DONE / f"{chunk_name(number)}.json"
        replace_file(path, (json.dumps(result) + "\n").encode("utf8"))

    def finished(self) -> set[int]:
        """Return the numbers of the finished chunks."""
        return {int(path.stem) for path in (self.path / DONE).glob("[0-9]*.json")}

    def results(self) -> Iterator[dict[str, Any]]:
        """Yield the results of the finished chunks, in order."""
        for number in sorted(self.finished()):
            path = self.path / DONE / f"{chunk_name(number)}.json"
            yield json.loads(path.read_text(encoding="utf8"))
