"""Warnings for scripts that train with spaCy's defaults, and none for those that do not."""

import logging
from collections.abc import Callable
from pathlib import Path

import pytest
import spacy
from spacy.language import Language
from thinc.api import Adam

from spacy_mslm.model.optimizer import make_adamw
from spacy_mslm.pipeline.saving import safe_save

from ..conftest import make_examples


def messages(caplog: pytest.LogCaptureFixture) -> str:
    told = " ".join(record.getMessage() for record in caplog.records)
    caplog.clear()
    return told


def test_spacys_defaults_are_named_once(
    make_nlp: Callable[..., Language], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    nlp = make_nlp()
    examples = make_examples(nlp)
    with caplog.at_level(logging.WARNING, logger="spacy_mslm"):
        nlp.to_disk(tmp_path / "untrained")
        assert "strings" not in messages(caplog)
        optimizer = Adam(0.001)
        for _ in range(2):
            nlp.update(examples, sgd=optimizer)
        assert messages(caplog).count("spaCy's default optimizer") == 1
        safe_save(nlp, tmp_path / "safe")
        assert messages(caplog) == ""
        for _ in range(2):
            nlp.to_disk(tmp_path / "plain")
        told = messages(caplog)
        assert told.count("vocab/strings.json") == 1 and "safe_save(nlp, path)" in told
        # A pipeline that was only loaded has seen no training text.
        spacy.load(tmp_path / "safe").to_disk(tmp_path / "copy")
        assert messages(caplog) == ""
    # What the warning is about.
    words = {token.text for example in examples for token in example.reference if len(token) > 6}
    plain, safe = (
        (tmp_path / name / "vocab" / "strings.json").read_text("utf8") for name in ("plain", "safe")
    )
    assert all(f'"{word}"' in plain for word in words) and words
    assert not any(f'"{word}"' in safe for word in words)


def test_the_recipe_is_not_warned_of(
    make_nlp: Callable[..., Language], caplog: pytest.LogCaptureFixture
) -> None:
    nlp = make_nlp()
    with caplog.at_level(logging.WARNING, logger="spacy_mslm"):
        nlp.update(make_examples(nlp), sgd=make_adamw(0.001))
        nlp.update(make_examples(nlp), sgd=Adam(0.0001))
    assert "default optimizer" not in messages(caplog)
