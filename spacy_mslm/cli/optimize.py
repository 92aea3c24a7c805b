"""`python -m spacy mslm optimize`: make a pipeline faster on CPU."""

from pathlib import Path

from spacy.cli._util import Arg, Opt
from wasabi import msg

from ..tasks.choices import Mode
from .common import Model, command, mslm_cli, show_table


@command(mslm_cli, "optimize", failure="The pipeline was not optimised")
def optimize_cli(
    model: Model,
    output: Path = Arg(..., metavar="OUTPUT", help="Output folder"),
    mode: Mode = Opt(Mode.onnx_int8, help="Weights of the optimised encoder"),
    dev: Path | None = Opt(None, help="Annotated text to measure on [default: dev set of MODEL]"),
    max_loss: float = Opt(0.5, help="Largest accepted loss of F1, in points"),
    force: bool = Opt(False, "--force", help="Replace OUTPUT if it exists, and accept any loss"),
) -> None:
    """Write a pipeline that predicts faster on CPU, with ONNX Runtime, and cannot be trained.

    The mode `half` stores weights in 16-bit floats instead, which halves the size of the files.
    F1 and speed are measured before and after. If F1 drops too much, nothing is written.
    """
    from ..tasks import optimize

    before, after = optimize(model, output, mode, dev, max_loss, force)
    rows = [
        ("before", f"{before.f:.2f}", f"{before.words_per_second:,.0f}"),
        (mode.value, f"{after.f:.2f}", f"{after.words_per_second:,.0f}"),
    ]
    show_table(rows, ("", "F1", "words/s"))
    speedup = after.words_per_second / before.words_per_second
    msg.good(f"{speedup:.1f} × as fast. Saved pipeline to {output}")
