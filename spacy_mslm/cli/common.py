"""The Typer applications of `python -m spacy mslm`, and the options that commands share.

`command` registers a command. It is the one place that turns an error into a message and an exit
code, so that commands only parse their arguments, call a function of `spacy_mslm.tasks` and print
its result.
"""

import functools
import logging
import os
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer
from spacy.cli._util import parse_config_overrides
from wasabi import msg

mslm_cli = typer.Typer(
    name="mslm", help="Commands of spacy-mslm for entity corpora and models", no_args_is_help=True
)
weak_cli = typer.Typer(name="weak", help="Weak supervision of clinical notes", no_args_is_help=True)
mslm_cli.add_typer(weak_cli, name="weak")

# The errors that a user can do something about. Any other is a bug and keeps its traceback.
EXPECTED_ERRORS = (ValueError, OSError, ImportError)

Model = Annotated[str, typer.Argument(metavar="MODEL", help="Pipeline name or path")]
Address = Annotated[
    str | None,
    typer.Option(
        help="Host and port of the head of the Ray cluster [default: the cluster of this machine]"
    ),
]
GpuId = Annotated[int, typer.Option("--gpu-id", "-g", help="GPU ID or -1 for CPU")]


def show_messages() -> None:
    """Let spaCy's commands show what the package logs, not only its warnings.

    `spacy train` and `spacy debug data` show the messages of spaCy's own logger only.
    """
    logger = logging.getLogger("spacy_mslm")
    if not logger.handlers:
        logger.addHandler(logging.StreamHandler())
        logger.setLevel(logging.INFO)


def command(
    app: typer.Typer, name: str, *, failure: str, overrides: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a function as a command.

    Args:
        app: The application that the command belongs to.
        name: The name of the command.
        failure: The title of the error message, such as "The evaluation failed".
        overrides: Whether settings of a config can be given as options (`--paths.train FILE`).
            The function then takes the `typer.Context` and reads them with `config_overrides`.
    """
    extra = {"allow_extra_args": True, "ignore_unknown_options": True} if overrides else None

    def register(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> None:
            try:
                function(*args, **kwargs)
            except EXPECTED_ERRORS as err:
                msg.fail(failure, _sentence(err), exits=1)

        return app.command(name, context_settings=extra)(run)

    return register


def _sentence(err: Exception) -> str:
    """Return the message of an error. Those of the system, such as a full disk, name the file."""
    if isinstance(err, OSError) and err.filename is not None and err.strerror:
        reason = err.strerror[0].lower() + err.strerror[1:]
        where = os.fsdecode(err.filename) if isinstance(err.filename, str | bytes) else err.filename
        return f"{where}: {reason}. Check the path, its permissions and the free disk space."
    return str(err)


def config_overrides(ctx: typer.Context) -> dict[str, Any]:
    """Return the settings that are given as options, such as {"paths.train": "train.spacy"}."""
    return parse_config_overrides(ctx.args)


def show_table(
    rows: Sequence[tuple], header: tuple[str, ...] | None = None, *, left: int = 1
) -> None:
    """Print a table whose first `left` columns are left-aligned and the others right-aligned."""
    aligns = ["l"] * left + ["r"] * (len(rows[0]) - left) if rows else None
    msg.table(rows, header=header, divider=header is not None, aligns=aligns, max_col=60)
