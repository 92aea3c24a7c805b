"""The application: what it answers, and what it refuses."""

import logging
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from spacy.language import Language

from spacy_mslm.server.answers import Served
from spacy_mslm.server.app import make_app
from spacy_mslm.server.limits import Limits

from ..conftest import TEXTS

NOTE = TEXTS[0][0]
FAULTY = "qxfaulty"
# Characters of each length in UTF-8 and UTF-16, signs of markup, and words that are entities.
PARTS = [
    "asthma",
    "aspirin",
    "no",
    " ",
    "\n",
    "\u00e9",
    "\u6f22",
    "\U0001f600",
    "\u202e",
    "<b>",
    "&amp;",
    "\x00",
]
WILD = st.lists(st.sampled_from(PARTS) | st.text(max_size=3), max_size=12).map("".join)


def ask(client, *texts, **kwargs):
    return client.post("/v1/entities", json={"texts": list(texts)}, **kwargs)


@pytest.fixture
def faulty(nlp):
    """A pipeline that raises an error with the text."""

    @Language.component("faulty")
    def fail(doc):
        if FAULTY in doc.text:
            raise RuntimeError(f"cannot read {doc.text}")
        return doc

    nlp.add_pipe("faulty", last=True)
    return nlp


def test_answers_are_those_of_the_pipeline(client, nlp):
    texts = [text for text, _ in TEXTS]
    answer = ask(client, *texts)
    assert answer.status_code == 200
    assert answer.json()["pipeline"] == {"name": "tiny", "version": "0.0.0"}
    expected = [
        [(e.text, e.label_, e.start_char, e.end_char) for e in doc.ents] for doc in nlp.pipe(texts)
    ]
    found = answer.json()["documents"]
    keys = ("text", "label", "start", "end")
    assert [[tuple(e[k] for k in keys) for e in d["entities"]] for d in found] == expected
    assert expected[0] and all(0 < e["confidence"] < 1 for d in found for e in d["entities"])


def test_contexts(client):
    (first, second) = ask(client, "no history of asthma .", "had asthma .").json()["documents"]
    assert [e["contexts"] for e in first["entities"]] == [["negated"]]
    assert [e["contexts"] for e in second["entities"]] == [[]]


def test_without_a_context_pipe_contexts_are_unknown(make_client, nlp):
    nlp.remove_pipe("mslm_context")
    (document,) = ask(make_client(), "no history of asthma .").json()["documents"]
    assert [e["contexts"] for e in document["entities"]] == [None]


def test_spans_are_found_where_the_pipe_writes_them(make_client, nlp):
    nlp.get_pipe("mslm").spans_key = "sc"
    (document,) = ask(make_client(), NOTE).json()["documents"]
    assert [e["text"] for e in document["entities"]] == ["acute renal failure", "cisplatin"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(texts=st.lists(WILD, min_size=1, max_size=4))
def test_offsets_count_code_points(client, texts):
    answer = ask(client, *texts)
    assert answer.status_code == 200
    for text, document in zip(texts, answer.json()["documents"], strict=True):
        for entity in document["entities"]:
            assert text[entity["start"] : entity["end"]] == entity["text"]


def test_heatmap_of_two_pipelines(make_client, nlp, train_once):
    client = make_client(Served("one", nlp), Served("two", train_once(5)))
    answer = client.post("/v1/heatmap", json={"text": NOTE})
    assert answer.status_code == 200
    found = answer.json()
    assert found["words"] == NOTE.split()
    assert [reading["name"] for reading in found["readings"]] == ["one", "two"]
    assert all(len(r["confidences"]) == len(found["words"]) for r in found["readings"])
    first = found["readings"][0]["mentions"][0]
    assert found["words"][first["start"] : first["end"]] == ["acute", "renal", "failure"]
    assert found["readings"][0]["confidences"] != found["readings"][1]["confidences"]


# ---- refusals ----


REFUSED = [
    ({}, 422, "texts: Field required."),
    ({"texts": []}, 422, "at least 1 item"),
    ({"texts": "asthma"}, 422, "texts: Input should be a valid list."),
    ({"texts": [7]}, 422, "texts.0: Input should be a valid string."),
    ({"texts": [None]}, 422, "texts.0: Input should be a valid string."),
    ({"txts": ["asthma"]}, 422, "unknown key. Did you mean 'texts'?"),
    ({"texts": ["a"] * 1001}, 422, "at most 1000 items"),
    ({"texts": ["a" * 101]}, 413, "101 characters of text, and 100 are the maximum"),
    ({"texts": ["a" * 60, "b" * 60]}, 413, "120 characters"),
    ({"texts": ["a" * 20_000]}, 413, "bytes. Send fewer or shorter texts"),
    ([1], 422, "must be a JSON object with the key 'texts'"),
]


@pytest.mark.parametrize(("body", "status", "message"), REFUSED)
def test_refused(make_client, body, status, message):
    answer = make_client(characters=100).post("/v1/entities", json=body)
    assert answer.status_code == status
    assert message in answer.json()["detail"]


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b'{"texts": ["qxsecret"', b"null"])
def test_what_is_not_json_is_refused_without_quoting_it(client, content):
    headers = {"Content-Type": "application/json"}
    answer = client.post("/v1/entities", content=content, headers=headers)
    assert answer.status_code in (400, 422) and "qxsecret" not in answer.text


def test_half_a_surrogate_pair_is_refused(client):
    answer = client.post(
        "/v1/entities",
        content=b'{"texts": ["asthma", "ab\\ud83d"]}',
        headers={"Content-Type": "application/json"},
    )
    assert answer.status_code == 422
    assert "Text 1 is not valid Unicode: half a surrogate pair at offset 2" in answer.text
    # A whole one, in the same spelling, is a character.
    answer = client.post(
        "/v1/entities",
        content=b'{"texts": ["\\ud83d\\ude00 asthma"]}',
        headers={"Content-Type": "application/json"},
    )
    assert [e["start"] for e in answer.json()["documents"][0]["entities"]] == [2]


def test_the_longest_request_fits_in_any_spelling(make_client):
    client = make_client(characters=5_000)
    escaped = '{"texts": ["' + "\\ud83d\\ude00" * 5_000 + '"]}'
    headers = {"Content-Type": "application/json"}
    assert client.post("/v1/entities", content=escaped, headers=headers).status_code == 200


def test_a_body_without_a_declared_length_is_limited_too(make_client):
    chunks = (b" " * 1000 for _ in range(100))
    answer = make_client(characters=10).post("/v1/entities", content=chunks)
    assert answer.status_code == 413


def test_a_long_text_has_no_heatmap(client):
    answer = client.post("/v1/heatmap", json={"text": "a" * 20_001})
    assert answer.status_code == 413 and "20,000 are the maximum" in answer.text


def test_unknown_paths_and_methods(client):
    assert client.get("/nothing").status_code == 404
    assert client.get("/docs").status_code == 404  # it would load scripts from another host
    assert client.get("/v1/entities").status_code == 405


# ---- who may use it ----


@pytest.mark.parametrize("host", ["localhost:80", "127.0.0.1", "[::1]:8080", "127.1.2.3"])
def test_this_machine_needs_no_token(client, host):
    assert ask(client, NOTE, headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "[::1", "10.0.0.1"])
def test_another_name_is_refused_without_a_token(client, host):
    answer = ask(client, NOTE, headers={"Host": host})
    assert answer.status_code == 421 and "documents" not in answer.text


def test_token(make_client):
    client = make_client(token="x" * 20, base_url="http://notes.example")
    for path in ("/", "/healthz", "/openapi.json"):
        assert client.get(path).status_code == 200
    for sent in ("", "Bearer ", "Bearer " + "x" * 19, "Basic " + "x" * 20, "Bearer \xe9"):
        headers = {"Authorization": sent.encode("latin1")}
        assert ask(client, NOTE, headers=headers).status_code == 401
        assert client.get("/metrics", headers=headers).status_code == 401
    headers = {"Authorization": "Bearer " + "x" * 20}
    assert ask(client, NOTE, headers=headers).status_code == 200
    assert client.get("/metrics", headers=headers).status_code == 200


# ---- faults ----


def test_a_fault_is_told_without_text(make_client, faulty, caplog):
    client = make_client(Served("faulty", faulty))
    with caplog.at_level(logging.DEBUG):
        answer = ask(client, f"{FAULTY} asthma")
    assert answer.status_code == 500 and "RuntimeError" in answer.text
    assert FAULTY not in answer.text + caplog.text + answer.headers.__repr__()
    assert "RuntimeError at" in caplog.text and "in fail" in caplog.text
    assert answer.headers["cache-control"] == "no-store"
    # It goes on, and the next request is not in the memory zone of the last.
    assert ask(client, NOTE).json()["documents"][0]["entities"]
    metrics = client.get("/metrics").text
    assert 'mslm_requests_total{path="/v1/entities",status="500"} 1.0' in metrics


def test_a_fault_does_not_reach_the_requests_beside_it(make_client, faulty):
    client = make_client(Served("faulty", faulty))
    texts = [NOTE, FAULTY] * 8
    with ThreadPoolExecutor(16) as pool:
        statuses = [answer.status_code for answer in pool.map(lambda t: ask(client, t), texts)]
    assert statuses == [200, 500] * 8


# ---- state ----


def test_memory_of_words_is_freed(client, nlp):
    before = len(nlp.vocab.strings)
    for i in range(20):
        assert ask(client, *(f"word{i}x{j} has asthma" for j in range(20))).status_code == 200
        answer = client.post("/v1/heatmap", json={"text": f"term{i} has asthma"})
        assert answer.status_code == 200
    assert len(nlp.vocab.strings) == before


def test_metrics_count_and_hold_no_text(client):
    ask(client, "qxsecretname had asthma", "no asthma")
    client.get("/qxsecretpath")
    text = client.get("/metrics").text
    assert "mslm_texts_total 2.0" in text and "mslm_entities_total 2.0" in text
    assert 'mslm_requests_total{path="other",status="404"} 1.0' in text
    assert "process_resident_memory_bytes" in text
    assert "qxsecret" not in text


def test_healthz(nlp):
    app = make_app([Served("tiny", nlp)], None, Limits())
    with TestClient(app, base_url="http://localhost") as client:
        assert client.get("/healthz").json() == {"status": "ok"}
    # The application has ended, and with it the thread that reads.
    answer = TestClient(app, base_url="http://localhost").get("/healthz")
    assert answer.status_code == 503


def test_openapi_describes_every_status(client):
    description = client.get("/openapi.json").json()
    assert set(description["paths"]) == {"/v1/entities", "/v1/heatmap", "/healthz", "/metrics"}
    assert set(description["paths"]["/v1/entities"]["post"]["responses"]) >= {
        *("200", "400", "401", "408", "413", "421", "422", "503")
    }


# ---- the page ----


def test_the_page_loads_nothing(client):
    answer = client.get("/")
    assert answer.status_code == 200
    assert not re.findall(r'(?:src|href)="(?!data:,)', answer.text)
    assert not re.findall(r"https?://|url\(|@import|innerHTML", answer.text)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    assert not re.findall(r'\sstyle="|\son\w+="', answer.text)  # the policy forbids them
    assert "{settings}" not in answer.text and "{style}" not in answer.text
