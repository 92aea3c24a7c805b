"""The reference page of the registered functions, from the entry points of setup.py."""

from itertools import groupby

from entry_points import Registered, read_entry_points

INTRO = """# Registered functions

spaCy finds these functions by their names, through the entry points of the package: a config can
use them without any import. This page is generated from the code.

"""

NOTES = {
    "factories": "\nDefault settings of `mslm`: [Configs](config.md#settings-of-the-component).\n"
}


def render() -> str:
    """Return the page in Markdown: a table of all names, then a section for each function."""
    entries = read_entry_points()
    return INTRO + _table(entries) + "".join(map(_registry, _by_registry(entries)))


def _by_registry(entries: list[Registered]) -> list[tuple[str, list[Registered]]]:
    groups = groupby(entries, key=lambda entry: entry.registry)
    return [(registry, list(own)) for registry, own in groups]


def _table(entries: list[Registered]) -> str:
    rows = [
        f"| `{registry}` | {', '.join(f'[`{e.name}`](#{e.path})' for e in own)} |"
        for registry, own in _by_registry(entries)
    ]
    return "\n".join(["| registry | names |", "|---|---|", *rows]) + "\n"


def _registry(group: tuple[str, list[Registered]]) -> str:
    registry, entries = group
    return f"\n## {registry}\n{NOTES.get(registry, '')}" + "".join(map(_section, entries))


def _section(entry: Registered) -> str:
    return (
        f"\n::: {entry.path}\n"
        "    options:\n"
        f'      heading: "{entry.name}"\n'
        f'      toc_label: "{entry.name.removeprefix("spacy_mslm.")}"\n'
        "      members: false\n"
        "      show_bases: false\n"
        # The defaults of a factory are in its config, not in its signature.
        + ("      docstring_section_style: list\n" if entry.registry == "factories" else "")
    )
