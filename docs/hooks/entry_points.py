"""Reads the registered names from setup.py, without running it."""

import ast
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]


class Registered(NamedTuple):
    """A registered function: its registry, its name there, and its place in the package."""

    registry: str
    name: str
    target: str

    @property
    def path(self) -> str:
        """The dotted path of the function."""
        return self.target.replace(":", ".")


def read_entry_points() -> list[Registered]:
    """Return every entry point of setup.py but the command line, in its order."""
    tree = ast.parse((ROOT / "setup.py").read_text(encoding="utf8"))
    (groups,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "ENTRY_POINTS"
    )
    return [
        Registered(group.split("_", maxsplit=1)[1], *line.split(" = "))
        for group, lines in groups.items()
        for line in lines
        if group != "spacy_cli"
    ]
