"""`python -m spacy mslm calibrate`: calibrate the confidences of a pipeline."""

from pathlib import Path

from spacy.cli._util import Arg, Opt
from wasabi import msg

from .common import GpuId, Model, command, mslm_cli, show_table


@command(mslm_cli, "calibrate", failure="The calibration failed; nothing was changed")
def calibrate_cli(
    model: Model,
    dev_path: Path = Arg(
        ...,
        metavar="DEV",
        help="Annotated text not used for training: .spacy file, folder or IOB file",
    ),
    output: Path | None = Opt(None, "--output", "-o", help="Output folder [default: change MODEL]"),
    force: bool = Opt(False, "--force", help="Replace OUTPUT if it exists"),
    use_gpu: GpuId = -1,
) -> None:
    """Calibrate the confidences of a pipeline on a development set and save it.

    Entities stay the same; `span._.confidence` becomes the probability that a mention is right.
    The calibration is saved only if it lowers the expected calibration error (ECE) on documents
    that it was not fitted to.
    """
    from ..tasks import calibrate
    from ..tasks.gpu import choose_gpu

    choose_gpu(use_gpu)
    fit, path = calibrate(model, dev_path, output, force)
    rows = [
        ("predicted mentions", f"{fit.mentions:,}"),
        ("map", fit.kind),
        ("ECE before", f"{100 * fit.error_before:.2f}"),
        ("ECE after, documents not fitted to", f"{100 * fit.error_out_of_fold:.2f}"),
        ("  of which chance does not explain", f"{100 * fit.error_debiased:.2f}"),
        ("  of exact confidences, by chance", f"{100 * fit.error_by_chance:.2f}"),
        ("ECE after, documents fitted to", f"{100 * fit.error_fitted:.2f}"),
    ]
    show_table(rows)
    msg.good(f"Saved pipeline to {path}")
