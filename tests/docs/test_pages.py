"""The pages agree with the code: scores, formats, corpora and extras; the README stays short."""

import importlib
import re
import sys
from importlib.metadata import metadata
from pathlib import Path
from types import ModuleType

import pytest
import spacy

from spacy_mslm.corpus.download import read_table
from spacy_mslm.corpus.formats.detection import FORMATS

from ..conftest import make_examples
from ..make_saved_pipeline import FOLDER
from .pages import PAGES, ROOT

DOCS = ROOT / "docs"


def first_column(page: str, header: str) -> set[str]:
    """Return the inline code in the first column of the table whose header begins with a cell."""
    text = (DOCS / page).read_text(encoding="utf8")
    table = text[text.index(f"| {header} |") :].split("\n\n")[0]
    cells = [line.split("|")[1] for line in table.splitlines()[2:]]
    return {code for cell in cells for code in re.findall(r"`([^`]+)`", cell)}


def test_readme_is_at_most_150_lines() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf8").splitlines()) <= 150


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_name_no_file_outside_the_repository(page: Path) -> None:
    assert "../shared" not in page.read_text(encoding="utf8")


def test_links_of_the_readme_lead_to_files() -> None:
    for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md"):
        links = re.findall(r"\]\(([^)#]+)", (ROOT / name).read_text(encoding="utf8"))
        files = [link for link in links if not link.startswith("https://")]
        assert [link for link in files if not (ROOT / link).exists()] == []


def test_scores_are_those_that_an_evaluation_writes() -> None:
    nlp = spacy.load(FOLDER)
    nlp.get_pipe("mslm").score_masked = True
    scores = nlp.evaluate(make_examples(nlp))
    written = {key for key in scores if key.startswith(("ents_", "mslm_"))}
    assert first_column("reference/scores.md", "key") == written


def test_formats_are_those_of_convert() -> None:
    assert first_column("reference/formats.md", "`--format`") == set(FORMATS)


def test_corpora_are_those_of_fetch() -> None:
    assert first_column("guides/data.md", "name") == read_table().keys()


def test_extras_are_those_of_the_package() -> None:
    extras = set(metadata("spacy-mslm").get_all("Provides-Extra") or ())
    assert first_column("guides/install.md", "extra") == extras


# ---- generated pages ----


@pytest.fixture
def hooks(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The modules in docs/hooks that need no MkDocs."""
    monkeypatch.syspath_prepend(str(DOCS / "hooks"))
    names = ("entry_points", "registry_page", "cli_page", "config_page", "api_page")
    hooks = ModuleType("hooks")
    for name in names:
        setattr(hooks, name, importlib.import_module(name))
        monkeypatch.delitem(sys.modules, name)
    return hooks


def test_registry_page_has_every_registered_name(hooks: ModuleType) -> None:
    page = hooks.registry_page.render()
    entries = hooks.entry_points.read_entry_points()
    assert len(entries) > 30
    for entry in entries:
        assert f'heading: "{entry.name}"' in page
        assert f"::: {entry.target.replace(':', '.')}\n" in page


def test_command_line_page_has_every_option(hooks: ModuleType) -> None:
    page = hooks.cli_page.render()
    for text in ("## mslm weak review", "`--protocol`", "`--max-loss`", "`--gpu-id`, `-g`"):
        assert text in page
    assert "| `--mode` |" in page and "`onnx-int8` |" in page


def test_config_page_has_settings_with_their_comments(hooks: ModuleType) -> None:
    settings = {
        (s.section, s.key): s
        for name in ("mslm", "weak")
        for s in hooks.config_page.read_settings(name)
    }
    assert settings["vars", "elm_rate"].value == "0.5"
    assert "Hugging Face" in settings["vars", "encoder"].comment
    page = hooks.config_page.render()
    assert "| `--paths.text` | `null` |" in page and "## weak.cfg" in page
    assert "transition_weight = 0.5" in page


def test_api_page_has_the_component_and_the_tasks(hooks: ModuleType) -> None:
    page = hooks.api_page.render()
    assert "::: spacy_mslm.pipeline.component.MSLM" in page and "::: spacy_mslm.tasks." in page


def test_arguments_in_the_style_of_spacy_get_headings(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("griffe")
    monkeypatch.syspath_prepend(str(DOCS / "hooks"))
    with_headings = importlib.import_module("docstrings").with_headings
    text = "Do it.\n\nrate: How often,\n    and how much.\nRETURNS (int): The result.\n\nThe end."
    expected = (
        "Do it.\n\n\nArgs:\n    rate: How often,\n        and how much.\n\nReturns:\n"
        "    The result.\n\nThe end."
    )
    assert with_headings(text, {"rate"}) == expected
    google = "Do it.\n\nArgs:\n    rate: How often."
    assert with_headings(google, {"rate"}) == google
