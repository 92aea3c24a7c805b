"""The Python and config examples of README and documentation: they run and print what they should.

A block that cannot run here has a comment above it that says why: `<!-- not run: needs a GPU -->`.
"""

import contextlib
import io
import shutil
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import spacy
from spacy.tokens import DocBin
from spacy.util import registry
from thinc.api import Config

from ..conftest import make_examples
from ..make_saved_pipeline import FOLDER
from .pages import PAGES, ROOT, Block, blocks_in, read_blocks

# Where the examples expect a trained pipeline.
PIPELINES = ("training/model-best", "training/mine/calibrated", "training/demo/mslm/calibrated")
DEMO = ROOT / PIPELINES[-1]
PYTHON = {page: list(own) for page, own in groupby(blocks_in("python"), lambda b: b.page)}
PROJECTS = ROOT / "docs" / "guides" / "projects.md"


def run(block: Block, namespace: dict[str, Any]) -> str:
    """Execute a block and return what it prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(block.code, block.name, "exec"), namespace)
    return printed.getvalue()


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs")
    for name in PIPELINES:
        shutil.copytree(FOLDER, folder / name)
    (folder / "corpus").mkdir()
    corpus = DocBin(docs=[eg.reference for eg in make_examples(spacy.blank("en"))])
    for split in ("train", "dev", "test"):
        corpus.to_disk(folder / "corpus" / f"{split}.spacy")
    return folder


@pytest.mark.parametrize("page", PYTHON, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_examples_run_and_print_what_the_page_says(
    page: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workspace)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in PYTHON[page]:
        if not block.reason:
            printed = run(block, namespace)
            assert block.output in (None, printed), block.name


@pytest.mark.skipif(not DEMO.exists(), reason="needs the demo: spacy project run all")
def test_demo_pipeline_finds_the_entities_of_the_guide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    blocks = read_blocks(PROJECTS)
    example = next(i for i, block in enumerate(blocks) if 'load("training/demo' in block.code)
    printed = run(blocks[example], {})
    # The confidences, which come last, differ between processors.
    expected = [line.split()[:-1] for line in blocks[example + 1].code.splitlines()]
    assert [line.split()[:-1] for line in printed.splitlines()] == expected


def registered(section: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the registered names that a config uses."""
    own = [(key[1:], value) for key, value in section.items() if key.startswith("@")]
    return own + [
        name for value in section.values() if isinstance(value, dict) for name in registered(value)
    ]


@pytest.mark.parametrize("block", blocks_in("ini"), ids=lambda block: block.name)
def test_config_examples_use_registered_functions(block: Block) -> None:
    # Parents of the sections that the example shows.
    text = "".join(
        f"[{'.'.join(parts[:n])}]\n"
        for line in block.code.splitlines()
        if line.startswith("[")
        for parts in [line.strip("[]").split(".")]
        for n in range(1, len(parts))
        if f"[{'.'.join(parts[:n])}]" not in block.code
    )
    config = Config().from_str(_without_duplicates(text) + block.code, interpolate=False)
    if not block.reason:
        assert all(registry.has(kind, name) for kind, name in registered(config)), block.name


def _without_duplicates(text: str) -> str:
    return "".join(dict.fromkeys(text.splitlines(keepends=True)))


def test_blocks_that_are_not_run_are_few_and_have_a_reason() -> None:
    skipped = [block for page in PAGES for block in read_blocks(page) if block.reason]
    assert {block.name.partition(":")[0] for block in skipped} == {
        "README.md",
        "docs/guides/annotate.md",
        "docs/guides/export.md",
        "docs/guides/gpu.md",
        "docs/guides/predict.md",
        "docs/concepts/killed_workers.md",
        "docs/concepts/mslm.md",
        "docs/tutorials/first_hour.md",
    }
