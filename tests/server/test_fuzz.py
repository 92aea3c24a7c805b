"""Requests that schemathesis makes from the API's own description: none is a server error."""

import pytest

from spacy_mslm.server.answers import Served
from spacy_mslm.server.app import make_app
from spacy_mslm.server.limits import Limits

EXAMPLES = 150


@pytest.mark.slow
def test_no_request_is_a_server_error(nlp):
    schemathesis = pytest.importorskip("schemathesis", reason="pip install schemathesis")
    from hypothesis import HealthCheck, given, settings
    from schemathesis.checks import not_a_server_error
    from schemathesis.generation import GenerationMode

    app = make_app([Served("tiny", nlp)], None, Limits(characters=2_000))
    schema = schemathesis.openapi.from_asgi("/openapi.json", app, headers={"Host": "127.0.0.1"})
    statuses: dict[int, int] = {}

    def check(case):
        answer = case.call_and_validate(checks=[not_a_server_error], headers={"Host": "127.0.0.1"})
        statuses[answer.status_code] = statuses.get(answer.status_code, 0) + 1

    run = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    for operation in schema.get_all_operations():
        # A request without a body or parameters cannot be wrong.
        modes = GenerationMode if operation.ok().body else [GenerationMode.POSITIVE]
        for mode in modes:
            strategy = operation.ok().as_strategy(generation_mode=mode)
            run(given(case=strategy)(check))()
    print(f"schemathesis: {sum(statuses.values())} cases, by status {statuses}")
    assert statuses[200] > EXAMPLES and statuses[422] > EXAMPLES / 2
    assert max(statuses) < 500
