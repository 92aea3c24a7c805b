"""The reference page of the command line, from the Typer application."""

from collections.abc import Iterator
from typing import Any

import typer
from typer.main import get_command

from spacy_mslm.cli import mslm_cli

PREFIX = "python -m spacy mslm"
INTRO = f"""# Command line

All commands are subcommands of spaCy: `{PREFIX} COMMAND`. Every command prints its arguments and
options with `--help`, exits with a code other than 0 if it fails, and writes its output completely
or not at all. This page is generated from the code.

"""


def render() -> str:
    """Return the page in Markdown: a table of the commands, then a section for each."""
    app = get_command(mslm_cli)
    commands = list(_walk(app, PREFIX))
    rows = [
        f"| [`{name.removeprefix(PREFIX + ' ')}`](#{_anchor(name)}) | {_summary(command)} |"
        for name, command in commands
    ]
    table = "\n".join(["| command | what it does |", "|---|---|", *rows])
    return INTRO + table + "\n\n" + "\n".join(_section(name, own) for name, own in commands)


def _walk(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield every command below a group with its full name."""
    for own_name, own in command.commands.items():
        full = f"{name} {own_name}"
        if hasattr(own, "commands"):
            yield from _walk(own, full)
        else:
            yield full, own


def _section(name: str, command: Any) -> str:
    context = typer.Context(command, info_name=name)
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option"]
    usage = " ".join([name, *(_metavar(p) for p in arguments), "[OPTIONS]"])
    overrides = command.context_settings.get("allow_extra_args", False)
    parts = [
        f"## {name.removeprefix('python -m spacy ')} {{ #{_anchor(name)} }}",
        (command.help or "").strip(),
        f"```text\n{usage}{' [--SECTION.KEY VALUE ...]' if overrides else ''}\n```",
        _arguments(arguments),
        _options(options, context),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _arguments(arguments: list[Any]) -> str:
    if not arguments:
        return ""
    rows = [f"| `{_metavar(p)}` | {_cell(p.help)} |" for p in arguments]
    return "\n".join(["| argument | description |", "|---|---|", *rows])


def _options(options: list[Any], context: typer.Context) -> str:
    if not options:
        return ""
    rows = [
        f"| {_names(option)} | {_cell(option.help)} | {_default(option, context)} |"
        for option in options
    ]
    return "\n".join(["| option | description | default |", "|---|---|---|", *rows])


def _names(option: Any) -> str:
    names = [*option.opts, *option.secondary_opts]
    return ", ".join(f"`{name}`" for name in sorted(names, key=len, reverse=True))


def _default(option: Any, context: typer.Context) -> str:
    if getattr(option, "is_flag", False) and not option.secondary_opts:
        return ""
    value = option.get_default(context)
    value = getattr(value, "value", value)
    return "" if value is None else f"`{value}`"


def _metavar(argument: Any) -> str:
    return argument.metavar or argument.name.upper()


def _summary(command: Any) -> str:
    """Return the first sentence of the help text."""
    text = " ".join((command.help or "").split("\n\n")[0].split())
    return _cell(text.split(". ")[0].rstrip("."))


def _cell(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


def _anchor(name: str) -> str:
    return name.removeprefix("python -m spacy ").replace(" ", "-")
