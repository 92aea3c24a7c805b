import io
import json
from pathlib import Path
from typing import Any

import pytest
import spacy
from spacy.language import Language
from spacy.training import Example
from spacy.training.initialize import init_nlp
from spacy.training.loop import train
from spacy.util import load_model_from_config
from thinc.api import Config

from spacy_mslm.training.logger import console_logger

TRAIN_TEXTS = [
    ("fever and cough", [(0, 5, "SIGN"), (10, 15, "SIGN")]),
    ("no cough", [(3, 8, "SIGN")]),
    ("takes aspirin", [(6, 13, "DRUG")]),
    ("well today", []),
]
CONFIG = """
[nlp]
lang = "en"
pipeline = ["ner"]

[components]

[components.ner]
factory = "ner"

[components.ner.model]
@architectures = "spacy.TransitionBasedParser.v2"
state_type = "ner"
extra_state_tokens = false
hidden_width = 8
maxout_pieces = 1
use_upper = true

[components.ner.model.tok2vec]
@architectures = "spacy.HashEmbedCNN.v2"
width = 8
depth = 1
embed_size = 50
window_size = 1
maxout_pieces = 1
subword_features = false
pretrained_vectors = null

[corpora]

[corpora.train]
@readers = "test_logger_corpus"

[corpora.dev]
@readers = "test_logger_corpus"

[training]
max_steps = 4
eval_frequency = 2
train_corpus = "corpora.train"
dev_corpus = "corpora.dev"

[training.batcher]
@batchers = "spacy.batch_by_sequence.v1"
size = 2

[training.score_weights]
ents_f = 1.0
ents_p = 0.0
ents_r = null
ents_per_type = null

[training.logger]
@loggers = "spacy_mslm.ConsoleLogger.v1"
"""


@spacy.registry.readers("test_logger_corpus")
def _make_corpus() -> Any:
    def read(nlp: Language) -> Any:
        for text, entities in TRAIN_TEXTS:
            yield Example.from_dict(nlp.make_doc(text), {"entities": entities})

    return read


def _run(**logger: Any) -> str:
    """What the table prints in a real training of a small `ner`."""
    config = Config().from_str(CONFIG)
    config["training"]["logger"].update(logger)
    stdout, stderr = io.StringIO(), io.StringIO()
    filled = load_model_from_config(config, auto_fill=True).config
    train(init_nlp(filled), None, stdout=stdout, stderr=stderr)
    return stdout.getvalue()


@Language.factory("test_logger_terms")
class Terms:
    """Nothing but a trainable pipe: the losses come from the test."""

    is_trainable = True

    def __init__(self, nlp: Language, name: str) -> None: ...

    def __call__(self, doc: Any) -> Any:
        return doc


def _infos(*losses: dict[str, float]) -> list[dict[str, Any]]:
    base = {"epoch": 0, "score": 0.5, "other_scores": {"ents_f": 0.5}, "seconds": 1, "words": 7}
    return [{**base, "step": step, "losses": terms} for step, terms in enumerate(losses)]


def _log(pipes: list[str], infos: list[Any], **logger: Any) -> list[list[str]]:
    """The cells of each printed row."""
    nlp = spacy.blank("en")
    for pipe in pipes:
        nlp.add_pipe("test_logger_terms", name=pipe)
    nlp.config["training"]["score_weights"] = {"ents_f": 1.0, "ents_per_type": None}
    stdout = io.StringIO()
    log_step, finalize = console_logger(**logger)(nlp, stdout, io.StringIO())
    for info in infos:
        log_step(info)
    finalize()
    return [line.split("  ") for line in stdout.getvalue().splitlines()]


def _cells(row: list[str]) -> list[str]:
    return [cell.strip() for cell in row if cell.strip()]


@pytest.mark.parametrize("progress_bar", [None, "train", "eval"])
def test_real_training_prints_spacys_table(progress_bar: str | None) -> None:
    printed = _run(progress_bar=progress_bar).splitlines()
    rows = printed[2:]  # spaCy itself prints the pipeline and the learn rate first
    assert rows[0].split() == ["E", "#", "LOSS", "NER", "ENTS_F", "ENTS_P", "SCORE"]
    assert set(rows[1]) == {"-", " "}
    assert [row.split()[1] for row in rows[2:]] == ["0", "2", "4"]
    assert all(len(row) == len(rows[1]) for row in rows)


def test_same_rows_as_spacys_own_logger() -> None:
    spacys = _run(**{"@loggers": "spacy.ConsoleLogger.v3"})
    assert spacys == _run()


def test_output_file_of_a_real_training(tmp_path: Path) -> None:
    path = tmp_path / "new" / "log.jsonl"
    _run(output_file=str(path))
    lines = [json.loads(line) for line in path.read_text(encoding="utf8").splitlines()]
    assert [line["step"] for line in lines] == [0, 2, 4]
    for line in lines:
        keys = {"epoch", "step", "seconds", "words", "losses", "scores", "score"}
        assert set(line) == keys
        assert line["losses"]["ner"] > 0
        assert set(line["scores"]) == {"ents_f", "ents_p"}
        assert line["score"] == line["scores"]["ents_f"]
    assert lines[0]["words"] < lines[1]["words"] < lines[2]["words"]


def test_a_column_for_each_term() -> None:
    rows = _log(
        ["mslm"],
        _infos(
            {"mslm": 6.0, "mslm_mlm": 3.0, "mslm_ed": 2.0, "mslm_el": 1.0},
            {"mslm": 2.0, "mslm_ed": 2.0},
        ),
    )
    header = ["LOSS MSLM", "LOSS MSLM_MLM", "LOSS MSLM_ED", "LOSS MSLM_EL"]
    assert _cells(rows[0]) == ["E", "#", *header, "ENTS_F", "SCORE"]
    assert _cells(rows[2]) == ["0", "0", "6.00", "3.00", "2.00", "1.00", "50.00", "0.50"]
    # A term that is absent is 0, and its column stays.
    assert _cells(rows[3]) == ["0", "1", "2.00", "0.00", "2.00", "0.00", "50.00", "0.50"]
    assert len(rows) == 4


def test_terms_belong_to_the_longest_pipe_name_and_long_names_are_not_cut() -> None:
    losses = {"a": 1.0, "a_clinical": 2.0, "a_clinical_mlm": 3.0, "a_mlm": 4.0, "other_mlm": 5.0}
    rows = _log(["a", "a_clinical"], _infos(losses))
    titles = ["LOSS A", "LOSS A_MLM", "LOSS A_CLINICAL", "LOSS A_CLINICAL_MLM"]
    assert _cells(rows[0])[2:6] == titles
    assert _cells(rows[2])[2:6] == ["1.00", "4.00", "2.00", "3.00"]


def test_term_that_comes_later_gets_a_column_and_a_line(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    infos = _infos({"mslm": 1.0}, {"mslm": 3.0, "mslm_ed": 2.0}, {"mslm": 3.0})
    rows = _log(["mslm"], infos, output_file=str(path))
    assert _cells(rows[0])[2:-2] == ["LOSS MSLM"]
    assert _cells(rows[3])[2:-2] == ["LOSS MSLM", "LOSS MSLM_ED"]
    assert _cells(rows[6])[2:-2] == ["3.00", "0.00"]
    lines = [json.loads(line)["losses"] for line in path.read_text(encoding="utf8").splitlines()]
    assert lines == [{"mslm": 1.0}, {"mslm": 3.0, "mslm_ed": 2.0}, {"mslm": 3.0, "mslm_ed": 0.0}]


def test_steps_between_rows_print_nothing_and_may_come_first() -> None:
    assert len(_log(["mslm"], [None, *_infos({"mslm": 1.0}), None], progress_bar="eval")) == 3


def test_frozen_pipe_without_loss_is_zero() -> None:
    rows = _log(["frozen", "mslm"], _infos({"mslm": 1.0}))
    assert _cells(rows[2])[2:4] == ["0.00", "1.00"]


def test_existing_file_is_an_error_and_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("old\n", encoding="utf8")
    with pytest.raises(FileExistsError, match="Move or delete it"):
        _log(["mslm"], [], output_file=str(path))
    assert path.read_text(encoding="utf8") == "old\n"


def test_unknown_progress_bar() -> None:
    with pytest.raises(ValueError, match=r"'steps'.*train, eval"):
        console_logger(progress_bar="steps")


def test_score_that_is_no_number_is_named() -> None:
    (info,) = _infos({"mslm": 1.0})
    info["other_scores"] = {"ents_f": {"DRUG": 1.0}}
    with pytest.raises(ValueError, match="'ents_f' is of type dict"):
        _log(["mslm"], [info])
