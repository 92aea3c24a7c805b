"""The server as users start it: the command, a port, a process; and the page in a browser."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from spacy_mslm.cli import app
from spacy_mslm.pipeline.saving import safe_save

from ..commands import SETTINGS
from ..conftest import TEXTS
from .browser import CHROMIUM, CONTROL, SHIFT, browser

CANARY = "qxsecretname"
EMOJI = "\U0001f600 \U0001f468\u200d\u2695\ufe0f <b>asthma</b> \U0001d538 aspirin\nno asthma ."
needs_chromium = pytest.mark.skipif(not CHROMIUM, reason="needs Chromium: apt install chromium")


@pytest.fixture(scope="module")
def model(train_once, tmp_path_factory) -> Path:
    nlp = train_once(60)
    nlp.add_pipe("mslm_context")
    path = tmp_path_factory.mktemp("serve") / "tiny"
    safe_save(nlp, path)
    return path


@pytest.fixture(scope="module")
def server(model, tmp_path_factory) -> Iterator[SimpleNamespace]:
    """A server that compares the pipeline with itself."""
    folder = tmp_path_factory.mktemp("server")
    command = [sys.executable, "-u", "-m", "spacy", "mslm", "serve", str(model), "--port", "0"]
    command += ["--compare", str(model), "--max-chars", "5000", "--timeout", "3600"]
    log = folder / "log"
    environment = {**os.environ, **SETTINGS, "TMPDIR": str(folder)}
    with log.open("w") as file:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=file, text=True, cwd=folder, env=environment
        )
    try:
        # Long messages are wrapped, as the path of the pipeline may be long.
        urls = (re.search(r"http://127\.0\.0\.1:(\d+)/", line) for line in process.stdout)
        url = next(filter(None, urls), None)
        assert url, log.read_text()
        port = int(url[1])
        yield SimpleNamespace(port=port, folder=folder, process=process, log=log)
    finally:
        process.kill()
        process.wait()


def ask(server: SimpleNamespace, path: str, body: Any = None) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    data = None if body is None else json.dumps(body)
    method = "GET" if body is None else "POST"
    connection.request(method, path, data, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    content = answer.read().decode()
    connection.close()
    is_json = answer.headers["Content-Type"] == "application/json"
    return answer.status, json.loads(content) if is_json else content


def test_clients_that_come_together_get_their_own_answers(server):
    texts = [f"{text} {number}" for number, (text, _) in enumerate(TEXTS * 6)]
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda t: ask(server, "/v1/entities", {"texts": [t]}), texts))
    assert {status for status, _ in answers} == {200}
    for text, (_, answer), (_, entities) in zip(texts, answers, TEXTS * 6, strict=True):
        found = [(e["start"], e["end"], e["label"]) for e in answer["documents"][0]["entities"]]
        assert found == entities, text
    batches = re.search(r"mslm_batch_requests_count (\d+)", ask(server, "/metrics")[1])
    assert int(batches[1]) < len(texts)


def test_text_is_in_no_log_and_no_file(server):
    requests = [
        ("/v1/entities", {"texts": [f"Mr {CANARY} had asthma ."]}),
        ("/v1/heatmap", {"text": f"Mr {CANARY} had asthma ."}),
        ("/v1/entities", {"texts": [f"{CANARY} {'a' * 6000}"]}),
        ("/v1/entities", {CANARY: CANARY}),
        ("/v1/entities", {"texts": [f"{CANARY} \ud83d"]}),
        (f"/{CANARY}", {"texts": []}),
    ]
    statuses = [ask(server, path, body)[0] for path, body in requests]
    assert statuses == [200, 200, 413, 422, 422, 404]
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(f"NOT HTTP {CANARY}\r\n\r\n".encode())
        client.recv(1000)
    assert CANARY not in ask(server, "/metrics")[1]
    for path in server.folder.rglob("*"):
        assert not path.is_file() or CANARY.encode() not in path.read_bytes(), path
    log = server.log.read_text()
    assert "Traceback" not in log and "127.0.0.1" not in log


@needs_chromium
def test_page_in_a_browser(server, tmp_path):
    (_, answer) = ask(server, "/v1/entities", {"texts": [EMOJI]})
    expected = [entity["text"] for entity in answer["documents"][0]["entities"]]
    assert "aspirin" in expected  # behind characters of two UTF-16 units
    with browser() as page:
        page.open(f"http://127.0.0.1:{server.port}/", 1280)
        # With the keyboard alone: into the text, type, send.
        page.press("Tab")
        assert page.run("document.activeElement.id") == "text"
        page.type(EMOJI)
        page.press("Enter", CONTROL)
        page.wait_for("!document.getElementById('heatmap').hidden")
        assert page.run("document.activeElement.id") == "found-title"
        marks = "[...document.querySelectorAll('mark')].map(m => m.firstChild.textContent)"
        assert page.run(marks) == expected
        assert page.run("document.querySelectorAll('#marked b, #panels i').length") == 0
        words = "document.querySelectorAll('.panel').length"
        assert page.run(words) == 2
        assert "negated" in page.run("document.getElementById('rows').textContent")
        page.picture(tmp_path / "wide.png")
        for width in (1280, 390, 320):
            page.resize(width)
            page.wait_for(f"window.innerWidth === {width}")
            assert page.run("document.documentElement.scrollWidth") <= width
        # Back to the button, and too much text: a message, and no old results.
        page.run("document.getElementById('text').focus()")
        page.type("a " * 2600)
        page.press("Tab")
        page.press("Enter")
        page.wait_for("document.getElementById('message').classList.contains('error')")
        assert "5,000 are the maximum" in page.run("document.getElementById('message').textContent")
        assert page.run("document.getElementById('results').hidden")
        page.press("Tab", SHIFT)
        assert page.run("document.activeElement.id") == "text"
        assert page.requests and all(
            url.startswith((f"http://127.0.0.1:{server.port}/", "data:,")) for url in page.requests
        )
        refused = [text for text in page.complaints if "413" not in text]
        assert not refused


def test_ctrl_c_ends_the_server(server):
    """The last test of the module."""
    server.process.send_signal(signal.SIGINT)
    assert server.process.wait() == 0
    assert "Traceback" not in server.log.read_text()


# ---- mistakes ----


def fail(*arguments: object, **env: str) -> str:
    result = CliRunner(env=env).invoke(app, ["mslm", "serve", *map(str, arguments)])
    assert result.exit_code == 1 and isinstance(result.exception, SystemExit), result.output
    return " ".join(result.output.split())


def test_another_address_needs_a_token(tmp_path):
    assert "a token is required" in fail("nothing", "--host", "0.0.0.0")
    assert "a token is required" in fail("nothing", "--host", "notes.example")
    (tmp_path / "token").write_text("short\n")
    message = fail("nothing", "--host", "0.0.0.0", "--token-file", tmp_path / "token")
    assert "16 to 256 visible ASCII characters" in message
    assert "16 to 256" in fail("nothing", SPACY_MSLM_TOKEN="two words of a token")
    assert "there is no such file" in fail("nothing", "--token-file", tmp_path / "none")


def test_a_port_in_use(model):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        message = fail(model, "--port", taken.getsockname()[1])
    assert "Address already in use" in message and "Give another --port" in message


def test_a_pipeline_that_cannot_be_served(tmp_path):
    import spacy

    spacy.blank("en").to_disk(tmp_path / "blank")
    assert "has no mslm pipe" in fail(tmp_path / "blank", "--port", 0)
    assert "Can't find model 'nothing'" in fail("nothing", "--port", 0)


def test_the_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert 'pip install "spacy-mslm[serve]"' in fail("nothing")
