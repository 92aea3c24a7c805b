"""`python -m spacy mslm evaluate`: every score of a pipeline, under a named protocol."""

from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import Errors


class Protocol(str, Enum):
    """What the pipeline reads: the text as it is, or the paper's, with gold mentions masked."""

    clean = "clean"
    masked = "masked"


def evaluate_cli(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Pipeline: folder or package")],
    data_path: Annotated[
        Path, typer.Argument(metavar="DATA", help=".spacy file, folder of them, or IOB file")
    ],
    protocol: Annotated[
        Protocol,
        typer.Option(
            help="clean: what the pipeline gives on new text. masked: the paper's, with gold "
            "mentions masked before tagging"
        ),
    ] = Protocol.clean,
    elm: Annotated[
        float, typer.Option(min=0, max=1, help="Share of the mentions that is masked")
    ] = 1.0,
    blm: Annotated[
        float, typer.Option(min=0, max=1, help="Share of the words that is masked beside them")
    ] = 0.075,
    seed: Annotated[int, typer.Option(min=0, help="Of the masks")] = 0,
    train: Annotated[
        Path | None,
        typer.Option(
            help="Training set, all of whose mentions count as seen; else that of the pipeline's "
            "config"
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="JSON file for all of the scores")
    ] = None,
    use_gpu: Annotated[int, typer.Option("--gpu-id", "-g", help="GPU; -1 for the CPU")] = -1,
) -> None:
    """Score a pipeline on annotated text: matches, seen and unseen mentions, short and long
    sentences, perplexity, confidence and calibration.

    --elm, --blm and --seed set the masks of the perplexity and of the masked protocol.
    """
    from spacy.cli._util import setup_gpu
    from wasabi import msg

    try:
        setup_gpu(use_gpu, silent=True)
        if output is not None and output.is_dir():
            raise ValueError(
                f"{output} is a folder, but the scores go to a file. Give another --output."
            )
        report = evaluate(
            model, data_path, protocol=protocol, elm=elm, blm=blm, seed=seed, train=train
        )
        if output is not None:
            write_report(output, report)
    except (ValueError, OSError) as err:
        msg.fail("The evaluation failed", str(err), exits=1)
    show_report(report)
    if output is not None:
        msg.good(f"Written: {output}")


def evaluate(
    model: str,
    data_path: Path,
    *,
    protocol: Protocol = Protocol.clean,
    elm: float = 1.0,
    blm: float = 0.075,
    seed: int = 0,
    train: Path | None = None,
) -> dict[str, Any]:
    """The scores, with all that they depend on."""
    import spacy

    from ..corpus.readers import make_corpus
    from ..masking.strategies import JointMasking
    from ..pipeline.find import find_mslm, run_pipes_before
    from ..scoring.masked_protocol import annotate_masked
    from ..scoring.scorer import EntityScorer

    nlp = spacy.load(model)
    name, pipe = find_mslm(nlp, model)
    if train is not None and not train.exists():
        raise ValueError(Errors.M106.format(path=train))
    configured = pipe.scorer if isinstance(pipe.scorer, EntityScorer) else EntityScorer()
    if train is not None or configured.spans_key != pipe.spans_key:
        sample = (str(train), 0, None) if train is not None else configured.sample
        configured = EntityScorer(pipe.spans_key, *sample)
    pipe.scorer = configured
    pipe.score_perplexity = True
    pipe.score_masked = False  # a report is of one protocol
    masking = JointMasking(elm, blm)
    examples = list(make_corpus(data_path)(nlp))
    texts = (example.predicted for example in examples)
    if protocol is Protocol.clean:
        docs = list(nlp.pipe(texts))
    else:
        docs = run_pipes_before(nlp, name, texts)
    for example, doc in zip(examples, docs, strict=True):
        example.predicted = doc
    if protocol is Protocol.masked:
        annotate_masked(pipe, examples, masking, seed)
    scores = pipe.score(examples, masking=masking, seed=seed)
    counts = scores.pop("mslm_counts")
    if not counts["gold"]:
        raise ValueError(
            f"{data_path} holds no gold mention, so there is nothing to score. Give annotated "
            "text of the kind that the pipeline was trained on."
        )
    return {
        "protocol": protocol.value,
        "gold_positions_visible": protocol is Protocol.masked,
        "model": f"{nlp.meta['lang']}_{nlp.meta['name']} {nlp.meta['version']}",
        "path": model,
        "data": str(data_path),
        "train": dict(zip(("path", "limit", "seed"), configured.sample, strict=True)),
        "elm_rate": elm,
        "blm_rate": blm,
        "seed": seed,
        "temperature": pipe.cfg["temperature"],
        "counts": counts,
        "scores": scores,
    }


def write_report(path: Path, report: dict[str, Any]) -> None:
    import json

    from ..util.files import replace_file

    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, (json.dumps(report, indent=2) + "\n").encode("utf8"))


def show_report(report: dict[str, Any]) -> None:
    """Print the tables, with the protocol over them."""
    from wasabi import msg

    scores, counts = report["scores"], report["counts"]
    msg.divider(f"Protocol: {report['protocol']} text")
    if report["gold_positions_visible"]:
        msg.warn(
            "Gold mentions were masked before tagging, as the paper's authors do: the model "
            "sees where they are. These scores say nothing of new text; they are there to "
            "reproduce the paper."
        )
    attr = next(key for key in scores if key.endswith("_per_type")).removesuffix("_per_type")
    matches = {
        "strict (boundaries and type)": attr,
        "boundaries only": "mslm_boundary",
        "partial (an overlap counts half)": "mslm_partial",
        "type (and an overlap)": "mslm_type",
        "macro over types, strict": "mslm_macro",
    }
    rows = [
        (name, *(_percent(scores[f"{key}_{rate}"]) for rate in "prf"))
        for name, key in matches.items()
    ]
    msg.table(
        rows,
        header=("matches", "P", "R", "F"),
        aligns=("l", "r", "r", "r"),
        divider=True,
        max_col=60,
    )
    rows = [("all", _percent(scores["mslm_em"]), counts["gold"])]
    for name, label in {
        "seen": "seen in training",
        "unseen": "not seen in training",
        "short": "in sentences below mean length",
        "long": "in sentences of mean length or more",
    }.items():
        rows.append((label, _percent(scores[f"mslm_em_{name}"]), counts[f"gold_{name}"] or "-"))
    msg.table(
        rows,
        header=("exact match", "EM", "mentions"),
        aligns=("l", "r", "r"),
        divider=True,
        max_col=60,
    )
    masks = f"ELM {report['elm_rate']:g}, BLM {report['blm_rate']:g}, seed {report['seed']}"
    rows = [
        (f"perplexity, all masked pieces ({masks})", _number(scores["mslm_ppl"])),
        ("perplexity, ELM pieces", _number(scores["mslm_ppl_elm"])),
        ("perplexity, BLM pieces", _number(scores["mslm_ppl_blm"])),
        ("mean confidence on gold mentions", _percent(scores["mslm_confidence"])),
        ("ECE of confidences, uncalibrated", _percent(scores["mslm_ece_uncalibrated"])),
        (f"ECE at temperature {report['temperature']:.3g}", _percent(scores["mslm_ece"])),
    ]
    msg.table(rows, aligns=("l", "r"), max_col=60)


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.2f}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
