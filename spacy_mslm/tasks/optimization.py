"""Replace the encoder of a pipeline by one that runs faster on CPU, or takes less space."""

import copy
import shutil
from pathlib import Path
from statistics import median
from typing import NamedTuple

import srsly
from spacy.language import Language
from transformers import PreTrainedModel

from ..corpus.readers import make_corpus
from ..errors import Errors
from ..model.fast.onnx_encoder import OnnxEncoder
from ..model.fast.onnx_export import export_encoder
from ..model.weights import round_to_half
from ..pipeline.component import MSLM
from ..pipeline.find import find_mslm
from ..pipeline.loading import load_pipeline
from ..util.files import HIDDEN
from ..util.manifest import signed_folder
from .choices import Mode

ROUNDS = 3  # speed is measured this often, before and after in turn
RUNTIME = "onnxruntime>=1.18"  # required to load the result


class Measured(NamedTuple):
    """F1 in points from 0 to 100, and speed."""

    f: float
    words_per_second: float


class Optimized(NamedTuple):
    """What was measured before and after the optimization."""

    before: Measured
    after: Measured


def optimize(
    model: str,
    output: Path,
    mode: Mode = Mode.onnx_int8,
    dev: Path | None = None,
    max_loss: float = 0.5,
    force: bool = False,
) -> Optimized:
    """Optimize the encoder of a pipeline, measure F1 and speed, and save the result.

    With the modes `onnx` and `onnx-int8`, the saved pipeline runs with ONNX Runtime and cannot be
    trained.

    Args:
        model: Name or path of the pipeline.
        output: Folder for the optimized pipeline.
        mode: The weights of the optimized encoder.
        dev: Annotated text to measure on; by default the dev set of the pipeline's config.
        max_loss: The largest accepted loss of F1, in points.
        force: Replace `output` if it exists, and accept any loss.

    Raises:
        ValueError: If the loss is larger than `max_loss`. Nothing is written.
        ImportError: If the extra `onnx` is not installed.
    """
    if output.exists() and not force:
        raise ValueError(Errors.M133.format(path=output))
    nlp = load_pipeline(model)
    name, pipe = find_mslm(nlp, model)
    shim = pipe.shim
    if shim.is_optimised:
        raise ValueError(f"{model} has been optimised already. Give the original pipeline instead.")
    path = dev or Path(nlp.config["paths"].get("dev") or "none")
    if not path.exists():
        raise ValueError(
            f"There is no dev set to measure on: the config of {model} names {path}. Give one "
            "(--dev)."
        )
    encoder = shim.network.lm
    optimised = _optimised(encoder, Mode(mode))
    rounds = []
    for _ in range(ROUNDS):
        for lm in (encoder, optimised):
            shim.network.lm = lm
            rounds.append(_measure(nlp, pipe, path))
    before, after = _median(rounds[::2]), _median(rounds[1::2])
    if before.f - after.f > max_loss and not force:
        raise ValueError(
            f"F1 on {path} falls from {before.f:.2f} to {after.f:.2f}, by more than "
            f"{max_loss:g}. Nothing was written. Use another --mode, accept a larger loss "
            "(--max-loss), or give --force."
        )
    with signed_folder(output) as folder:
        shutil.copytree(nlp.path, folder, dirs_exist_ok=True, ignore=HIDDEN)
        shutil.rmtree(folder / name)
        pipe.to_disk(folder / name)
        if shim.is_optimised:
            # `spacy package` makes these the requirements of the package.
            meta = srsly.read_json(folder / "meta.json")
            meta["requirements"] = sorted({*meta.get("requirements", ()), RUNTIME})
            srsly.write_json(folder / "meta.json", meta)
    return Optimized(before, after)


def _optimised(encoder: PreTrainedModel, mode: Mode) -> PreTrainedModel | OnnxEncoder:
    if mode is Mode.half:
        rounded = copy.deepcopy(encoder)
        round_to_half(rounded)
        return rounded
    graph = export_encoder(encoder, int8=mode is Mode.onnx_int8)
    return OnnxEncoder(graph, encoder.config)


def _measure(nlp: Language, pipe: MSLM, path: Path) -> Measured:
    pipe.score_perplexity = pipe.score_masked = False
    scores = nlp.evaluate(list(make_corpus(path)(nlp)), batch_size=nlp.batch_size)
    key = "ents_f" if pipe.spans_key is None else f"spans_{pipe.spans_key}_f"
    return Measured(100 * (scores[key] or 0.0), scores["speed"])


def _median(rounds: list[Measured]) -> Measured:
    """F1 is the same in all rounds, speed is not."""
    return Measured(rounds[0].f, median(measured.words_per_second for measured in rounds))
