import logging
import pickle
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.language import Language
from spacy.tokens import Doc

from spacy_mslm.text.tokenizer import SIGNS, STRETCH, MSLMTokenizer, _pieces

from ..commands import run_python

NOTE = "Pt. didn't c/o N/V/D (http://a.org/x?y=1); BP 120/80mmHg, T 37.2°C -- stable :) \n\n\t US$5"
SURROGATE = "\ud800"


def _make_nlp(lang: str = "en", **settings: int) -> Language:
    tokenizer = {"@tokenizers": "spacy_mslm.Tokenizer.v1", **settings}
    return spacy.blank(lang, config={"nlp": {"tokenizer": tokenizer}})


@pytest.fixture(scope="module")
def nlp() -> Language:
    return _make_nlp()


@pytest.fixture(scope="module")
def spacys() -> Language:
    return spacy.blank("en")


def _tokens(doc: Doc) -> list[tuple[str, str, str]]:
    return [(token.text, token.whitespace_, token.norm_) for token in doc]


# Letters, signs of affix rules, every sort of whitespace, controls, joiners, emoji, any code point.
CHARACTERS = st.one_of(
    st.sampled_from("aZé0 \t\n\r\x0b\x1c\x85\xa0\u2003\u3000.,;:!?'\"()[]_=-–—…%$€°+*/\\@#<>&"),
    st.sampled_from("\x00\x07\x1b\x7f\xad\u200b\u200d\ufe0f\u0301\ufeff\ufffd\U0001f600\U0001f1e6"),
    st.characters(exclude_categories=["Cs"]),
)
# Long runs are rare in random text, so they are generated on purpose.
STRETCHES = st.one_of(
    st.text(CHARACTERS, max_size=20),
    st.builds(lambda c, n: c * n, CHARACTERS, st.integers(SIGNS - 1, 3 * SIGNS)),
    st.sampled_from(["don't", "US$", "'s", "x" * (STRETCH + 3), "http://a.org/", "e.g."]),
)


@given(st.lists(STRETCHES, max_size=8).map("".join))
@settings(max_examples=200, deadline=None)
def test_text_round_trips(nlp: Language, text: str) -> None:
    doc = nlp.tokenizer(text)
    assert doc.text == text
    assert [text[t.idx : t.idx + len(t)] for t in doc] == [t.text for t in doc]
    assert "".join(_pieces(text)) == text


@given(st.text(st.one_of(CHARACTERS, st.characters(categories=["Cs"])), max_size=80))
@settings(max_examples=200, deadline=None)
def test_surrogates_are_replaced_one_for_one(nlp: Language, text: str) -> None:
    doc = nlp.tokenizer(text)
    offsets = [i for i, char in enumerate(text) if "\ud800" <= char <= "\udfff"]
    expected = "".join("\ufffd" if i in offsets else char for i, char in enumerate(text))
    assert doc.text == expected
    assert doc.user_data.get("replaced_surrogates", []) == offsets


@given(st.text(CHARACTERS, max_size=SIGNS))
@settings(max_examples=200, deadline=None)
def test_same_tokens_as_spacy_without_long_runs(nlp: Language, spacys: Language, text: str) -> None:
    assert _tokens(nlp.tokenizer(text)) == _tokens(spacys.tokenizer(text))


@pytest.mark.parametrize("lang", ["en", "de", "fr", "hu", "xx"])
def test_same_tokens_as_spacy_on_a_note(lang: str) -> None:
    text = " ".join([NOTE, "=" * SIGNS, "_" * SIGNS, "x" * STRETCH, f"({'a' * 100})", NOTE])
    expected = spacy.blank(lang).tokenizer(text)
    assert _tokens(_make_nlp(lang).tokenizer(text)) == _tokens(expected)


def test_runs_are_cut_inside_and_whitespace_is_spacys(nlp: Language) -> None:
    run = "=" * (2 * SIGNS + 5)
    doc = nlp.tokenizer(f" a\n {run}  didn't {run}b\n")
    assert doc.text == f" a\n {run}  didn't {run}b\n"
    assert [t.text for t in doc if t.text != "="] == [
        " ", "a", "\n ", " ", "did", "n't", "b", "\n",
    ]  # fmt: skip
    # The norm of an exception is set on the token, not in the vocabulary, and survives the join.
    assert next(t.norm_ for t in doc if t.text == "n't") == "not"
    cut = list(_pieces(f"a {run} b"))
    assert [len(piece) for piece in cut] == [2 + SIGNS, SIGNS, 5 + 2]


def test_longest_stretch_for_spacy_is_bounded() -> None:
    rng = random.Random(0)
    for alphabet in ("ab", "a:", "'s", "=_", "a=_ "):
        text = "".join(rng.choices(alphabet, k=5 * STRETCH))
        stretches = [len(part) for piece in _pieces(text) for part in piece.split()]
        assert max(stretches) <= STRETCH
    assert list(_pieces("")) == [""]


def _random(alphabet: list[str]) -> Callable[[int], str]:
    return lambda n: "".join(random.Random(0).choices(alphabet, k=n))[:n]


# n -> n characters, for which spaCy is quadratic or was suspected to be.
LONG_INPUTS: dict[str, Callable[[int], str]] = {
    "equals": lambda n: "=" * n,
    "underscores": lambda n: "_" * n,
    "dots": lambda n: "." * n,
    "emoji": lambda n: "\U0001f600" * n,
    "flags": lambda n: "\U0001f1e6" * n,
    "replaced surrogates": lambda n: SURROGATE * n,
    "nul": lambda n: "\0" * n,
    "joiners": lambda n: "\u200d" * n,
    "quotes and brackets": lambda n: '"(' * (n // 2),
    "mixed signs": _random(list("=!?\"'();%&_…—+$")),
    "signs and letters": _random(list("=_a.:'s/-")),
    "currency": lambda n: "US$" * (n // 3),
    "genitives": lambda n: "'s" * (n // 2),
    "assignments": lambda n: "a=" * (n // 2),
    "colons": lambda n: "a:" * (n // 2),
    "addresses": lambda n: "a@" * (n // 2),
    "abbreviations": lambda n: "A." * (n // 2),
    "letters": lambda n: "a" * n,
    "letters and signs": lambda n: "a" * (n - 60) + "!" * 60,
    "url": lambda n: "http://" + "a." * (n // 2),
    "spaces": lambda n: " " * n,
    "newlines": lambda n: "\r\n" * (n // 2),
    "runs at the limit": lambda n: ("=" * SIGNS + "a") * (n // (SIGNS + 1)),
    "smileys": lambda n: ":) " * (n // 3),
}


@pytest.mark.parametrize("kind", LONG_INPUTS)
def test_time_is_linear(kind: str) -> None:
    """Four times the text takes about four times as long: 16 times if it were quadratic. The floor
    keeps the noise of a busy machine out of inputs that take milliseconds."""
    tokenizer = _make_nlp().tokenizer

    def seconds(n: int) -> float:
        text = LONG_INPUTS[kind](n)
        times = []
        for _ in range(2):
            tokenizer._flush_cache()
            start = time.process_time()
            doc = tokenizer(text)
            times.append(time.process_time() - start)
        assert len(doc.text) == len(text)
        return min(times)

    assert seconds(24_000) < 10 * max(seconds(6_000), 0.1)


def test_surrogates_are_logged_by_offset_only(
    nlp: Language, caplog: pytest.LogCaptureFixture
) -> None:
    text = f"secret{SURROGATE} name \udfff"
    with caplog.at_level(logging.WARNING, logger="spacy_mslm"):
        (good, bad, after) = nlp.pipe(["well", text, "well"])
    assert [good.text, bad.text, after.text] == ["well", "secret\ufffd name \ufffd", "well"]
    assert bad.user_data["replaced_surrogates"] == [6, 13]
    assert "replaced_surrogates" not in good.user_data
    (record,) = caplog.records
    assert record.name == "spacy_mslm"
    assert "2 lone" in record.getMessage() and "6, 13" in record.getMessage()
    assert "secret" not in record.getMessage() and "name" not in record.getMessage()
    assert Doc(nlp.vocab).from_bytes(bad.to_bytes()).user_data == bad.user_data


def test_log_of_many_surrogates_is_short(nlp: Language, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="spacy_mslm"):
        doc = next(nlp.tokenizer.pipe([SURROGATE * 5000]))
    assert doc.user_data["replaced_surrogates"] == list(range(5000))
    (record,) = caplog.records
    assert "5000 lone" in record.getMessage() and len(record.getMessage()) < 300


def test_long_texts(nlp: Language) -> None:
    text = "word " * 240_000
    assert len(text) > spacy.blank("en").max_length
    assert len(nlp.make_doc(text)) == 240_000
    with pytest.raises(ValueError, match="E088"):
        _make_nlp(max_length=10).make_doc("eleven char")


def test_saving_gives_back_our_tokenizer(tmp_path: Path) -> None:
    nlp = _make_nlp(max_length=2_000_000)
    nlp.tokenizer.add_special_case("q4h", [{"ORTH": "q4"}, {"ORTH": "h", "NORM": "hour"}])
    text = f"{NOTE} q4h {'=' * 200}"
    expected = _tokens(nlp(text))
    nlp.to_disk(tmp_path / "nlp")
    loaded = spacy.load(tmp_path / "nlp")
    assert type(loaded.tokenizer) is MSLMTokenizer
    assert loaded.max_length == 2_000_000
    assert _tokens(loaded(text)) == expected

    from_bytes = _make_nlp().tokenizer.from_bytes(nlp.tokenizer.to_bytes())
    nlp.tokenizer.to_disk(tmp_path / "tokenizer")
    from_disk = _make_nlp().tokenizer.from_disk(tmp_path / "tokenizer")
    for tokenizer in (from_bytes, from_disk, pickle.loads(pickle.dumps(nlp.tokenizer))):
        assert type(tokenizer) is MSLMTokenizer
        assert _tokens(tokenizer(text)) == expected


SPAWN = """
import multiprocessing
import spacy

if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    tokenizer = {"@tokenizers": "spacy_mslm.Tokenizer.v1"}
    nlp = spacy.blank("en", config={"nlp": {"tokenizer": tokenizer}})
    texts = ["one", "a" + chr(0xD800), "=" * 8000, "four"]
    docs = list(nlp.pipe(texts, n_process=2, batch_size=1))
    print([len(doc) for doc in docs], docs[1].user_data["replaced_surrogates"])
"""


def test_worker_processes_use_our_tokenizer(tmp_path: Path) -> None:
    script = tmp_path / "spawn.py"
    script.write_text(SPAWN, encoding="utf8")
    run = run_python(script)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == "[1, 2, 8000, 1] [1]"


def test_explain_agrees_with_the_tokens(nlp: Language) -> None:
    text = f"{NOTE} a{SURROGATE} {'=' * 500} {'US$' * 500} end."
    tokens = [token.text for token in nlp.tokenizer(text) if not token.is_space]
    assert [token for _, token in nlp.tokenizer.explain(text)] == tokens


def test_biomedical_rules_split_signs_but_not_numbers_and_urls():
    nlp = _make_nlp("en", biomedical=True)
    text = "IL-2R+ CD8+/CD4- 0.05 mg/kg, p<0.05 1,25-(OH)2D3 e.g. http://x.org/a-b alpha_1 don't"
    words = [token.text for token in nlp.tokenizer(text)]
    assert " ".join(words) == (
        "IL - 2R + CD8 + / CD4 - 0.05 mg / kg , p < 0.05 1,25 - ( OH ) 2D3 e.g. http://x.org/a-b "
        "alpha _ 1 do n't"
    )
    assert nlp.tokenizer(text).text == text
    again = _make_nlp("en")
    again.tokenizer.from_bytes(nlp.tokenizer.to_bytes())
    assert [token.text for token in again.tokenizer(text)] == words
