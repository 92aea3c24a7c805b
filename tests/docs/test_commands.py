"""The commands of README and documentation: commands, options, settings and files exist."""

import functools
import re
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

import pytest
import spacy
import spacy.cli
import srsly
from spacy.cli._util import app as spacy_app
from spacy.cli._util import parse_config_overrides
from spacy.util import load_config
from thinc.api import Config
from typer.main import get_command

import spacy_mslm.cli  # noqa: F401
from benchmarks.__main__ import app as benchmarks_app

from .pages import PAGES, ROOT, blocks_in, read_commands, read_inline_code

APPS = {"spacy": spacy_app, "benchmarks": benchmarks_app}
# Those of the repository's project, and of the projects that `spacy mslm init` writes.
STARTER = (ROOT / "spacy_mslm" / "data" / "starter.yml").read_text("utf8")
VARS = srsly.read_yaml(ROOT / "project.yml")["vars"]
VARS |= dict.fromkeys(re.findall(r"^  (\w+): ", STARTER.partition("workflows:")[0], re.MULTILINE))
CONFIGS = sorted((ROOT / "configs").glob("*.cfg"))
EXTRAS = set(metadata("spacy-mslm").get_all("Provides-Extra") or ())
# Folders of the repository, whose files a command must not invent.
OURS = re.compile(r"(configs|scripts|benchmarks)/\S+\.\w+|assets/semantic_types\.yml")

BLOCKS = {
    (b.name, " ".join(words)): words for b in blocks_in("bash") for words in read_commands(b.code)
}
INLINE = {
    (str(page.relative_to(ROOT)), code): words
    for page in PAGES
    for code in read_inline_code(page)
    if re.match(r"python -m (spacy|benchmarks) ", code)
    for words in read_commands(code)
}
COMMANDS = [
    pytest.param(words, id=f"{name} {text}")
    for (name, text), words in {**BLOCKS, **INLINE}.items()
    if "-m" in words[:2] and words[2] in APPS
]


@functools.cache
def factory_defaults() -> dict[str, Any]:
    nlp = spacy.blank("en")
    assert nlp.has_factory("mslm")  # loads the entry point
    return nlp.get_factory_meta("mslm").default_config


@functools.cache
def read_config(path: Path) -> Config:
    return load_config(path, interpolate=False)


def knows(config: Config, setting: str) -> bool:
    """Return whether a config, or the defaults of its component, has a setting."""
    *sections, key = setting.split(".")
    node: Any = config
    for section in sections:
        if not isinstance(node, dict) or section not in node:
            return False
        node = node[section]
    is_component = sections == ["components", "mslm"]
    return isinstance(node, dict) and (key in node or (is_component and key in factory_defaults()))


def parse(command: Any, arguments: list[str]) -> list[str]:
    """Parse the arguments of a command and return those that it does not know.

    The corpora and pipelines of the examples are created as they are asked for.
    """
    while True:
        try:
            return command.make_context(command.name, list(arguments)).args
        except Exception as error:
            missing = re.search(r"(\w+) '([^']+)' does not exist", str(error))
            if missing is None:
                raise
            path = Path(missing.group(2))
            path.parent.mkdir(parents=True, exist_ok=True)
            is_folder = missing.group(1).lower() in ("dir", "directory")
            path.mkdir() if is_folder else path.touch()


@pytest.mark.parametrize("words", COMMANDS)
def test_commands_and_their_options_exist(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    command = get_command(APPS[words[2]])
    arguments = words[3:]
    while hasattr(command, "commands"):
        assert arguments[0] in command.commands
        command = command.commands[arguments.pop(0)]
    overrides = parse_config_overrides(parse(command, arguments))
    configs = [ROOT / word for word in words if word.startswith("configs/")]
    if "project" in words:
        assert {name.removeprefix("vars.") for name in overrides} <= VARS.keys()
    elif configs:
        assert [name for name in overrides if not knows(read_config(configs[0]), name)] == []
    else:
        assert not overrides


SECTIONS = {
    *("paths", "vars", "system", "maskings", "corpora", "nlp", "components", "training"),
    *("initialize", "pretraining", "labelling"),
}


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*.cfg")), ids=lambda p: p.stem)
def test_configs_have_known_sections(path: Path) -> None:
    """A line of text that begins with a bracket would be a section without a message."""
    assert set(read_config(path)) <= SECTIONS


def test_enough_commands_are_checked() -> None:
    assert len(COMMANDS) > 60


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_a_page_names_exist(page: Path) -> None:
    text = page.read_text(encoding="utf8")
    named = {match.group().rstrip(".`,)") for match in OURS.finditer(text)}
    assert {name for name in named if not (ROOT / name).exists()} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_settings_that_a_page_names_exist(page: Path) -> None:
    options = {
        match.group(1)
        for code in read_inline_code(page)
        for match in re.finditer(r"--([a-z_]+(?:\.[a-z_0-9]+)+)", code)
    }
    unknown = {
        option
        for option in options
        if not any(knows(read_config(path), option) for path in CONFIGS)
        and option.removeprefix("vars.") not in VARS
    }
    assert unknown == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_that_a_page_names_exist(page: Path) -> None:
    commands = get_command(spacy_app).commands["mslm"].commands
    for code in read_inline_code(page):
        match = re.match(r"spacy mslm ([a-z]+)(?: ([a-z-]+))?", code)
        if match:
            command = commands[match.group(1)]
            assert not hasattr(command, "commands") or match.group(2) in command.commands, code


def test_extras_that_pip_is_asked_for_exist() -> None:
    asked = {
        extra
        for words in BLOCKS.values()
        if any(word.endswith("pip") for word in words)
        for word in words
        for match in re.finditer(r"\[([\w,]+)\]", word)
        for extra in match.group(1).split(",")
    }
    assert asked <= EXTRAS and "dev" in asked


def test_spacy_has_loaded_our_commands() -> None:
    assert "mslm" in get_command(spacy_app).commands and spacy.cli.app is spacy_app
