"""`spacy mslm paper`: the paper's figures are those it prints, ours are those of the rows, and what
is missing shows its command."""

import csv
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pytest
import srsly

from spacy_mslm.scoring.counts import COUNTS, pack
from spacy_mslm.scoring.seeds import spread
from spacy_mslm.tasks.paper import specs
from spacy_mslm.tasks.paper.contents import KINDS, make_table
from spacy_mslm.tasks.paper.csv_file import render_csv
from spacy_mslm.tasks.paper.lines import Line, Ours, Table, measure
from spacy_mslm.tasks.paper.page import render_page
from spacy_mslm.tasks.paper.paper import choose_tables, write_paper
from spacy_mslm.tasks.paper.published import find, read_published
from spacy_mslm.tasks.paper.tables import Sources, rate_trial, show_published
from spacy_mslm.tasks.rows import Row, Rows, read_rows

from ..commands import run_spacy

pytest.importorskip("matplotlib")


def make_row(trial: str, dataset: str, seed: int, exact: int, **others: Any) -> dict[str, Any]:
    """A row of a test set of 40 sentences with one gold and one predicted mention each."""
    counts = np.zeros((40, len(COUNTS)), dtype=np.uint8)
    counts[:, :2] = 1
    counts[:exact, 2] = 1
    score = exact / 40
    return {
        "trial": trial,
        "set": dataset,
        "seed": seed,
        "split": "test",
        "config": "mslm",
        "p": score,
        "em": score,
        "f": score,
        "em_unseen": 0.0,
        "ece": 0.1,
        "protocol": "clean",
        "overrides": {},
        "counts": pack(counts),
        **others,
    }


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Two seeds of vanilla and MSLM on one set, on clean text and, for one seed, on masked text."""
    folder = tmp_path / "results"
    rows = [make_row("vanilla", "ncbi_disease", seed, 20 + seed) for seed in (0, 1)]
    rows += [make_row("mslm", "ncbi_disease", seed, 30 + 3 * seed) for seed in (0, 1)]
    rows[2] |= {"masked_em": 0.9, "masked_f": 0.8, "perplexity": 12.5}
    write_rows(folder / "pair.jsonl", rows[:2])
    write_rows(folder / "more" / "results.jsonl", rows[2:])
    return folder


def sources(results: Path) -> Sources:
    return Sources(read_rows(results), results, None, Path("page"))


# ---- the paper's figures ----


@pytest.mark.parametrize(
    ("table", "keys", "shown"),
    [
        ("table8", {"set": "bc2gm", "encoder": "biobert", "model": "vanilla"}, "88.4"),
        ("table8", {"set": "ebm_nlp", "encoder": "pubmedbert", "model": "mslm"}, "76.2 ± 0.3"),
        ("table8", {"set": "jnlpba", "encoder": "bioelectra", "model": "mslm"}, "83.4 ± 0.2"),
        ("table8", {"set": "bc5cdr_disease", "encoder": "scibert", "model": "vanilla"}, "90.1"),
        ("table4", {"set": "jnlpba", "encoder": "biobert", "model": "mslm"}, "4.3"),
        ("table4", {"set": "bc5cdr_chem", "encoder": "pubmedbert", "model": "mslm"}, "1.2"),
        ("table5", {"elm": 1.0, "blm": 0.225, "sentences": "short"}, "19.4"),
        ("table5", {"elm": 0.25, "blm": 0.0, "sentences": "long"}, "77.9"),
        ("table6", {"set": "bc2gm", "encoder": "pubmedbert", "model": "uniform"}, "86.9"),
        ("table6", {"set": "jnlpba", "encoder": "biobert", "model": "mslm"}, "89.9"),
        ("table10", {"set": "bc2gm", "model": "mslm"}, "92.17"),
        ("table10", {"set": "jnlpba", "model": "greenbiobert"}, "76.89"),
        ("table13", {"encoder": "scibert", "model": "mslm"}, "89.7 ± 0.4"),
        ("table11", {"figure": "overlap"}, "8130"),
    ],
)
def test_the_papers_figures_are_those_it_prints(table: str, keys: dict, shown: str) -> None:
    assert show_published(find(table, **keys)) == shown


def test_the_papers_tables_are_complete() -> None:
    counts = {name: len(entries) for name, entries in read_published().items() if name[0] == "t"}
    assert counts == {
        "table4": 16,
        "table5": 8,
        "table6": 16,
        "table8": 48,
        "table10": 15,
        "table11": 4,
        "table13": 8,
        "table14": 171,
    }
    for name in ("table4", "table6", "table8", "table10", "table13"):
        keys = [(e["set"], e["encoder"], e["model"]) for e in read_published()[name]]
        assert len(set(keys)) == len(keys)


def test_the_papers_own_summary_follows_from_its_table() -> None:
    """Its text: +2.7 points over the four models of Table 13; its Table 11: 51.5 %."""
    gains = [
        find("table13", encoder=e, model="mslm")["value"]  # type: ignore[index]
        - find("table13", encoder=e, model="vanilla")["value"]  # type: ignore[index]
        for e in ("biobert", "pubmedbert", "bioelectra", "scibert")
    ]
    assert mean(gains) == pytest.approx(2.7, abs=0.06)
    collocations, overlap = (
        find("table11", figure=name)["value"]  # type: ignore[index]
        for name in ("collocations", "overlap")
    )
    assert 100 * overlap / collocations == pytest.approx(51.5, abs=0.05)


# ---- ours ----


def test_our_figures_are_means_over_seeds_with_differences(results: Path) -> None:
    # Vanilla finds 20 and 21 of 40 mentions, MSLM 30 and 33: EM 51.25 ± 1.77 and 78.75 ± 5.30.
    rows = read_rows(results)
    vanilla = measure(rows, "vanilla", "ncbi_disease", "em", "clean", "vanilla")
    assert vanilla is not None and vanilla.spread.mean == 51.25 and vanilla.comparison is None
    assert vanilla.shown == "51.2 ± 1.8" and vanilla.difference == ""
    mslm = measure(rows, "mslm", "ncbi_disease", "em", "clean", "vanilla")
    assert mslm is not None and mslm.shown == "78.8 ± 5.3" and mslm.comparison is not None
    difference, by_seed = mslm.comparison
    assert difference.mean == pytest.approx(27.5) and by_seed == pytest.approx((25.0, 30.0))
    # Given a seed, the difference is 2.5 points for each of 10 or 12 of 40 drawn documents.
    assert 10 < difference.low < 20 and 35 < difference.high < 45
    assert re.fullmatch(r"\+27\.5 \[.*\], better with both seeds \(to vanilla\)", mslm.difference)


def test_protocols_are_never_mixed(results: Path) -> None:
    table = make_table("table8", sources(results))
    line = next(li for li in table.lines if li.labels == ("NCBI-disease", "mslm-mini", "mslm"))
    # Only one seed was measured on masked text, without counts of sentences.
    assert line.ours["clean"].spread.seeds == 2
    assert line.ours["masked"].shown == "90.0" and line.ours["masked"].difference == ""
    vanilla = next(li for li in table.lines if li.labels[1:] == ("mslm-mini", "vanilla"))
    assert "masked" not in vanilla.ours and vanilla.command.endswith("results/pair")


def test_every_table_can_be_made_of_nothing(tmp_path: Path) -> None:
    for name in KINDS:
        table = make_table(name, sources(tmp_path / "absent"))
        assert table.lines or name == "figure2"
        assert all(li.command or li.labels[1] == "GreenBioBERT" for li in table.lines), name
        assert all(len(li.labels) == len(table.columns) for li in table.lines)


def test_sets_that_the_paper_does_not_have_are_shown(tmp_path: Path) -> None:
    rows = [make_row(t, "my_notes", 0, 10) for t in ("vanilla", "mslm", rate_trial(0.5, 0.0))]
    write_rows(tmp_path / "a.jsonl", rows)
    for name, number in (("table8", 2), ("table10", 2), ("figure4", 16)):
        table = make_table(name, sources(tmp_path))
        assert sum(li.labels[0] == "my_notes" for li in table.lines) == number
        assert sum("clean" in li.ours for li in table.lines) == 2


def test_perplexity_is_not_in_percent(results: Path) -> None:
    table = make_table("table4", sources(results))
    shown = {li.labels: li.ours["perplexity"].shown for li in table.lines if li.ours}
    assert shown == {("NCBI-disease", "mslm-mini", "mslm", "all"): "12.5"}


def test_two_files_with_the_same_trial_are_an_error(results: Path) -> None:
    write_rows(results / "again.jsonl", [make_row("mslm", "ncbi_disease", 1, 3)])
    with pytest.raises(ValueError, match="both have a row of the trial mslm on ncbi_disease"):
        read_rows(results)


@pytest.mark.parametrize("line", ["{", "3", '{"trial": "a", "set": "b", "seed": 0}'])
def test_what_is_no_row_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "a.jsonl").write_text(line + "\n")
    with pytest.raises(ValueError, match=r"a\.jsonl, line 1, is not the result of a trial"):
        read_rows(tmp_path)


def test_rows_of_earlier_versions_lack_fields() -> None:
    row = make_row("vanilla", "bc2gm", 0, 10)
    del row["counts"], row["protocol"], row["overrides"]
    rows = Rows([Row("vanilla", "bc2gm", 0, row), Row("mslm", "bc2gm", 0, row)])
    ours = measure(rows, "mslm", "bc2gm", "em", "clean", "vanilla")
    assert ours is not None and ours.shown == "25.0" and ours.comparison is None
    assert measure(rows, "mslm", "bc2gm", "em", "masked") is None


# ---- specs ----


def test_specs_of_ours_share_one_setting() -> None:
    """Tables compare trials of several specs."""
    own = {"training.eval_frequency", "training.logger.output_file"}
    settings = [
        {k: v for k, v in specs.read_spec(name)["overrides"].items() if k not in own}
        for name in ("pair", "rates", "strategies", "weights", "across")
    ]
    assert all(other == settings[0] for other in settings)


def test_the_grid_has_each_pair_of_rates_once() -> None:
    trials = dict(specs.trials("rates"))
    found = {(o["vars.elm_rate"], o["vars.blm_rate"]) for o in trials.values()}
    assert len(trials) == len(found) == 15 and (1.0, 0.075) not in found
    assert {rate_trial(*rates) for rates in found} == set(trials)
    mslm = dict(specs.trials("pair"))["mslm"]
    assert (mslm["vars.elm_rate"], mslm["vars.blm_rate"]) == (1.0, 0.075)
    assert rate_trial(1.0, 0.075) == "mslm"


def test_trials_have_one_spec_and_settings_of_their_config() -> None:
    from spacy_mslm.tasks.configs import read_raw_config

    root = Path(__file__).resolve().parents[2]
    for name in specs.NAMES:
        spec = specs.read_spec(name)
        for trial, overrides in specs.trials(name):
            if name != "clinical":  # the same encoders on another set
                assert specs.spec_of(trial) == name
            config = root / "configs" / f"{spec['trials'][trial]['config']}.cfg"
            read_raw_config(config, {**spec.get("overrides", {}), **overrides})


# ---- files ----


def test_csv_has_all_figures_unrounded(results: Path) -> None:
    table = make_table("table8", sources(results))
    rows = list(csv.DictReader(io.StringIO(render_csv(table).decode("utf8"), newline="")))
    (row,) = (r for r in rows if r["model"] == "mslm" and r["protocol"] == "clean")
    line = next(li for li in table.lines if li.labels == (row["set"], row["encoder"], "mslm"))
    ours = line.ours["clean"]
    assert ours.comparison is not None
    assert (float(row["ours"]), float(row["sd"]), int(row["seeds"])) == ours.spread
    bounds = tuple(float(row[name]) for name in ("difference", "low", "high"))
    assert bounds == ours.comparison.difference
    assert (row["baseline"], row["verdict"]) == ("vanilla", "better with both seeds")
    paper = [r for r in rows if (r["set"], r["encoder"]) == ("BC2GM", "BioBERT")]
    assert [r["paper"] for r in paper] == ["88.4", "90.3 ± 0.5"]
    assert all(r["ours"] == "" and "mslm sweep" in r["command"] for r in paper)
    assert len(rows) == len(table.lines) + 1  # one line has two protocols


class Cells(HTMLParser):
    """The text of each cell, and the tags."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.cells: list[str] = []

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_data(self, data: str) -> None:
        if self.cells:
            self.cells[-1] += data


def test_names_are_escaped_and_missing_cells_are_merged() -> None:
    evil = "<img src=x onerror=alert(1)>&"
    lines = [
        Line((evil, "a"), "1.0", {}, "python <b>one</b>"),
        Line((evil, "b"), "2.0", {}, "python <b>one</b>"),
        Line((evil, "c"), "3.0", {"clean": Ours(spread([5.0]))}, ""),
    ]
    table = Table("t", evil, ("set", "model"), ("clean", "masked"), "paper", lines, (evil,))
    page = render_page([table], {}).decode("utf8")
    parser = Cells()
    parser.feed(page)
    assert "img" not in {tag for tag, _ in parser.tags}
    assert not {"script", "link", "b"} & {tag for tag, _ in parser.tags}
    merged = [attrs for _, attrs in parser.tags if attrs.get("class") == "missing"]
    assert [(a["rowspan"], a["colspan"]) for a in merged] == [("2", "2")]
    assert parser.cells.count("not measuredpython <b>one</b>") == 1
    assert parser.cells[-2] == "5.0" and parser.cells[-1].strip() == "–"


def test_the_command_writes_page_csv_pictures_and_specs(results: Path, tmp_path: Path) -> None:
    output = tmp_path / "page"
    grid = [
        make_row(rate_trial(elm, blm), "ncbi_disease", 0, 10)
        for elm in (0.25, 0.5)
        for blm in (0.0, 0.15)
    ]
    write_rows(results / "rates.jsonl", grid)
    log = [{"step": s, "scores": {"ents_f": s / 100}, "score": 0.0} for s in (10, 20)]
    for name in ("vanilla", "mslm"):
        write_rows(results / "curves" / f"{name}-ncbi_disease-s0.jsonl", log)
    result = run_spacy(
        *("mslm", "paper", "table3", "figure4", "figure6"),
        *("--results", results, "--output", output),
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "specs/encoders.yml" in "".join(result.stdout.split())
    names = {path.name for path in output.iterdir()}
    tables = {"table8.csv", "figure3.csv", "figure4.csv", "figure3.png", "figure4.png"}
    assert names == {"paper.html", "specs", *tables}
    assert (output / "figure4.png").read_bytes().startswith(b"\x89PNG")
    page = (output / "paper.html").read_text("utf8")
    assert page.count('src="data:image/png;base64,') == 2 and "better with both seeds" in page
    assert "Table 9" not in page
    assert srsly.read_yaml(output / "specs" / "pair.yml") == specs.read_spec("pair")


def test_names_are_listed_and_the_nearest_is_named(tmp_path: Path) -> None:
    result = run_spacy("mslm", "paper", "--list")
    assert result.returncode == 0 and set(KINDS) <= set(result.stdout.split())
    result = run_spacy("mslm", "paper", "tabel8", "--output", tmp_path / "page")
    assert result.returncode == 1 and "Did you mean 'table8'?" in " ".join(result.stdout.split())
    assert not (tmp_path / "page").exists()
    assert choose_tables(["figure6", "table3", "table8"]) == ["table8", "figure3"]


def test_corpora_fill_tables_9_and_11(tmp_path: Path) -> None:
    words = ["familial", "cancer", "of", "the", "breast", "and", "von", "Willebrand", "disease"]
    tags = ["O"] * 6 + ["B-Disease", "I-Disease", "I-Disease"]
    sentence = "".join(f"{w}\t{t}\n" for w, t in zip(words, tags, strict=True)) + "\n"
    source = tmp_path / "source"
    source.mkdir()
    for split in ("train", "devel", "test"):
        (source / f"{split}.tsv").write_text(sentence * 6)
    corpora = tmp_path / "corpora"
    converted = run_spacy("mslm", "convert", source, corpora / "ncbi_disease")
    assert converted.returncode == 0, converted.stdout
    paper = write_paper(
        ["table9", "table11"], tmp_path / "none", tmp_path / "page", corpora=corpora
    )
    shown = {
        li.labels: (li.paper, li.ours["counts"].shown)
        for table in paper.tables
        for li in table.lines
        if li.ours
    }
    assert shown["NCBI-disease", "sentences, train"] == ("5,432", "6")
    assert shown["NCBI-disease", "mentions per sentence"] == ("0.95", "1.00")
    assert shown["NCBI-disease", "different mentions"] == ("", "1")
    # "von Willebrand disease" is a mention; "von Willebrand" and "Willebrand disease" are parts.
    assert shown["NCBI-disease", "collocations that are a mention"][1] == "1"
    missing = {li.labels[0] for table in paper.tables for li in table.lines if li.command}
    assert "BC2GM" in missing and "NCBI-disease" not in missing
