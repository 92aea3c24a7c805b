"""Scores of several models -> tables, pictures and a page."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spacy_mslm.scoring.counts import pack
from spacy_mslm.tasks.comparison.tables import make_tables, read_results, render_markdown

from ..commands import run_spacy


def write_scores(path: Path, f: float, **others: Any) -> None:
    types = {"Disease": {"p": f, "r": f, "f": f + 0.01}, "Chemical": {"p": f, "r": f, "f": f}}
    scores = {"ents_p": f, "ents_r": f, "ents_f": f, "ents_per_type": types, **others}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(scores))


@pytest.fixture
def metrics(tmp_path: Path) -> Path:
    folder = tmp_path / "metrics"
    write_scores(folder / "bc5cdr" / "mslm.json", 0.745, mslm_em_unseen=0.6, mslm_ppl_elm=1310.4)
    write_scores(folder / "bc5cdr" / "vanilla.json", 0.72, mslm_em_unseen=None)
    masked = {"protocol": "masked", "scores": {"ents_f": 0.5, "ents_per_type": {"Disease": {}}}}
    (folder / "bc5cdr" / "paper.json").write_text(json.dumps(masked))
    return folder


def test_tables_compare_what_can_be_compared(metrics: Path) -> None:
    clean, by_type, masked = make_tables(read_results(metrics, "vanilla"), "vanilla")
    assert clean.title == "bc5cdr, clean text"
    header = ["model", "P", "EM", "F1", "EM unseen", "perplexity ELM", "F1 to vanilla"]
    assert clean.header == header
    assert clean.rows == [
        ["vanilla", "72.0", "72.0", "72.0", "–", "–", ""],
        ["mslm", "74.5", "74.5", "74.5", "60.0", "1,310", "+2.5"],
    ]
    assert by_type.header == ["type", "vanilla", "mslm"]
    assert by_type.rows == [["Chemical", "72.0", "74.5"], ["Disease", "73.0", "75.5"]]
    # Another protocol is another table, with nothing to compare with.
    assert masked.title == "bc5cdr, masked text"
    assert masked.rows == [["paper", "50.0"]]


def test_sixteen_types_are_rows_that_fit_the_page(tmp_path: Path) -> None:
    names = [f"Type_with_a_long_name_{i:02}" for i in range(16)]
    write_scores(tmp_path / "demo" / "a.json", 0.5, ents_per_type={n: {"f": 0.5} for n in names})
    _, by_type = make_tables(read_results(tmp_path, "vanilla"), "vanilla")
    assert by_type.header == ["type", "a"]
    assert by_type.rows == [[name, "50.0"] for name in names]


def test_differences_have_intervals_over_documents(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    gold = [[1, 1, int(i < 20)] for i in range(40)]  # the baseline finds a half of the mentions
    better = [[1, 1, int(i < 36)] for i in range(40)]
    close = [[1, 1, int(i != 0 and i < 22)] for i in range(40)]
    write_scores(folder / "vanilla.json", 0.5, mslm_documents=gold)
    write_scores(folder / "better.json", 0.9, mslm_documents=better)
    write_scores(folder / "close.json", 0.525, mslm_documents=close)
    write_scores(folder / "other.json", 0.6, mslm_documents=gold[:39])  # of another test set
    table = make_tables(read_results(tmp_path, "vanilla"), "vanilla")[0]
    cells = {row[0]: row[-1] for row in table.rows}
    assert cells["vanilla"] == ""
    # 16 of 40 documents differ, each by 2.5 points: 40 ± 1.96 * 2.5 * sqrt(40 * 0.4 * 0.6) = ± 15.2
    mean, low, high = (float(x) for x in re.findall(r"[+-][0-9.]+", cells["better"]))
    assert mean == 40 and low == pytest.approx(24.8, abs=3) and high == pytest.approx(55.2, abs=3)
    assert "chance" not in cells["better"]
    assert cells["close"].startswith("+2.5 [") and cells["close"].endswith("], may be chance")
    assert cells["other"] == "+10.0"


def test_seeds_are_means_and_differences_are_said_in_words(tmp_path: Path) -> None:
    """Vanilla finds 20 and 22 of 40 mentions, MSLM 32 and 36."""
    for model, numbers in {"vanilla": (20, 22), "mslm": (32, 36), "one": (32,)}.items():
        for seed, number in enumerate(numbers):
            gold = [[1, 1, int(i < number)] for i in range(40)]
            path = tmp_path / "demo" / model / f"{seed}.json"
            write_scores(path, number / 40, mslm_documents=gold)
    table = make_tables(read_results(tmp_path, "vanilla"), "vanilla")[0]
    assert table.header == ["model", "seeds", "P", "EM", "F1", "F1 to vanilla"]
    vanilla, mslm, one = table.rows
    assert vanilla == ["vanilla", "2", *["52.5 ± 3.5"] * 3, ""]
    assert mslm[:5] == ["mslm", "2", *["85.0 ± 7.1"] * 3]
    assert re.fullmatch(r"\+32\.5 \[\+\d+\.\d, \+\d+\.\d\], better with both seeds", mslm[-1])
    # Only the seed that both have is compared: 32 - 20 of 40.
    assert one[1] == "1" and one[-1].startswith("+30.0 [")
    assert one[-1].endswith("], better with this seed, others may differ")


def test_rows_of_a_sweep_are_results(tmp_path: Path) -> None:
    rows = []
    for dataset in ("a", "b"):
        for trial, number in (("vanilla", 10), ("mslm", 30)):
            counts = np.array([[1, 1, i < number, 0, 0] for i in range(40)], dtype=np.uint8)
            f = number / 40
            row = {"trial": trial, "set": dataset, "seed": 3, "p": f, "em": f, "f": f, "ece": 0.2}
            rows.append({**row, "em_unseen": 0.0, "counts": pack(counts)})
    rows[1] |= {"masked_f": 0.9, "masked_em": 0.8}
    (tmp_path / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    results = read_results(tmp_path, "vanilla")
    assert results == read_results(tmp_path / "results.jsonl", "vanilla")
    clean, masked, other, whole = make_tables(results, "vanilla")
    assert (clean.title, other.title) == ("a, clean text", "b, clean text")
    assert clean.rows[1][:5] == ["mslm", "75.0", "75.0", "75.0", "0.0"]
    assert (masked.header, masked.rows) == (["model", "EM", "F1"], [["mslm", "80.0", "90.0"]])
    assert whole.title == "all sets, clean text: differences to vanilla"
    ((model, sets, f1, em),) = whole.rows
    assert (model, sets) == ("mslm", "2") and f1 == em
    assert f1.startswith("+50.0 [") and f1.endswith("better with this seed, others may differ")


def test_two_results_of_a_seed_are_an_error(tmp_path: Path) -> None:
    row = {"trial": "a", "set": "demo", "seed": 1, "p": 0.5, "em": 0.5, "f": 0.5}
    (tmp_path / "results.jsonl").write_text(2 * (json.dumps(row) + "\n"))
    with pytest.raises(ValueError, match="two results of a on demo, clean text, seed 1"):
        read_results(tmp_path, "vanilla")


def test_span_groups_have_keys_of_their_own(tmp_path: Path) -> None:
    """Beside those of other pipes, which are not compared."""
    scores = {"dep_las_per_type": {"nsubj": {}, "obj": {}}, "mslm_em": 0.1}
    scores |= {"spans_terms_f": 0.5, "spans_terms_p": 0.4, "spans_terms_per_type": {}}
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "a.json").write_text(json.dumps(scores))
    (table,) = make_tables(read_results(tmp_path, "vanilla"), "vanilla")
    assert table.rows == [["a", "40.0", "50.0"]]


def test_names_do_not_break_a_table(tmp_path: Path) -> None:
    write_scores(tmp_path / "demo" / "a|b.json", 0.5)
    tables = make_tables(read_results(tmp_path, "vanilla"), "vanilla")
    assert "| a\\|b | 50.0 |" in render_markdown("Title", tables, {})


def test_the_command_writes_a_page_that_needs_nothing_else(metrics: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    write_scores(metrics / "<b>set" / "vanilla.json", 0.5)
    output = tmp_path / "report"
    result = run_spacy("mslm", "report", metrics, output, "--title", "A & B", fresh=True)
    assert result.returncode == 0, result.stdout + result.stderr
    names = {path.name for path in output.iterdir()}
    pictures = {"bc5cdr-clean.png", "bc5cdr-masked.png", "<b>set-clean.png"}
    assert names == {"report.md", "report.html", *pictures}
    assert (output / "bc5cdr-clean.png").read_bytes().startswith(b"\x89PNG")
    page = (output / "report.html").read_text(encoding="utf8")
    found: list[tuple[str, dict]] = []

    class Parser(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list) -> None:
            found.append((tag, dict(attrs)))

    Parser().feed(page)
    assert {tag for tag, _ in found} >= {"html", "h1", "table", "img"} and "<b>set" not in page
    sources = [attrs["src"] for tag, attrs in found if tag == "img"]
    assert len(sources) == 3 and all(src.startswith("data:image/png;base64,") for src in sources)
    assert "<title>A &amp; B</title>" in page and "+2.5" in page
    assert "![bc5cdr, clean text](bc5cdr-clean.png)" in (output / "report.md").read_text()


@pytest.mark.parametrize("content", ["{", "[1]", '{"loss": 3}'])
def test_what_is_no_result_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "a.json").write_text(content)
    with pytest.raises(ValueError, match=r"a\.json is not the result of an evaluation"):
        read_results(tmp_path, "vanilla")
    with pytest.raises(ValueError, match=r"holds no results"):
        read_results(tmp_path / "demo", "vanilla")
