"""The shape of the package: what is registered, who imports whom, which messages there are, and
what installing it asks for."""

import ast
import re
import string
import sys
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import EntryPoint, distribution
from pathlib import Path

import pytest
import spacy
from packaging.requirements import Requirement
from spacy.language import Language

from spacy_mslm import errors

from .commands import run_python

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "spacy_mslm"
METADATA = distribution("spacy-mslm")
ENTRY_POINTS = list(METADATA.entry_points)
FILES = sorted(PACKAGE.rglob("*.py"))
TREES = {
    "spacy_mslm." + ".".join(f.relative_to(PACKAGE).with_suffix("").parts): ast.parse(
        f.read_text("utf8")
    )
    for f in FILES
}


# ---- entry points ----


def test_the_installed_entry_points_are_those_of_setup_py() -> None:
    tree = ast.parse((ROOT / "setup.py").read_text(encoding="utf8"))
    (declared,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "ENTRY_POINTS"
    )
    expected = {(group, line) for group, lines in declared.items() for line in lines}
    installed = {(ep.group, f"{ep.name} = {ep.value}") for ep in ENTRY_POINTS}
    assert installed == expected, "install the package again: pip install -e ."


@pytest.mark.parametrize("entry_point", ENTRY_POINTS, ids=lambda ep: f"{ep.group}:{ep.name}")
def test_every_entry_point_is_found_by_its_registry(entry_point: EntryPoint) -> None:
    loaded = entry_point.load()
    kind = entry_point.group.split("_", maxsplit=1)[1]
    if kind == "factories":
        assert spacy.blank("en").has_factory(entry_point.name)
        assert Language.get_factory_meta(entry_point.name).factory == entry_point.name
    else:
        assert spacy.registry.get(kind, entry_point.name) is loaded


# ---- imports ----


def imports(module: str) -> Iterator[str]:
    """All modules that a module imports, absolute, wherever in it; those for types only are not
    imported when it runs."""
    package = module if module.endswith("__init__") else module.rpartition(".")[0]
    package = package.removesuffix(".__init__")
    nodes: list[ast.AST] = [TREES[module]]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        nodes.extend(ast.iter_child_nodes(node))
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            up = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*(up if node.level else []), *([node.module] if node.module else [])])
            yield from {
                f"{base}.{alias.name}" if f"{base}.{alias.name}" in TREES else base
                for alias in node.names
            }


GRAPH = {module: set(imports(module)) for module in TREES}
OURS = {module: {other for other in GRAPH[module] if other in TREES} for module in TREES}


def outside(name: str) -> set[str]:
    """The packages that a module of ours imports, the standard library's left out."""
    found = {module.partition(".")[0] for module in GRAPH[f"spacy_mslm.{name}"]}
    return found - sys.stdlib_module_names - {"spacy_mslm"}


def modules(package: str) -> list[str]:
    """The names of all modules of a subpackage, without `spacy_mslm.`."""
    names = (name.removeprefix("spacy_mslm.") for name in TREES)
    return [name for name in names if name == package or name.startswith(f"{package}.")]


def test_the_graph_is_read_right() -> None:
    assert OURS["spacy_mslm.training.losses"] >= {
        "spacy_mslm.types",
        "spacy_mslm.model.network",
    }
    assert "spacy_mslm.cli.convert" in OURS["spacy_mslm.cli.__init__"]
    assert "spacy" in outside("pipeline.component") and "torch" in outside("model.network")


# Packages in the order of the data: a module imports from its own package and from those above it.
LAYERS = [
    ("errors", "types", "__init__"),
    ("util",),
    ("engine",),
    ("text",),
    ("corpus",),
    ("pieces",),
    ("masking",),
    ("model",),
    ("inference",),
    ("scoring",),
    ("training",),
    ("pipeline",),
    ("weak",),
    ("tasks",),
    ("server",),
    ("cli",),
]
LAYER_OF = {package: i for i, packages in enumerate(LAYERS) for package in packages}


def package_of(module: str) -> str:
    return module.removeprefix("spacy_mslm.").partition(".")[0]


@pytest.mark.parametrize("module", TREES)
def test_imports_point_one_way(module: str) -> None:
    layer = LAYER_OF[package_of(module)]
    up = [other for other in OURS[module] if LAYER_OF[package_of(other)] > layer]
    beside = [
        other
        for other in OURS[module]
        if LAYER_OF[package_of(other)] == layer and package_of(other) != package_of(module)
    ]
    assert not up + beside


@pytest.mark.parametrize("name", ["types", "errors"])
def test_carriers_know_nothing_of_ours(name: str) -> None:
    assert OURS[f"spacy_mslm.{name}"] == set()
    assert outside(name) <= {"numpy"}


NUMPY_ONLY = [
    *("pieces.windows", "model.schedules", "inference.decoding", "inference.calibration"),
    *("masking.collocations", "masking.strategies", "masking.views", "masking.weights"),
]


@pytest.mark.parametrize("name", NUMPY_ONLY)
def test_steps_need_neither_torch_nor_spacy(name: str) -> None:
    assert outside(name) <= {"numpy"}
    allowed = {
        f"spacy_mslm.{module}"
        for module in ("types", "errors", "util.files", "masking.collocations")
    }
    assert OURS[f"spacy_mslm.{name}"] <= allowed


@pytest.mark.parametrize("name", modules("corpus.formats"))
def test_formats_need_the_standard_library_only(name: str) -> None:
    allowed = {"corpus.formats.records": {"numpy"}, "corpus.formats.hugging_face": {"pyarrow"}}
    assert outside(name) <= allowed.get(name, set())
    others = {f"spacy_mslm.{module}" for module in modules("corpus.formats")}
    others |= {f"spacy_mslm.util.{module}" for module in ("arrow", "lines", "spans")}
    others |= {"spacy_mslm.corpus.label_schemes"}
    assert OURS[f"spacy_mslm.{name}"] <= others | {"spacy_mslm.errors", "spacy_mslm.types"}


@pytest.mark.parametrize(
    "name", ["model.network", "model.mlm_heads", "model.checkpoints", "training.losses"]
)
def test_torch_code_knows_no_spacy(name: str) -> None:
    assert outside(name) <= {"numpy", "torch", "transformers", "tokenizers"}


def test_nothing_imports_the_command_line() -> None:
    for module, others in OURS.items():
        if not module.startswith("spacy_mslm.cli"):
            assert not [other for other in others if other.startswith("spacy_mslm.cli")], module


def test_the_command_line_starts_without_anything_heavy() -> None:
    code = (
        "import sys, spacy.cli; before = set(sys.modules); import spacy_mslm.cli; "
        "print(*{name.partition('.')[0] for name in set(sys.modules) - before})"
    )
    result = run_python("-c", code, fresh=True)
    result.check_returncode()
    new = set(result.stdout.split())
    assert "spacy_mslm" in new
    assert not new & {"torch", "transformers", "tokenizers", "matplotlib", "ray"}


def test_imports_have_no_cycle() -> None:
    left = dict(OURS)
    while left:
        leaves = [module for module, others in left.items() if not others & left.keys()]
        assert leaves, f"a cycle among {sorted(left)}"
        for module in leaves:
            del left[module]


# ---- messages ----


DEFINED = {
    "Errors": {code: text for code, text in vars(errors.Errors).items() if code[0] != "_"},
}


def uses() -> Iterator[tuple[str, str, str, set[str] | None]]:
    """Every `Errors.Mxxx`: module, class, code, keywords of its `.format`."""
    for module, tree in TREES.items():
        calls = {
            id(node.func.value): {str(keyword.arg) for keyword in node.keywords}
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "format"
            and not node.args
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) in DEFINED:
                yield module, ast.unparse(node.value), node.attr, calls.get(id(node))


def test_every_message_is_used_and_every_used_one_is_there() -> None:
    used = {(name, code) for _, name, code, _ in uses()}
    assert used == {(name, code) for name, messages in DEFINED.items() for code in messages}


def test_every_message_gets_the_values_it_names() -> None:
    for module, name, code, keywords in uses():
        fields = {
            field for _, field, _, _ in string.Formatter().parse(DEFINED[name][code]) if field
        }
        # A message without values may stand for itself.
        assert (keywords or set()) == fields, f"{module}: {name}.{code}"


def test_only_messages_that_are_raised_in_several_places_have_a_code() -> None:
    places = Counter(code for _, _, code, _ in uses())
    assert min(places.values()) > 1, places


def test_a_code_is_printed_with_its_message() -> None:
    assert errors.Errors.M021.startswith("[M021] The mslm model")


@pytest.mark.parametrize(("name", "letter"), [("Errors", "M")])
def test_codes_are_unique_and_in_order(name: str, letter: str) -> None:
    (body,) = (
        node.body
        for node in TREES["spacy_mslm.errors"].body
        if isinstance(node, ast.ClassDef) and node.name == name
    )
    codes = [ast.unparse(node.targets[0]) for node in body if isinstance(node, ast.Assign)]
    assert codes == sorted(set(codes))
    assert all(code[0] == letter and code[1:].isdigit() and len(code) == 4 for code in codes)


# ---- metadata ----


def test_the_base_install_is_small_and_pins_nothing_of_today() -> None:
    requirements = [Requirement(line) for line in METADATA.requires or []]
    base = {r.name for r in requirements if "extra" not in str(r.marker)}
    assert base == {"numpy", "spacy", "thinc", "torch", "transformers", "typer"}
    for r in requirements:
        allowed = {"torch": "2.15.0", "numpy": "2.4.6", "transformers": "5.23.0"}.get(r.name)
        assert allowed is None or allowed in r.specifier, r
    # Other extras, too, must not bring the old numpy along.
    weak = [r for r in requirements if r.name == "scispacy"]
    assert weak and all("weak" in str(r.marker) or "all" in str(r.marker) for r in weak)


def test_the_tested_versions_satisfy_the_requirements() -> None:
    """Those of constraints.txt, which the commands of the README install."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf8").splitlines()
    pinned = {r.name: r for r in map(Requirement, filter(None, (li.split("#")[0] for li in lines)))}
    for requirement in map(Requirement, METADATA.requires or []):
        for pin in pinned[requirement.name].specifier if requirement.name in pinned else ():
            assert pin.operator == "==" and pin.version in requirement.specifier, requirement
    base = {r.name for r in map(Requirement, METADATA.requires or []) if r.marker is None}
    assert base <= set(pinned)


def test_nothing_imports_spacy_transformers() -> None:
    """It is an extra."""
    for path in (ROOT / "spacy_mslm").rglob("*.py"):
        assert not re.search(r"(import|from) spacy_transformers", path.read_text("utf8")), path


def test_all_extras_can_be_installed_together() -> None:
    """scispaCy needs numpy below 2, which pyarrow refuses from version 26 on."""
    requirements = [Requirement(line) for line in METADATA.requires or []]
    arrows = [r.specifier for r in requirements if r.name == "pyarrow"]
    assert arrows
    assert all("25.0.1" in arrow and "26.0.1" not in arrow for arrow in arrows)


def test_metadata_tells_licence_and_python() -> None:
    assert "MIT" in (METADATA.metadata["License"], METADATA.metadata["License-Expression"])
    assert (ROOT / "LICENSE").read_text(encoding="utf8").startswith("MIT License")
    assert set(METADATA.metadata["Requires-Python"].split(",")) == {">=3.10"}
    assert METADATA.version == sys.modules["spacy_mslm"].__version__
