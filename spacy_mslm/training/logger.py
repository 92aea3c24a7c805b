"""A training logger that prints spaCy's table with one column for each term of a loss.

The losses of a pipe `mslm` are `losses["mslm"]` and its terms, such as `losses["mslm_mlm"]`.
spaCy's own logger shows only the sum, so a diverging term can go unnoticed.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import tqdm
from spacy.language import Language
from spacy.training.loggers import setup_table
from spacy.util import registry
from wasabi import Printer

LogStep = Callable[[dict[str, Any] | None], None]
PROGRESS_BARS = ("train", "eval")


def console_logger(
    progress_bar: str | None = None, output_file: str | None = None
) -> Callable[..., tuple[LogStep, Callable[[], None]]]:
    """`spacy_mslm.ConsoleLogger.v1`: creates a logger that prints a table.

    Args:
        progress_bar: "train" for a bar over the whole run, "eval" for a bar up to the next
            evaluation.
        output_file: A file for JSON lines, one per row of the table: epoch, step, seconds, words,
            losses (sums since the last row, with terms), scores (0 to 1), score. Missing folders
            are created. If the file exists, an error is raised before training starts, so that two
            runs are not mixed.
    """
    if progress_bar is not None and progress_bar not in PROGRESS_BARS:
        raise ValueError(
            f"progress_bar of the logger is {progress_bar!r}, but must be one of: "
            f"{', '.join(PROGRESS_BARS)}, or null for none. Set it in [training.logger]."
        )

    def setup_printer(
        nlp: Language, stdout: IO = sys.stdout, stderr: IO = sys.stderr
    ) -> tuple[LogStep, Callable[[], None]]:
        training = nlp.config["training"]
        whole = progress_bar == "train"
        length = None
        if progress_bar is not None:
            length = _resolved(nlp, "max_steps" if whole else "eval_frequency") or None
        pipes = [name for name, pipe in nlp.pipeline if getattr(pipe, "is_trainable", False)]
        score_names = [name for name, w in training["score_weights"].items() if w is not None]
        printer = Printer(no_print=True)
        stream = _open_new(output_file) if output_file else None
        # The terms of a loss are known only after an update, so the header is printed with the
        # first row. A term that appears later gets a column under a new header.
        loss_names: list[str] = []
        widths: list[int] = []
        bar: tqdm.tqdm | None = None

        def write_row(cells: list[Any], aligns: list[str] | None = None) -> None:
            row = printer.row(cells, widths=widths, aligns=aligns, spacing=2)
            print(row, file=stdout, flush=True)

        def write_header() -> None:
            titles, sizes, _ = setup_table(
                cols=["E", "#", *(f"Loss {name}" for name in loss_names), *score_names, "Score"],
                widths=[3, 6, *(8 for _ in loss_names), *(6 for _ in score_names), 6],
                # With spaCy's 13, the terms of a pipe with a long name would have the same title.
                max_width=40,
            )
            widths[:] = sizes
            write_row(titles)
            write_row(["-" * width for width in widths])

        def log_step(info: dict[str, Any] | None) -> None:
            nonlocal bar
            if info is None:
                if bar is not None:
                    bar.update(1)
                return
            if bar is not None:
                bar.close()
            seen = _loss_names(pipes, {**dict.fromkeys(loss_names), **info["losses"]})
            if not widths or seen != loss_names:
                loss_names[:] = seen
                write_header()
            losses = {name: float(info["losses"].get(name, 0.0)) for name in loss_names}
            scores = {name: _number(name, info["other_scores"]) for name in score_names}
            # As in spaCy, rates are in per cent, and words per second are not scaled.
            shown = [value * (1 if name == "speed" else 100) for name, value in scores.items()]
            numbers = [*losses.values(), *shown, float(info["score"])]
            cells = [info["epoch"], info["step"], *(f"{number:.2f}" for number in numbers)]
            write_row(cells, ["r"] * len(cells))
            if stream is not None:
                record = {name: info.get(name) for name in ("epoch", "step", "seconds", "words")}
                record.update(losses=losses, scores=scores, score=float(info["score"]))
                print(json.dumps(record), file=stream, flush=True)
            if progress_bar is not None:
                bar = tqdm.tqdm(
                    total=length,
                    initial=info["step"] if whole else 0,
                    desc=f"Epoch {info['epoch']}",
                    disable=None,  # no bar if stderr is not a terminal
                    leave=False,
                    file=stderr,
                )

        def finalize() -> None:
            if bar is not None:
                bar.close()
            if stream is not None:
                stream.close()

        return log_step, finalize

    return setup_printer


def _resolved(nlp: Language, name: str) -> int:
    """Return a number of [training], which may be a function such as `spacy_mslm.updates.v1`."""
    value = nlp.config.interpolate()["training"][name]
    return int(registry.resolve({name: value})[name])


def _loss_names(pipes: list[str], losses: dict[str, Any]) -> list[str]:
    """Return the name of each pipe followed by its terms, in the order of the losses.

    A term is a key that starts with the name of the pipe and "_", and is not a pipe itself. If the
    names of several pipes match, the term belongs to the pipe with the longest name.
    """
    names = []
    for pipe in pipes:
        names.append(pipe)
        for key in losses:
            owners = [owner for owner in pipes if key.startswith(f"{owner}_")]
            if key not in pipes and owners and max(owners, key=len) == pipe:
                names.append(key)
    return names


def _number(name: str, scores: dict[str, Any]) -> float:
    """Return a score as a float. A score that is missing (nothing annotated) is 0, as in spaCy."""
    value = scores.get(name, 0.0)
    try:
        return float(value)
    except TypeError:
        raise ValueError(
            f"The score {name!r} is of type {type(value).__name__}, not a number. Remove it "
            "from [training.score_weights], or set it to null there."
        ) from None


def _open_new(path: str) -> IO[str]:
    """Open a file for writing that must not exist yet, and create its folder."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    try:
        return open(path, "x", encoding="utf8")
    except FileExistsError:
        raise FileExistsError(
            f"The log file {path} already exists and is not overwritten. Move or delete it, or "
            "set another output_file in [training.logger]."
        ) from None
