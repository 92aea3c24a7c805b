"""Chunks and workers: every chunk is processed, whatever dies."""

import os
import signal
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_mslm.engine.chunks import Chunk, Work, divide
from spacy_mslm.engine.local import Processes, ThisProcess
from spacy_mslm.engine.place import Engine, Place
from spacy_mslm.engine.schedule import WorkerLost, run_chunks


class Text(NamedTuple):
    id: str
    text: str


def texts(sizes: list[int]) -> list[Text]:
    return [Text(f"d{i}", "x" * size) for i, size in enumerate(sizes)]


@given(st.lists(st.integers(0, 9)), st.integers(1, 5), st.none() | st.integers(1, 20))
def test_chunks_hold_every_document_once_and_in_order(sizes, size, characters):
    documents = texts(sizes)
    chunks = list(divide(documents, size, characters))
    assert [document for chunk in chunks for document in chunk.documents] == documents
    assert [chunk.number for chunk in chunks] == list(range(len(chunks)))
    for chunk in chunks:
        assert 0 < len(chunk.documents) <= size
        # Only the last document of a chunk may exceed the limit.
        before = sum(len(document.text) for document in chunk.documents[:-1])
        assert characters is None or before < characters


class Mortal:
    """Workers in this process that die when they are given some chunks."""

    attempts = 3
    patience = 60.0

    def __init__(self, number: int, deaths: dict[int, int]) -> None:
        self.number = number
        self.deaths = dict(deaths)  # how often each chunk kills its worker
        self.alive = 0

    def start(self, start: Callable[[], Work]) -> "MortalWorker":
        self.alive += 1
        assert self.alive <= self.number
        return MortalWorker(self, start())


class MortalWorker:
    def __init__(self, workers: Mortal, work: Work) -> None:
        self.workers = workers
        self.work = work
        self.ready: Future = Future()
        self.ready.set_result(None)

    def submit(self, chunk: Chunk) -> Future:
        future: Future = Future()
        if self.workers.deaths.get(chunk.number, 0):
            self.workers.deaths[chunk.number] -= 1
            future.set_exception(WorkerLost())
        else:
            future.set_result(self.work(chunk))
        return future

    def stop(self) -> None:
        self.workers.alive -= 1


def number_of(chunk: Chunk) -> int:
    return chunk.number


@given(
    st.integers(0, 12),
    st.integers(1, 4),
    st.dictionaries(st.integers(0, 11), st.integers(1, 4)),
)
def test_every_chunk_is_processed_once_or_given_up(n, number, deaths):
    workers = Mortal(number, deaths)
    found: list[int] = []
    fatal = sorted(i for i, times in deaths.items() if times >= Mortal.attempts and i < n)
    chunks = divide(texts([1] * n), 1)
    try:
        for result in run_chunks(workers, lambda: number_of, chunks):
            found.append(result)
        assert not fatal
    except ValueError as error:
        assert fatal and "died 3 times" in str(error) and "begins with the document d" in str(error)
    assert sorted(found) == sorted(set(range(n)) - set(fatal))
    assert workers.alive == 0


def test_an_error_of_the_work_stops_it():
    def fail(chunk: Chunk) -> int:
        if chunk.number == 2:
            raise ValueError("Give another path.")
        return chunk.number

    found: list[int] = []
    with pytest.raises(ValueError, match=r"Give another path\."):
        found.extend(run_chunks(ThisProcess(), lambda: fail, divide(texts([1] * 5), 1)))


def test_settings_of_ray_need_ray():
    for settings in ({"address": "10.0.0.1:6379"}, {"gpus": 1.0}):
        with pytest.raises(ValueError, match="--engine ray"):
            Place(**settings)
    assert Place(Engine.ray, gpus=0.5).gpus == 0.5


# ---- processes ----


def deadly(folder: Path) -> Work:
    return partial(die_sometimes, folder)


def die_sometimes(folder: Path, chunk: Chunk) -> int:
    """Chunk 1 kills its process once, chunk 3 always."""
    mark = folder / str(chunk.number)
    if chunk.number == 3 or (chunk.number == 1 and not mark.exists()):
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return chunk.number


@pytest.mark.slow
def test_a_chunk_that_kills_its_process_is_tried_again_alone(tmp_path, caplog):
    found: list[int] = []
    with pytest.raises(ValueError, match="begins with the document d3"):
        for n in run_chunks(Processes(2), partial(deadly, tmp_path), divide(texts([1] * 6), 1)):
            found.append(n)
    assert sorted(found) == [0, 1, 2, 4, 5]
    told = [record.message for record in caplog.records]
    assert sum("chunk 1 (attempt 1 of 2)" in message for message in told) == 1
    assert sum("chunk 3 (attempt 2 of 2)" in message for message in told) == 1


def refuse() -> Work:
    raise ValueError("There is no pipeline here.")


@pytest.mark.slow
def test_an_error_at_the_start_of_a_process_is_told():
    with pytest.raises(ValueError, match=r"There is no pipeline here\."):
        list(run_chunks(Processes(2), refuse, divide(texts([1] * 2), 1)))
