"""`python -m spacy mslm init`: a project for the user's own corpus."""

import importlib.util
from pathlib import Path

from spacy.cli._util import Arg, Opt
from wasabi import msg

from .common import command, mslm_cli, show_table


@command(mslm_cli, "init", failure="The project was not started")
def init_cli(
    arguments: list[str] = Arg(
        ...,
        metavar="FILES... OUT",
        help="Annotated file, or folder of BRAT files or of splits, or a file for each split; then "
        "the new folder",
        show_default=False,
    ),
    encoder: str | None = Opt(None, help="Hub name or folder [default: that of the config]"),
    text: Path | None = Opt(None, help="Text without labels, for adaptation (mslm.cfg)"),
    epochs: float | None = Opt(None, help="Passes over the training set [default: 4]"),
    name: str | None = Opt(None, help="Name of the package [default: name of OUT]"),
    format: str = Opt("auto", help="auto, or the name of an input format"),
    split: str | None = Opt(
        None, help="Shares of train, dev and test [default: 0.8,0.1,0.1 if there are no splits]"
    ),
    group: str = Opt("", help="Key of JSON records that stay in one split, such as patient"),
    dedup: bool = Opt(False, "--dedup", help="Remove texts that are in two splits"),
    tokenizer: str = Opt("blank:en", help="For running text: blank:LANG or biomedical:LANG"),
    seed: int = Opt(0, min=0, help="Seed of the split"),
) -> None:
    """Start a project for your own corpus: converted corpus, config and project.yml.

    Reads the formats of 'spacy mslm convert'. One file is split at random, by documents or by
    --group. 'spacy project run all' then trains, evaluates and packages a pipeline.
    """
    from ..tasks import start_project
    from ..tasks.conversion import split_warnings, tokenizer_hint
    from .convert import show_labels

    *files, out = arguments
    if not files:
        raise ValueError("Give annotated files and a new folder: spacy mslm init FILES... OUT")
    started = start_project(
        [Path(file) for file in files],
        Path(out),
        encoder=encoder,
        text=text,
        epochs=epochs,
        name=name,
        format=format,
        split=split,
        group=group,
        dedup=dedup,
        tokenizer=tokenizer,
        seed=seed,
    )
    project, conversion = started.project, started.conversion
    rows = [
        (s.source.name, s.source.format, f"{s.counts.docs:,}", f"{s.counts.mentions:,}")
        for s in conversion.splits
    ]
    show_table(rows, ("split", "format", "docs", "mentions"), left=2)
    show_labels(conversion.splits)
    for warning in split_warnings(conversion.splits):
        msg.warn(warning)
    if hint := tokenizer_hint(conversion.splits):
        msg.info(hint)
    if started.split:
        kept = f"documents of one {group} are together" if group else "documents stay whole"
        hint = "" if group else " --group keeps those of a patient together in JSON records."
        msg.info(f"Split at random into {started.split}: {kept}.{hint}")
    if project.evaluated == "dev":
        msg.warn("There is no test set: scores are those of the dev set, which are too high.")
    adapted = f", after {project.adaptation_steps} of adaptation" if project.text else ""
    msg.info(
        f"{project.config}.cfg: {started.steps:,} updates{adapted}, {project.epochs:g} epochs or "
        f"the least number. Encoder: {project.encoder}"
    )
    if importlib.util.find_spec("build") is None:
        msg.warn("To build a package, install 'build': pip install \"spacy-mslm[project]\"")
    msg.good(f"Saved {out}. The next two commands:")
    print(f"python -m spacy project run all {out}")
    print(f'python -m spacy mslm try "TEXT" --model {out}/training/model-best')
