import pytest
from fastapi.testclient import TestClient

from spacy_mslm.server.answers import Served
from spacy_mslm.server.app import make_app
from spacy_mslm.server.limits import Limits


@pytest.fixture
def nlp(train_once):
    """A pipeline that finds the entities of the test texts, and says in which context they are."""
    nlp = train_once(60)
    nlp.add_pipe("mslm_context")
    return nlp


@pytest.fixture
def make_client(nlp):
    """Clients of applications that end with the test."""
    clients = []

    def make(*pipelines, token=None, base_url="http://127.0.0.1", **limits):
        # No test is about the default time, which a busy machine may exceed.
        own = Limits(**{"seconds": 3600, **limits})
        app = make_app(pipelines or [Served("tiny", nlp)], token, own)
        client = TestClient(app, base_url=base_url, raise_server_exceptions=False)
        clients.append(client.__enter__())
        return client

    yield make
    for client in clients:
        client.__exit__()


@pytest.fixture
def client(make_client):
    return make_client()
