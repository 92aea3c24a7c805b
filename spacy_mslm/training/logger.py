"""A training logger for spaCy's console table with one column for each term of a loss.

`losses` of a pipe `mslm` holds beside `losses["mslm"]` its terms, e.g. `losses["mslm_mlm"]`.
spaCy's own logger shows the sum only, so that a term that diverges stays unseen.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import tqdm
from spacy.language import Language
from spacy.training.loggers import setup_table
from wasabi import Printer

LogStep = Callable[[dict[str, Any] | None], None]
PROGRESS_BARS = ("train", "eval")


def console_logger(
    progress_bar: str | None = None, output_file: str | None = None
) -> Callable[..., tuple[LogStep, Callable[[], None]]]:
    """The registered logger `spacy_mslm.ConsoleLogger.v1`.

    progress_bar: "train" counts the steps of the whole run, "eval" those to the next evaluation.
    output_file: JSON lines, one a row of the table: epoch, step, seconds, words, losses (sums since
        the last row, terms included), scores (0 to 1, as evaluated), score. Parent folders are
        made. An existing file is an error before training starts: spaCy's logger trains on
        and saves nothing, appending would mix two runs.
    """
    if progress_bar is not None and progress_bar not in PROGRESS_BARS:
        raise ValueError(
            f"The logger's progress_bar is {progress_bar!r}, but must be one of: "
            f"{', '.join(PROGRESS_BARS)}, or null for none. Set it in [training.logger]."
        )

    def setup_printer(
        nlp: Language, stdout: IO = sys.stdout, stderr: IO = sys.stderr
    ) -> tuple[LogStep, Callable[[], None]]:
        training = nlp.config["training"]
        pipes = [name for name, pipe in nlp.pipeline if getattr(pipe, "is_trainable", False)]
        score_names = [name for name, w in training["score_weights"].items() if w is not None]
        printer = Printer(no_print=True)
        stream = _open_new(output_file) if output_file else None
        # Known only with the first row: which terms a loss has shows after an update. A term that
        # comes up later gets its column under a new header.
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
                # spaCy's 13 would cut the terms of a pipe with a long name to the same title.
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
            # As spaCy prints: rates in per cent, words per second as they are.
            shown = [value * (1 if name == "speed" else 100) for name, value in scores.items()]
            numbers = [*losses.values(), *shown, float(info["score"])]
            cells = [info["epoch"], info["step"], *(f"{number:.2f}" for number in numbers)]
            write_row(cells, ["r"] * len(cells))
            if stream is not None:
                record = {name: info.get(name) for name in ("epoch", "step", "seconds", "words")}
                record.update(losses=losses, scores=scores, score=float(info["score"]))
                print(json.dumps(record), file=stream, flush=True)
            if progress_bar is not None:
                whole = progress_bar == "train"
                bar = tqdm.tqdm(
                    total=training["max_steps"] or None if whole else training["eval_frequency"],
                    initial=info["step"] if whole else 0,
                    desc=f"Epoch {info['epoch']}",
                    disable=None,  # None: no bar where stderr is no terminal
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


def _loss_names(pipes: list[str], losses: dict[str, Any]) -> list[str]:
    """Each pipe followed by its terms, in the order of the losses: a term is a key that starts with
    the pipe's name and "_" and is no pipe itself; the longest such pipe owns it."""
    names = []
    for pipe in pipes:
        names.append(pipe)
        for key in losses:
            owners = [owner for owner in pipes if key.startswith(f"{owner}_")]
            if key not in pipes and owners and max(owners, key=len) == pipe:
                names.append(key)
    return names


def _number(name: str, scores: dict[str, Any]) -> float:
    """The score as a float; one that was not scored (nothing annotated) is 0, as in spaCy."""
    value = scores.get(name, 0.0)
    try:
        return float(value)
    except TypeError:
        raise ValueError(
            f"The score {name!r} is of type {type(value).__name__}, not a number. Remove it "
            "from [training.score_weights], or set it to null there."
        ) from None


def _open_new(path: str) -> IO[str]:
    """The file opened for writing, which must not exist yet."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    try:
        return open(path, "x", encoding="utf8")
    except FileExistsError:
        raise FileExistsError(
            f"The log file {path} exists already and is not overwritten. Move or delete it, or "
            "set another output_file in [training.logger]."
        ) from None
