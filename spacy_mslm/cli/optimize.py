"""`python -m spacy mslm optimize`: a pipeline whose encoder runs faster on a CPU."""

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from ..errors import Errors

if TYPE_CHECKING:
    from spacy.language import Language

    from ..pipeline.component import MSLM

ROUNDS = 3  # of measuring speed, before and after in turn
RUNTIME = "onnxruntime>=1.18"  # what the result needs to be loaded


class Mode(str, Enum):
    onnx = "onnx"
    onnx_int8 = "onnx-int8"


class Measured(NamedTuple):
    f: float  # F1 in points
    words_per_second: float


def optimize_cli(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Pipeline: folder or package")],
    output: Annotated[Path, typer.Argument(metavar="OUTPUT", help="Folder for the result")],
    mode: Annotated[
        Mode, typer.Option(help="Weights in 32-bit floats, or in 8-bit integers")
    ] = Mode.onnx_int8,
    dev: Annotated[
        Path | None,
        typer.Option(help="Annotated text to measure on; else the dev set of MODEL's training"),
    ] = None,
    max_loss: Annotated[float, typer.Option(help="The most points of F1 that it may lose")] = 0.5,
    force: Annotated[
        bool, typer.Option("--force", help="Whatever it loses, and though OUTPUT is there")
    ] = False,
) -> None:
    """Write a pipeline that predicts faster on a CPU, with ONNX Runtime, and cannot be trained.

    F1 and speed are measured before and after; what loses too much is not written.
    """
    from wasabi import msg

    try:
        before, after = optimize(model, output, mode, dev, max_loss, force)
    except (ValueError, OSError) as err:
        msg.fail("The pipeline was not optimised", str(err), exits=1)
    rows = [
        ("before", f"{before.f:.2f}", f"{before.words_per_second:,.0f}"),
        (mode.value, f"{after.f:.2f}", f"{after.words_per_second:,.0f}"),
    ]
    msg.table(rows, header=("", "F1", "words/s"), aligns=("l", "r", "r"), divider=True)
    msg.good(f"{after.words_per_second / before.words_per_second:.1f} × as fast. Saved: {output}")


def optimize(
    model: str, output: Path, mode: Mode, dev: Path | None, max_loss: float, force: bool
) -> tuple[Measured, Measured]:
    """Export, measure and save; returns what was measured before and after."""
    import shutil

    import spacy
    import srsly

    from ..model.fast.onnx_encoder import OnnxEncoder
    from ..model.fast.onnx_export import export_encoder
    from ..pipeline.find import find_mslm
    from ..util.files import replaced_folder

    if output.exists() and not force:
        raise ValueError(Errors.M133.format(path=output))
    nlp = spacy.load(model)
    name, pipe = find_mslm(nlp, model)
    shim = pipe.shim
    if shim.is_optimised:
        raise ValueError(
            f"{model} has been optimised already. Give the pipeline that it was made of."
        )
    path = dev or Path(nlp.config["paths"].get("dev") or "none")
    if not path.exists():
        raise ValueError(
            f"There is no dev set to measure on: the config of {model} names {path}. Give one "
            "(--dev)."
        )
    encoder = shim.network.lm
    optimised = OnnxEncoder(export_encoder(encoder, int8=mode is Mode.onnx_int8), encoder.config)
    rounds = []
    for _ in range(ROUNDS):
        for lm in (encoder, optimised):
            shim.network.lm = lm
            rounds.append(_measure(nlp, pipe, path))
    before, after = _median(rounds[::2]), _median(rounds[1::2])
    if before.f - after.f > max_loss and not force:
        raise ValueError(
            f"F1 on {path} falls from {before.f:.2f} to {after.f:.2f}, by more than "
            f"{max_loss:g}. Nothing was written. Use another --mode, allow more "
            "(--max-loss), or give --force."
        )
    with replaced_folder(output) as folder:
        shutil.copytree(nlp.path, folder, dirs_exist_ok=True)
        shutil.rmtree(folder / name)
        pipe.to_disk(folder / name)
        # `spacy package` makes these the package's own requirements.
        meta = srsly.read_json(folder / "meta.json")
        meta["requirements"] = sorted({*meta.get("requirements", ()), RUNTIME})
        srsly.write_json(folder / "meta.json", meta)
    return before, after


def _measure(nlp: "Language", pipe: "MSLM", path: Path) -> Measured:
    from ..corpus.readers import make_corpus

    pipe.score_perplexity = pipe.score_masked = False
    scores = nlp.evaluate(list(make_corpus(path)(nlp)), batch_size=nlp.batch_size)
    key = "ents_f" if pipe.spans_key is None else f"spans_{pipe.spans_key}_f"
    return Measured(100 * (scores[key] or 0.0), scores["speed"])


def _median(rounds: list[Measured]) -> Measured:
    """F1 is the same each time, speed is not."""
    from statistics import median

    return Measured(rounds[0].f, median(measured.words_per_second for measured in rounds))
