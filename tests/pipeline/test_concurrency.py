"""One pipeline in many threads, in worker processes and in copies gives the same answers."""

import copy
import json
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from ..commands import run_python
from ..conftest import TEXTS
from ..helpers import WORKERS, answers, train

SENTENCES = [text for text, _ in TEXTS]


@pytest.fixture
def trained(train_once):
    """The encoder's config has dropout: were it on in a prediction, the answer would differ."""
    steps = {"warmup_steps": 0, "total_steps": 30}
    schedule = {"@schedules": "warmup_linear.v1", "initial_rate": 0.5, **steps}
    weights = {"mlm": schedule, "ed": 1.0, "el": 1.0}
    nlp = train_once(30, drop=0.1, token_probabilities=True, loss_weights=weights)
    assert nlp.get_pipe("mslm").model.shims[0].network.lm.config.hidden_dropout_prob == 0.1
    assert any(doc.ents for doc in nlp.pipe(SENTENCES))
    return nlp


def test_threads_agree_with_one(trained):
    expected = {text: answers([trained(text)]) for text in SENTENCES}

    def ask(start: int) -> list[bool]:
        texts = [SENTENCES[(start + i) % len(SENTENCES)] for i in range(40)]
        return [answers([trained(text)]) == expected[text] for text in texts]

    with ThreadPoolExecutor(4) as pool:
        right = [agrees for thread in pool.map(ask, range(4)) for agrees in thread]
    assert len(right) == 160 and all(right)


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_worker_processes_agree_with_one(method, trained, tmp_path):
    """After torch has used its threads in the parent, which a fork does not have."""
    if method == "fork" and sys.platform != "linux":
        pytest.skip("fork is not safe here")
    trained.to_disk(tmp_path / "model")
    script = tmp_path / "workers.py"
    script.write_text(WORKERS)
    texts = [text * 4 for text in SENTENCES] * 3
    done = run_python(script, method, tmp_path / "model", json.dumps(texts), fresh=True)
    assert done.returncode == 0, done.stderr
    alone, spread = json.loads(done.stdout)
    assert len(spread) == len(texts) and any(spread)
    # The workers have one thread each: torch may sum up in another order.
    for entities, expected in zip(spread, alone, strict=True):
        assert [e[:3] for e in entities] == [e[:3] for e in expected]
        assert [e[3] for e in entities] == pytest.approx([e[3] for e in expected], abs=1e-3)


def _pickled(pipe):
    return pickle.loads(pickle.dumps(pipe))


@pytest.mark.parametrize("copied", [_pickled, copy.deepcopy])
def test_copies_agree(copied, trained):
    pipe = trained.get_pipe("mslm")
    expected = answers(trained.pipe(SENTENCES))
    twin = copied(pipe)
    docs = [trained.make_doc(text) for text in SENTENCES]
    assert answers(twin.pipe(docs)) == expected
    # A copy and not another name: what one learns does not reach the other.
    train(trained, steps=3)
    docs = [trained.make_doc(text) for text in SENTENCES]
    assert answers(twin.pipe(docs)) == expected != answers(trained.pipe(SENTENCES))
