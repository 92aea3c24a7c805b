"""The progress of trials: a table that is updated in a terminal, and a line per trial elsewhere."""

import contextlib
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wasabi import msg

if TYPE_CHECKING:
    from ..tasks.sweeping.spec import Trial
    from ..tasks.sweeping.sweep import Watch
    from ..tasks.sweeping.trial import Outcome

SHOWN = 12  # rows of finished trials
ROOM = 50  # characters for the other columns and the lines


@contextlib.contextmanager
def watched(output: Path) -> Iterator["Watch"]:
    """Show the progress of trials. Ctrl-C ends the command with a message.

    Args:
        output: The folder of the trials, for the message.

    Yields:
        What has to be told when a trial starts and ends.
    """
    try:
        with _table() as table:
            yield print_trial if table is None else table.watch
    except KeyboardInterrupt:
        msg.warn(
            f"Interrupted. Finished trials are kept in {output}. Repeat the command to continue.",
            exits=130,
        )


def print_trial(trial: "Trial", outcome: "Outcome | None") -> None:
    """Print a line when a trial ends."""
    if outcome is None:
        return
    if outcome.row is not None:
        f, seconds = 100 * outcome.row["f"], outcome.row["cpu_seconds"]
        msg.good(f"{trial.key}: F1 {f:.1f} ({seconds} CPU s)")
    elif outcome.reason is not None:
        msg.fail(f"{trial.key}: {outcome.reason}")


@contextlib.contextmanager
def _table() -> Iterator["_Table | None"]:
    """Yield a table that is shown in a terminal, or None."""
    try:
        from rich.console import Console
        from rich.live import Live
    except ImportError:  # it comes with most versions of typer
        yield None
        return
    console = Console()
    if not console.is_terminal:
        yield None
        return
    table = _Table()
    render = partial(table.render, console.width)
    with Live(get_renderable=render, console=console, refresh_per_second=2):
        yield table


class _Table:
    """Running trials, and the best of the finished ones."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.running: dict[str, float] = {}
        self.finished: dict[str, tuple[float, int]] = {}
        self.failed: dict[str, str] = {}

    def watch(self, trial: "Trial", outcome: "Outcome | None") -> None:
        """Take note of a trial that starts or ends."""
        if outcome is None:
            self.running[trial.key] = time.monotonic()
            return
        self.running.pop(trial.key, None)
        if outcome.row is not None:
            self.finished[trial.key] = 100 * outcome.row["f"], outcome.row["cpu_seconds"]
        elif outcome.reason is not None:
            self.failed[trial.key] = outcome.reason

    def render(self, console_width: int = 80) -> Any:
        """Return the table as it is now, for a terminal of some width."""
        from rich.table import Table
        from rich.text import Text

        now = time.monotonic()
        table = Table(
            title=f"{len(self.finished)} finished, {len(self.running)} running, "
            f"{len(self.failed)} failed, {(now - self.started) / 60:.1f} min",
            title_justify="left",
        )
        keys = [*self.running, *self.failed, *self.finished]
        # The end of a name, which has set and seed, is not cut off for a long reason.
        widest = min(max(map(len, keys), default=0), console_width - ROOM)
        table.add_column("trial", min_width=widest, overflow="fold")
        table.add_column("state", max_width=24)
        table.add_column("F1", justify="right")
        table.add_column("seconds", justify="right")
        for key, since in list(self.running.items()):
            table.add_row(Text(key), "running", "", f"{now - since:.0f}")
        for key, reason in list(self.failed.items())[-SHOWN:]:
            table.add_row(Text(key), Text(f"failed: {reason}", style="red"), "", "")
        best = sorted(self.finished.items(), key=lambda item: -item[1][0])
        for key, (f, seconds) in best[:SHOWN]:
            table.add_row(Text(key), "finished", f"{f:.1f}", f"{seconds} CPU")
        if len(best) > SHOWN:
            table.caption = f"and {len(best) - SHOWN} more with a lower F1"
        return table
