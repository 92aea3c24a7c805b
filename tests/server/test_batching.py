"""The queue: requests that come together are read together, and it is bounded."""

import threading

import pytest

from spacy_mslm.server.batching import Batcher, Busy, Job, answer


class Gate:
    """Reads texts, and waits in the first call until it is opened."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.entered, self.opened = threading.Event(), threading.Event()

    def __call__(self, texts):
        self.calls.append(list(texts))
        self.entered.set()
        assert self.opened.wait(300)
        return [text.upper() for text in texts]


@pytest.fixture
def gate():
    return Gate()


@pytest.fixture
def batcher():
    sizes = []
    made = Batcher(4, sizes.append)
    made.sizes = sizes
    yield made
    made.close()


def test_what_has_come_is_read_together(batcher, gate):
    first = batcher.submit(gate, ["a"])
    assert gate.entered.wait(300)
    others = [batcher.submit(gate, texts) for texts in (["b", "c"], ["d"], ["e", "f", "g"])]
    assert batcher.waiting == 3
    gate.opened.set()
    assert first.result(300) == ["A"]
    assert [future.result(300) for future in others] == [["B", "C"], ["D"], ["E", "F", "G"]]
    assert gate.calls == [["a"], ["b", "c", "d", "e", "f", "g"]]
    assert batcher.sizes == [1, 3]


def test_other_work_is_not_in_the_batch(batcher, gate):
    batcher.submit(gate, ["a"])
    assert gate.entered.wait(300)
    future = batcher.submit(lambda texts: [len(text) for text in texts], ["bcd"])
    batcher.submit(gate, ["e"])
    gate.opened.set()
    assert future.result(300) == [3]


def test_a_full_queue_refuses(batcher, gate):
    batcher.submit(gate, ["a"])
    assert gate.entered.wait(300)
    waiting = [batcher.submit(gate, ["b"]) for _ in range(4)]
    with pytest.raises(Busy):
        batcher.submit(gate, ["c"])
    waiting[1].cancel()  # its client has gone: nothing is read for it
    gate.opened.set()
    assert waiting[3].result(300) == ["B"]
    assert gate.calls == [["a"], ["b", "b", "b"]]
    assert batcher.submit(gate, ["d"]).result(300) == ["D"]


def test_a_batch_is_bounded(batcher, gate):
    batcher.submit(gate, ["a"])
    assert gate.entered.wait(300)
    long = [batcher.submit(gate, ["b" * 30_000]) for _ in range(4)]
    gate.opened.set()
    assert [len(future.result(300)[0]) for future in long] == [30_000] * 4
    assert [len(call) for call in gate.calls] == [1, 2, 2]


def test_a_closed_queue_answers_all_that_wait(gate):
    batcher = Batcher(4, lambda size: None)
    first = batcher.submit(gate, ["a"])
    assert gate.entered.wait(300)
    second = batcher.submit(gate, ["b"])
    closing = threading.Thread(target=batcher.close)
    closing.start()
    with pytest.raises(Busy):
        second.result(300)
    gate.opened.set()
    closing.join(300)
    assert first.result(300) == ["A"] and not batcher.alive
    with pytest.raises(Busy):
        batcher.submit(gate, ["c"])


def test_only_the_request_that_fails_fails():
    def read(texts):
        if "bad" in texts:
            raise ValueError
        return [text.upper() for text in texts]

    jobs = [Job(read, texts) for texts in (["a"], ["b", "bad"], ["c"])]
    for job in jobs:
        job.future.set_running_or_notify_cancel()
    answer(jobs)
    assert jobs[0].future.result() == ["A"] and jobs[2].future.result() == ["C"]
    assert isinstance(jobs[1].future.exception(), ValueError)
