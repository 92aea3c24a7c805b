"""Limits of time: a request that arrives slowly, a pipeline that is slow, a queue that is full."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from spacy.language import Language

from spacy_mslm.server.limits import BodyLimit, Limits

from .test_app import NOTE, ask


class Slow:
    """A pipe that waits at each text until it is opened."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.entered, self.opened = threading.Event(), threading.Event()

    def __call__(self, doc):
        self.texts.append(doc.text)
        self.entered.set()
        assert self.opened.wait(300)
        return doc


@pytest.fixture
def slow(nlp):
    pipe = Slow()
    Language.component("slow", func=pipe)
    nlp.add_pipe("slow", first=True)
    yield pipe
    pipe.opened.set()


def wait_for(client, line: str) -> None:
    """Wait until a line is in the figures."""
    while line not in client.get("/metrics").text:
        time.sleep(0.02)


def test_a_slow_pipeline_is_busy(make_client, slow):
    client = make_client(seconds=0.2)
    while not slow.entered.is_set():  # on a busy machine the time may end before it is read
        answer = ask(client, "first")
        assert answer.status_code == 503 and answer.headers["retry-after"] == "1"
    assert ask(client, "second").status_code == 503  # it waits behind the first
    wait_for(client, "mslm_waiting_requests 1.0")
    slow.opened.set()
    wait_for(client, "mslm_waiting_requests 0.0")
    # Nobody waits for the second any more, so it is not read.
    assert slow.texts == ["first"]


def test_a_full_queue_is_busy(make_client, slow):
    client = make_client(waiting=2)
    with ThreadPoolExecutor(8) as pool:
        jobs = [pool.submit(ask, client, NOTE)]
        assert slow.entered.wait(300)
        jobs += [pool.submit(ask, client, NOTE) for _ in range(2)]
        wait_for(client, "mslm_waiting_requests 2.0")
        refused = ask(client, NOTE)
        assert client.get("/healthz").status_code == 200
        slow.opened.set()
        assert [job.result().status_code for job in jobs] == [200] * 3
    assert refused.status_code == 503 and refused.headers["retry-after"] == "1"
    assert "Try again" in refused.json()["detail"]


def test_a_slow_request_is_ended():
    async def app(scope, receive, send):
        raise AssertionError("the request is not complete")

    async def receive():
        await asyncio.sleep(3600)

    sent = []

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "POST", "headers": []}
    asyncio.run(BodyLimit(app, Limits(seconds=0.1))(scope, receive, send))
    assert sent[0]["status"] == 408 and b"within 0.1 seconds" in sent[1]["body"]


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"characters": 0}, "--max-chars"),
        ({"seconds": 0}, "--timeout"),
        ({"waiting": 0}, "--max-w"),
    ],
)
def test_limits_are_checked(settings, name):
    with pytest.raises(ValueError, match=name):
        Limits(**settings)
