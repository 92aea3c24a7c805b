"""Griffe extension: argument lists in spaCy's style get the headings that the Google style needs.

spaCy writes one paragraph of lines such as

    name (type): What it is.
    RETURNS (type): What comes back.

directly in the docstring. Without a heading, mkdocstrings shows them as running text.
"""

import re
from typing import Any

from griffe import Extension, Object

ARGUMENT = re.compile(r"^(\*{0,2}\w+)( \([^)]*\))?: ")
SECTIONS = {"RETURNS": "Returns", "YIELDS": "Yields", "RAISES": "Raises", "returns": "Returns"}
HEADINGS = ("Args:", "Arguments:", "Returns:", "Yields:", "Raises:", "Note:", "Example:")


class SpacyDocstrings(Extension):
    """Rewrites the docstrings of all objects before they are parsed."""

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        """Rewrite the docstring of an object."""
        if obj.docstring is not None:
            names = _parameters(obj) | _parameters(obj.members.get("__init__"))
            obj.docstring.value = with_headings(obj.docstring.value, names)


def _parameters(obj: Any) -> set[str]:
    return {parameter.name for parameter in getattr(obj, "parameters", ())}


def with_headings(text: str, names: set[str]) -> str:
    """Put a heading above the lines that describe parameters or what is returned.

    Args:
        text: A docstring.
        names: The parameters of the function.

    Returns:
        The docstring, with Google-style sections.
    """
    if any(line.strip() in HEADINGS for line in text.splitlines()):
        return text
    lines: list[str] = []
    section = ""
    for line in text.splitlines():
        match = ARGUMENT.match(line)
        name = match.group(1) if match else ""
        wanted = SECTIONS.get(name) or ("Args" if name.lstrip("*") in names else "")
        if wanted:
            if wanted != section:
                lines += ["", f"{wanted}:"]
            section = wanted
            body = line[match.end() :] if match and wanted != "Args" else line
            lines.append(f"    {body}")
        elif section and (line.startswith("    ") or not line):
            lines.append(f"    {line}".rstrip())
        else:
            section = ""
            lines.append(line)
    return "\n".join(lines)
