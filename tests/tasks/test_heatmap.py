"""`spacy mslm heatmap`: the numbers are the pipe's, the models stand on the same words, the picture
can be read without colour, and nothing in a text can break it."""

import io
import os
import re
import sys
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import matplotlib
import numpy as np
import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from spacy.attrs import ENT_IOB, ENT_TYPE
from spacy.tokens import Doc, DocBin, Span
from spacy.vocab import Vocab

from spacy_mslm.model.optimizer import make_adamw
from spacy_mslm.tasks.heatmap.draw import draw_heatmap, model_names
from spacy_mslm.tasks.heatmap.html import render_html
from spacy_mslm.tasks.heatmap.png import _name_lines, render_png
from spacy_mslm.tasks.heatmap.reading import (
    LEVELS,
    Reading,
    ShownMention,
    TextBlock,
    break_lines,
    column_widths,
    gold_reading,
    luminance,
    make_block,
    name_parts,
    number,
    read_model,
    segments,
    shade,
    visible,
    word_number,
)
from spacy_mslm.types import B, I, O

from ..commands import run_spacy
from ..conftest import PAPER, TEXTS, make_examples

LINES = [
    "the patient had acute renal failure after cisplatin .",
    "",
    'aspirin didn\'t help <script>alert("1")</script> & <b>diabetes mellitus</b> .',
]


def heatmap(arguments: list[str], output: Path) -> list[TextBlock]:
    *models, texts = arguments
    return draw_heatmap(models, Path(texts), output)


class Models(NamedTuple):
    """Two pipelines that tokenise differently, on disk."""

    english: Path
    other: Path


@pytest.fixture(scope="module")
def models(encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Models:
    folder = tmp_path_factory.mktemp("models")
    for name, lang, steps in (("english", "en", 40), ("other", "xx", 10)):
        spacy.util.fix_random_seed(0)
        nlp = spacy.blank(lang)
        shape = {"encoder": str(encoder), "window": 40, "context": 8}
        nlp.add_pipe("mslm", config={**PAPER, "model": shape})
        nlp.initialize(lambda nlp=nlp: make_examples(nlp))
        optimizer = make_adamw(1e-3, 1e-2)
        for _ in range(steps):
            nlp.update(make_examples(nlp), sgd=optimizer, drop=0.1)
        if lang == "xx":
            nlp.add_pipe("sentencizer", before="mslm")
            nlp.add_pipe("entity_ruler", after="mslm")
        (folder / name).mkdir()
        nlp.to_disk(folder / name / "model-best")
    return Models(folder / "english" / "model-best", folder / "other" / "model-best")


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(LINES) + "\n", encoding="utf8")
    return path


run = partial(run_spacy, "mslm", "heatmap")


class Page(HTMLParser):
    """A page as a browser sees it: its tags, and the cells of each table as (tag, class, text)."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.tables: list[list[list[list[str]]]] = []  # tables, bodies, rows, cells
        self.names: list[str] = []
        self.titles: list[str] = []
        self.at = ""
        self.feed(page.decode("utf8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag == "table":
            self.tables.append([])
        elif tag == "tbody":
            self.tables[-1].append([])
        elif tag == "tr":
            self.tables[-1][-1].append([])
        elif tag == "td":
            self.tables[-1][-1][-1].append("")
            self.titles += [value or "" for key, value in attrs if key == "title"]
        elif tag == "th":
            self.names.append("")
        if tag in ("td", "th", "small"):
            self.at = tag

    def handle_endtag(self, tag: str) -> None:
        if tag == "small":
            self.at = "td"
        elif tag in ("td", "th"):
            self.at = ""

    def handle_data(self, data: str) -> None:
        if self.at == "td":
            self.tables[-1][-1][-1][-1] += data
        elif self.at == "th":
            self.names[-1] += data

    def words(self) -> list[list[list[str]]]:
        """The words of every reading of every table: the last row of its body."""
        return [[body[-1] for body in table] for table in self.tables]


def one_reading(words: list[str], *mentions: ShownMention, name: str = "a") -> TextBlock:
    confidences: list[float | None] = [0.97] * len(words)
    return TextBlock("id", words, [Reading(name, confidences, list(mentions))])


# ---- the command ----


def test_command_draws_a_page(models: Models, texts: Path, tmp_path: Path) -> None:
    output = tmp_path / "deep" / "out.html"
    result = run(*models, texts, "-o", output, fresh=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "texts: 2" in " ".join(result.stdout.split())
    assert os.listdir(output.parent) == ["out.html"]
    page = Page(output.read_bytes())
    assert set(page.names) == {"english", "other"}
    assert all(len({tuple(words) for words in table}) == 1 for table in page.words())
    shown = [word for table in page.words() for word in table[0]]
    english = spacy.load(models.english)
    assert shown == [token.text for line in LINES for token in english.tokenizer(line)]
    assert "did" in shown and "didn't" in [t.text for t in spacy.blank("xx")(LINES[2])]
    assert any(re.fullmatch(r"B-Disease [01]\.\d{4}", title) for title in page.titles)
    assert re.search(r"Disease (\.\d\d|1\.0)<", output.read_text("utf8"))


def test_command_draws_a_picture_of_the_first_texts(
    models: Models, texts: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out.png"
    result = run("-n", 1, "-o", output, models.english, texts)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "texts: 1" in " ".join(result.stdout.split())
    with Image.open(output) as image:
        assert image.format == "PNG" and image.width > 600 and image.height > 100


def test_command_tells_what_is_wrong_without_the_text(models: Models, tmp_path: Path) -> None:
    bad = tmp_path / "bad.txt"
    bad.write_bytes(b"fine\n\nsecret \xff\n")
    for arguments, message in [
        ((models.english,), "at least one model"),
        ((models.english, bad), "bad.txt, line 3: not valid UTF-8"),
    ]:
        result = run(*arguments, "-o", tmp_path / "out.html")
        told = " ".join((result.stdout + result.stderr).split())
        assert result.returncode == 1
        assert message in told and "Traceback" not in told and "secret" not in told
    assert os.listdir(tmp_path) == ["bad.txt"]


# ---- what is shown ----


def test_numbers_are_those_of_the_pipe(models: Models, texts: Path, tmp_path: Path) -> None:
    blocks = heatmap([*map(str, models), str(texts)], tmp_path / "out.html")
    nlp = spacy.load(models.english)
    found = 0
    for block, line in zip(blocks, filter(None, LINES), strict=True):
        (prediction,) = nlp.get_pipe("mslm").predict([nlp.make_doc(line)])
        doc = nlp(line)
        tags = [{"B": B, "I": I}.get(token.ent_iob_, O) for token in doc]
        reading = block.readings[0]
        expected = prediction.bio[np.arange(len(doc)), tags]
        assert reading.confidences == pytest.approx(expected, abs=1e-6)
        assert reading.mentions == [
            (ent.start, ent.end, ent.label_, pytest.approx(ent._.confidence)) for ent in doc.ents
        ]
        found += len(reading.mentions)
    assert found >= 3
    titles = Page((tmp_path / "out.html").read_bytes()).titles
    for block in blocks:
        for reading in block.readings:
            assert all(
                any(t.endswith(f" {c:.4f}") for t in titles) for c in reading.confidences if c
            )


def test_gold_and_tokens_of_a_corpus(models: Models, tmp_path: Path) -> None:
    words = ["acute", "renal", "\n", "failure", ".", "no", "asthma", "."]
    starts = [True, *[False] * 4, True, False, False]
    doc = Doc(Vocab(), words=words, sent_starts=starts)
    doc.set_ents([Span(doc, 0, 4, "Disease"), Span(doc, 6, 7, "Disease")], default="outside")
    bare = Doc(doc.vocab, words=["aspirin"])
    blank = Doc(doc.vocab, words=[" "])
    path = tmp_path / "docs.spacy"
    DocBin(attrs=["ENT_IOB", "ENT_TYPE", "SENT_START"], docs=[doc, blank, bare]).to_disk(path)
    first, second = heatmap([*map(str, models), str(path)], tmp_path / "out.html")
    assert (first.title, second.title) == ("docs.spacy:0", "docs.spacy:2")
    assert first.words == ["acute", "renal", "failure", ".", "no", "asthma", "."]
    gold, english, other = first.readings
    assert (gold.name, english.name, other.name) == ("gold", "english", "other")
    assert gold.mentions == [(0, 3, "Disease", None), (5, 6, "Disease", None)]
    assert gold.confidences == [None] * 7 and None not in english.confidences
    assert [reading.gold for reading in second.readings] == [False, False]
    # The sentences are the corpus's: cut otherwise, the encoder reads something else.
    nlp = spacy.load(models.english)
    (prediction,) = nlp.get_pipe("mslm").predict([doc])
    assert english.confidences[-1] == pytest.approx(float(prediction.bio[-1, O]), abs=1e-6)


def test_an_iob_file_is_read_with_its_gold(models: Models, tmp_path: Path) -> None:
    path = tmp_path / "test.tsv"
    path.write_text("no\tO\nasthma\tB-Disease\n\nfollow\tO\n\n", encoding="utf8")
    first, second = heatmap([str(models.english), str(path)], tmp_path / "out.html")
    assert first.readings[0].mentions == [(1, 2, "Disease", None)]
    assert (second.title, second.readings[0].mentions) == ("test.tsv:4", [])


def test_pipes_before_run_and_set_entities_do_not_hide_the_model(models: Models) -> None:
    nlp = spacy.load(models.english)
    ruler = nlp.add_pipe("entity_ruler", before="mslm")
    ruler.add_patterns([{"label": "Rule", "pattern": "asthma"}])
    seen = []
    spacy.Language.component("heatmap_test_spy", func=lambda doc: seen.append(doc.ents) or doc)
    nlp.add_pipe("heatmap_test_spy", before="mslm")
    text, _ = TEXTS[1]
    (reading,) = read_model(nlp, "a", [nlp.make_doc(text)])
    assert [ent.label_ for ents in seen for ent in ents] == ["Rule"]
    assert [mention.label for mention in reading.mentions] == ["Disease", "Disease"]


def test_damaged_gold_is_shown_as_far_as_it_goes() -> None:
    doc = Doc(Vocab(), words=["a", "b", "c", "d"])
    x = doc.vocab.strings.add("X")
    inside, outside, first = 1, 2, 3
    rows = [[inside, x], [inside, x], [outside, 0], [first, 0]]
    doc.from_array([ENT_IOB, ENT_TYPE], np.array(rows, dtype=np.uint64))
    with pytest.raises(ValueError, match="E093"):
        doc.ents  # noqa: B018
    reading = gold_reading(doc)
    assert reading is not None
    assert [m[:3] for m in reading.mentions] == [(0, 2, "X")]


def test_names_of_models(tmp_path: Path) -> None:
    for name in ("a", "b", "deep/a"):
        for kind in ("model-best", "model-last"):
            (tmp_path / name / kind).mkdir(parents=True)

    def names(*paths: str) -> list[str]:
        return model_names([str(tmp_path / path) for path in paths])

    assert names("a/model-best") == ["a"]
    assert names("a/model-best", "b/model-best") == ["a", "b"]
    assert names("a/model-best", "a/model-last") == ["a/model-best", "a/model-last"]
    assert names("a/model-best", "b") == ["a/model-best", "b"]
    assert names("a/model-best", "deep/a/model-best")[1].endswith("deep/a/model-best")
    assert model_names(["en_core_mslm"]) == ["en_core_mslm"]


def test_three_characters_for_a_number() -> None:
    shown = [number(p) for p in (0.0, 0.004, 0.5, 0.974, 0.994, 0.996, 1.0)]
    assert shown == [".00", ".00", ".50", ".97", ".99", "1.0", "1.0"]
    assert word_number(0.99, inside=False) == "" and word_number(0.99, inside=True) == ".99"
    assert word_number(0.6, inside=False) == ".60" and number(None) == ""


# ---- without colour ----


def rgb(color: str) -> list[int]:
    return [int(color[i : i + 2], 16) for i in (1, 3, 5)]


@pytest.mark.parametrize("inside", [True, False])
def test_every_shade_can_be_read(inside: bool) -> None:
    grounds = []
    for step in range(LEVELS + 1):
        text, ground = (luminance(rgb(color)) for color in shade(step, inside))
        light, dark = max(text, ground), min(text, ground)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, step
        grounds.append(ground)
    assert all(a > b for a, b in pairwise(grounds))


def test_ordinary_words_never_reach_the_tone_of_a_likely_mention() -> None:
    palest = luminance(rgb(shade(LEVELS, inside=False)[1]))
    assert luminance(rgb(shade(LEVELS // 2, inside=True)[1])) < palest - 0.3


def test_luminance_is_that_of_wcag() -> None:
    assert luminance((255, 255, 255)) == pytest.approx(1)
    assert luminance((0, 0, 0)) == 0
    assert luminance((119, 119, 119)) == pytest.approx(0.1845, abs=1e-4)


# ---- texts that would break the picture ----


HOSTILE = [
    "</td></table><script>alert(1)</script>",
    '"onmouseover="alert(1)',
    "&lt;",
    "a&b",
    "\u202egnp.exe",
    "\x00\x1b[2J",
    "\u2028",
    "\ud800",
    "\u200b",
    "$x^2$",
    r"\frac{",
    "x" * 3000,
    "\U0010ffff",
    "糖尿病",
    "שלום",
    "e\u0301",
    "می\u200cخواهم",
]


@pytest.fixture
def hostile() -> TextBlock:
    words = [word for word in HOSTILE if word != "\ud800"]
    doc = Doc(Vocab(), words=words)
    doc.user_data["id"] = "<i>id</i>"
    reading = Reading('<b>"a" & b</b>', [0.5] * len(words), [ShownMention(1, 3, '<u>"X"', 0.5)])
    return make_block(doc, [reading])


def test_a_page_shows_markup_and_does_not_follow_it(hostile: TextBlock) -> None:
    page = Page(render_html([hostile]))
    assert not {"script", "b", "i", "u", "img", "link", "a"} & set(page.tags)
    keys = {key for key, _ in page.attributes}
    assert not {"onmouseover", "src", "href", "style"} & keys
    assert page.names == ['<b>"a" & b</b>'] * len(page.tables)
    shown = [word for table in page.words() for word in table[0]]
    assert shown == hostile.words
    assert shown[:4] == HOSTILE[:4]
    assert '<u>"X" .50' in [cell for table in page.tables for cell in table[0][0]]
    text = render_html([hostile]).decode("utf8")
    assert not re.search("[\x00-\x09\x0b-\x1f\u202a-\u202e\u2066-\u2069\u2028]", text)
    assert len(text) < 20_000
    assert "url(" not in text and "@import" not in text


def test_what_is_not_seen_is_made_visible() -> None:
    assert visible("\u202ea\x07\u200b\ud800\u2029") == "\ufffda\ufffd\ufffd\ufffd\ufffd"
    assert visible("می\u200cخواهم β é 糖") == "می\u200cخواهم β é 糖"


def test_a_picture_of_anything(hostile: TextBlock, recwarn: pytest.WarningsRecorder) -> None:
    settings = dict(matplotlib.rcParams)
    data = render_png([hostile])
    assert Image.open(io.BytesIO(data)).width < 2000
    assert not recwarn.list, "a warning names what the font lacks"
    assert render_png([hostile]) == data
    assert dict(matplotlib.rcParams) == settings


def test_pages_are_whole_for_any_reader() -> None:
    text = render_html([one_reading(["a", "b"], ShownMention(0, 1, "D", 0.9))]).decode("utf8")
    assert text.startswith('<!DOCTYPE html>\n<html lang="en">')
    for part in ('<meta charset="utf-8">', "<title>", "<caption>", 'scope="rowgroup"', "</html>"):
        assert part in text


# ---- layout ----


@st.composite
def blocks(draw: st.DrawFn) -> TextBlock:
    n = draw(st.integers(1, 40))
    readings = []
    for name in "ab":
        cuts = draw(st.lists(st.integers(0, n), unique=True, max_size=8).map(sorted))
        spans = zip(cuts[::2], cuts[1::2], strict=False)
        mentions = [ShownMention(start, end, "Disease", 0.5) for start, end in spans]
        readings.append(Reading(name, [0.5] * n, mentions))
    return TextBlock("id", ["w"] * n, readings)


@settings(deadline=None, max_examples=60)
@given(blocks(), st.floats(5, 60), st.data())
def test_lines_hold_all_words_and_cut_no_mention(
    block: TextBlock, limit: float, data: st.DataObject
) -> None:
    n = len(block.words)
    widths = data.draw(st.lists(st.floats(1, 9), min_size=n, max_size=n))
    lines = break_lines(block, widths, limit)
    assert [i for line in lines for i in line] == list(range(n))
    for line in lines:
        assert line
        assert len(line) == 1 or sum(widths[i] for i in line) <= limit + 1e-6
        for reading in block.readings:
            parts = list(segments(reading, line))
            assert [i for _, part in parts for i in part] == list(line)
    chained = _chains(block)
    for line in lines[:-1]:
        cut = [chain for chain in chained if chain.start < line.stop < chain.stop]
        assert all(sum(widths[i] for i in chain) > limit for chain in cut)


def _chains(block: TextBlock) -> list[range]:
    """The words between which a line cannot end without cutting a mention of some reading."""
    inside = {i for r in block.readings for mention in r.mentions for i in range(*mention[:2])[1:]}
    starts = [i for i in range(len(block.words) + 1) if i not in inside]
    return [range(a, b) for a, b in pairwise(starts)]


def test_the_last_line_is_no_widow() -> None:
    block = one_reading(["w"] * 11)
    assert [len(line) for line in break_lines(block, [1.0] * 11, 10.0)] == [6, 5]


def test_columns_make_room_for_labels() -> None:
    def measure(text: str, size: float, bold: bool) -> float:
        return float(len(text))

    block = one_reading(["ab", "c", "d"], ShownMention(0, 2, "Disease", 0.97))
    widths = column_widths(block, measure, 1.0)
    assert widths[0] + widths[1] == pytest.approx(len("Disease .97") + 1)
    assert widths[2] == 2.0  # .97 is not written under an ordinary word


def test_a_mention_longer_than_a_line_stays_open() -> None:
    words = [f"word{i}" for i in range(60)]
    page = Page(render_html([one_reading(words, ShownMention(0, 60, "D", 0.5))]))
    captions = [table[0][0][0] for table in page.tables]
    assert captions == ["D .50", *["…"] * (len(captions) - 1)] and len(captions) > 1
    assert render_png([one_reading(words, ShownMention(0, 60, "D", 0.5))])


# ---- errors ----


def test_errors_before_anything_is_loaded(texts: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("\ufeff\n \n", encoding="utf8")
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.iterdir())
    out = tmp_path / "out.html"
    for arguments, output, message in [
        ([str(texts)], out, "at least one model"),
        (["none", str(texts)], tmp_path / "out.svg", r"neither a \.html nor a \.png"),
        (["none", str(texts)], tmp_path / "folder", r"neither a \.html nor a \.png"),
        (["none", str(tmp_path / "no.txt")], out, "no such file"),
        (["none", str(tmp_path / "empty.txt")], out, "holds no text"),
        (["none", str(tmp_path / "folder")], out, r"no \.spacy file"),
    ]:
        with pytest.raises(ValueError, match=message):
            heatmap(arguments, output)
    assert sorted(tmp_path.iterdir()) == before


def test_a_model_without_the_pipe(texts: Path, tmp_path: Path) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.to_disk(tmp_path / "bare")
    with pytest.raises(ValueError, match=r"bare has no mslm pipe.*sentencizer"):
        heatmap([str(tmp_path / "bare"), str(texts)], tmp_path / "out.html")
    assert not (tmp_path / "out.html").exists()


@pytest.fixture
def no_matplotlib(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delitem(sys.modules, "spacy_mslm.tasks.heatmap.png")
    monkeypatch.setitem(sys.modules, "matplotlib.axes", None)
    yield


@pytest.mark.usefixtures("no_matplotlib")
def test_a_picture_needs_matplotlib(texts: Path, tmp_path: Path) -> None:
    with pytest.raises(ImportError, match=re.escape('pip install "spacy-mslm[plots]"')):
        heatmap(["none", str(texts)], tmp_path / "out.png")
    with pytest.raises(OSError, match="E050"):
        heatmap(["none", str(texts)], tmp_path / "out.html")


def test_a_picture_that_is_too_high(monkeypatch: pytest.MonkeyPatch) -> None:
    block = one_reading(["word"] * 2000)
    monkeypatch.setattr("spacy_mslm.tasks.heatmap.png.MAX_PIXELS", 1000)
    with pytest.raises(ValueError, match=r"too long for one PNG.*1000 pixels"):
        render_png([block])
    assert render_html([block]).count(b"<tbody>") > 50


def test_names_of_models_break_between_words() -> None:
    name = "training/pubmedbert_ncbi-disease.mslm"
    assert name_parts(name) == ["training/", "pubmedbert_", "ncbi-", "disease.", "mslm"]
    assert _name_lines(name) == ["training/pubmedbert_", "ncbi-disease.mslm"]
    assert _name_lines("mslm") == ["mslm"]
    assert "".join(_name_lines("x" * 50)) == "x" * 50
    words = ["a"]
    block = TextBlock("t", words, [Reading(name, [None], [])])
    page = render_html([block]).decode("utf8")
    assert "training/<wbr>pubmedbert_<wbr>ncbi-<wbr>disease.<wbr>mslm" in page
    assert "overflow-wrap: anywhere" not in page
