"""`python -m spacy mslm evaluate`: score a pipeline under a named protocol."""

from pathlib import Path
from typing import TYPE_CHECKING

from spacy.cli._util import Arg, Opt
from wasabi import msg

from ..tasks.choices import Protocol
from .common import GpuId, Model, command, mslm_cli, show_table

if TYPE_CHECKING:
    from ..tasks.evaluation import Evaluation


@command(mslm_cli, "evaluate", failure="The evaluation failed")
def evaluate_cli(
    model: Model,
    data_path: Path = Arg(..., metavar="DATA", help=".spacy file, folder of them, or IOB file"),
    annotates: str | None = Opt(
        None, help="Types that DATA annotates, separated by commas: score only these"
    ),
    protocol: Protocol = Opt(
        Protocol.clean, help="Evaluate on clean text, or with gold mentions masked as in the paper"
    ),
    elm: float = Opt(1.0, min=0, max=1, help="Share of the mentions to mask"),
    blm: float = Opt(0.075, min=0, max=1, help="Share of the other words to mask"),
    seed: int = Opt(0, min=0, help="Random seed of the masks"),
    train: Path | None = Opt(
        None, help="Training set that defines seen mentions [default: that of MODEL]"
    ),
    precision: float = Opt(0.9, min=0, max=1, help="Find the lowest threshold with this precision"),
    output: Path | None = Opt(None, "--output", "-o", help="Output JSON file for the scores"),
    plot: Path | None = Opt(None, help="Output .png file for the precision/recall curve"),
    use_gpu: GpuId = -1,
) -> None:
    """Evaluate a pipeline on annotated text.

    Reports several kinds of matches, scores on seen and unseen mentions and on short and long
    sentences, perplexity, confidence and calibration, and the threshold of the confidence that
    reaches --precision. --elm, --blm and --seed set the masks of the perplexity and of the masked
    protocol.
    """
    from ..tasks import evaluate
    from ..tasks.gpu import choose_gpu

    choose_gpu(use_gpu)
    evaluation = evaluate(
        model,
        data_path,
        annotates=[label.strip() for label in annotates.split(",")] if annotates else None,
        protocol=protocol,
        elm=elm,
        blm=blm,
        seed=seed,
        train=train,
        precision=precision,
        output=output,
        plot=plot,
    )
    show_evaluation(evaluation)
    if output is not None:
        msg.good(f"Saved scores to {output}")
    if plot is not None:
        msg.good(f"Saved curve to {plot}")


def show_evaluation(evaluation: "Evaluation") -> None:
    """Print the tables of an evaluation below the name of its protocol."""
    scores, counts = evaluation["scores"], evaluation["counts"]
    msg.divider(f"Protocol: {evaluation['protocol']} text")
    if evaluation["gold_positions_visible"]:
        msg.warn(
            "Gold mentions were masked before tagging, as in the paper, so the model sees where "
            "they are. These scores do not apply to new text; use them to reproduce the paper."
        )
    attr = next(key for key in scores if key.endswith("_per_type")).removesuffix("_per_type")
    matches = {
        "strict (boundaries and type)": attr,
        "boundaries only": "mslm_boundary",
        "partial (an overlap counts half)": "mslm_partial",
        "type (and an overlap)": "mslm_type",
        "macro over types, strict": "mslm_macro",
    }
    rows: list[tuple] = [
        (name, *(_percent(scores[f"{key}_{rate}"]) for rate in "prf"))
        for name, key in matches.items()
    ]
    show_table(rows, ("matches", "P", "R", "F"))
    if counts["predicted_not_annotated"]:
        msg.info(
            f"{counts['predicted_not_annotated']} predicted mentions are of types that the data "
            "does not annotate. They are not scored."
        )
    groups = {
        "seen": "seen in training",
        "unseen": "not seen in training",
        "short": "in sentences below mean length",
        "long": "in sentences of mean length or more",
    }
    rows = [("all", _percent(scores["mslm_em"]), counts["gold"])]
    rows += [
        (label, _percent(scores[f"mslm_em_{name}"]), counts[f"gold_{name}"] or "-")
        for name, label in groups.items()
    ]
    show_table(rows, ("exact match", "EM", "mentions"))
    masks = f"ELM {evaluation['elm_rate']:g}, BLM {evaluation['blm_rate']:g}"
    masks = f"{masks}, seed {evaluation['seed']}"
    rows = [
        (f"perplexity, all masked pieces ({masks})", _number(scores["mslm_ppl"])),
        ("perplexity, ELM pieces", _number(scores["mslm_ppl_elm"])),
        ("perplexity, BLM pieces", _number(scores["mslm_ppl_blm"])),
        ("mean confidence on gold mentions", _percent(scores["mslm_confidence"])),
        ("ECE of confidences, uncalibrated", _percent(scores["mslm_ece_uncalibrated"])),
    ]
    if evaluation["calibrated"]:
        rows.append(("ECE of confidences, calibrated", _percent(scores["mslm_ece"])))
    rows.append(("  of which chance does not explain", _percent(scores["mslm_ece_debiased"])))
    show_table(rows)
    show_thresholds(evaluation)


def show_thresholds(evaluation: "Evaluation") -> None:
    """Print the threshold that reaches a precision, over all types and for each."""
    found = evaluation["at_precision"]
    names = ("threshold", "precision", "recall")
    rows = [
        (label or "all", *(("-",) * 3 if point is None else _point(point, names)))
        for label, point in found.items()
        if label or len(found) != 2
    ]
    title = f"precision >= {evaluation['precision']:g}"
    show_table(rows, (title, "threshold", "P", "R"))


def _point(point: dict[str, float], names: tuple[str, ...]) -> list[str]:
    threshold, *scores = (point[name] for name in names)
    return [f"{threshold:.4f}", *map(_percent, scores)]


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.2f}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
