"""Write the model card of a pipeline: what it finds, how well, how it was trained."""

import json
import shutil
from pathlib import Path
from typing import Any

import srsly
from thinc.api import Config

from .. import __version__
from ..pipeline.loading import check_pipeline, find_folder
from ..util import markdown
from ..util.files import HIDDEN
from ..util.manifest import signed_folder

CARD = "README.md"
# Scores in the card, with their names.
SCORES = {
    "ents_p": "precision",
    "ents_r": "recall",
    "ents_f": "F1",
    "mslm_em": "exact match",
    "mslm_em_unseen": "exact match, unseen mentions",
    "mslm_ece": "calibration error",
}
# Scores in the metadata: the type of a metric on the hub, and its name.
INDEXED = {"ents_p": ("precision", "NER Precision"), "ents_r": ("recall", "NER Recall")}
INDEXED["ents_f"] = ("f1", "NER F Score")


def write_model_card(
    model: str,
    *,
    metrics: Path | None = None,
    data_card: Path | None = None,
    license: str | None = None,
    description: str | None = None,
) -> Path:
    """Write the model card of a pipeline into its folder, as README.md and into its meta.json.

    `spacy package` takes README.md into the package, and `spacy info` shows the notes of meta.json.
    The card has metadata of Hugging Face and no text of a document.

    Args:
        model: Path of the pipeline, which is changed.
        metrics: Scores on a test set, as `evaluate` or `spacy evaluate` writes them; by default
            those of the dev set in training.
        data_card: A Markdown file about the data, such as the one of `weak label`, to be included.
        license: The licence of the weights, such as "cc-by-4.0"; by default that in meta.json.
        description: One sentence on the pipeline; by default that in meta.json.

    Returns:
        The file.

    Raises:
        ValueError: If there is no such pipeline, or a file cannot be read.
    """
    source = find_folder(model)
    if not (source / "config.cfg").exists():
        raise ValueError(f"{model} is not the folder of a pipeline. Give one with a config.cfg.")
    check_pipeline(source)
    meta = srsly.read_json(source / "meta.json")
    config = Config().from_disk(source / "config.cfg")
    meta["license"] = license or meta.get("license") or ""
    meta["description"] = description or meta.get("description") or ""
    scores, measured_on = _read_scores(metrics, meta)
    if metrics is not None:
        meta["performance"] = {**meta.get("performance", {}), **scores}
    body = _body(meta, config, scores, measured_on, data_card)
    meta["notes"] = body
    with signed_folder(source) as folder:
        shutil.copytree(source, folder, dirs_exist_ok=True, ignore=HIDDEN)
        srsly.write_json(folder / "meta.json", meta)
        text = _front_matter(meta, scores, measured_on) + body
        (folder / CARD).write_text(text, encoding="utf8")
    return source / CARD


def _read_scores(metrics: Path | None, meta: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Return the scores, and the name of the text that they were measured on."""
    if metrics is None:
        return meta.get("performance") or {}, "the dev set that the checkpoint was chosen on"
    try:
        stored = json.loads(metrics.read_text(encoding="utf8"))
        scores = stored.get("scores", stored)
        if not isinstance(scores, dict) or "ents_f" not in scores:
            raise ValueError("no ents_f")
    except (ValueError, AttributeError, RecursionError) as err:
        raise ValueError(
            f"{metrics} holds no scores of entities ({type(err).__name__}). Write it with 'python "
            "-m spacy mslm evaluate MODEL DATA --output FILE'."
        ) from err
    if stored.get("protocol") == "masked":
        raise ValueError(
            f"{metrics} has scores of the masked protocol, which do not apply to new text. Give "
            "those of the clean protocol."
        )
    return scores, Path(stored["data"]).name if "data" in stored else metrics.stem


def _body(
    meta: dict[str, Any],
    config: Config,
    scores: dict[str, Any],
    measured_on: str,
    data_card: Path | None,
) -> str:
    name = f"{meta['lang']}_{meta['name']}"
    labels = sorted({label for own in meta.get("labels", {}).values() for label in own})
    lines = [f"# {markdown.escape(name)} {meta['version']}", ""]
    if meta["description"]:
        lines += [markdown.escape(meta["description"]), ""]
    lines += [
        "A spaCy pipeline with an entity recognizer of [spacy-mslm]"
        f"(https://arxiv.org/abs/2403.18025) {__version__}. It finds "
        f"{', '.join(map(markdown.escape, labels)) or 'no entities'}.",
        "",
        "```python",
        "import spacy",
        "",
        f'nlp = spacy.load("{name}")',
        'doc = nlp("She developed acute renal failure after two doses of amoxicillin.")',
        "print([(ent.text, ent.label_, ent._.confidence) for ent in doc.ents])",
        "```",
        "",
        f"## Scores on {markdown.escape(measured_on)}",
        "",
        *_score_tables(scores),
        "",
        "Scores are of clean text, on a scale of 0 to 100. On text of another kind they are lower.",
        "",
        "## Training",
        "",
        *markdown.table([["setting", "value"], *_settings(config)]),
        "",
        "## Limits",
        "",
        "Predictions are not a diagnosis and were not reviewed by a clinician. Check the scores on "
        "text of your own before you rely on them. Weights can memorise words of training text.",
    ]
    if data_card is not None:
        text = data_card.read_text(encoding="utf8").strip()
        lines += ["", "## Data", "", *(_lower(line) for line in text.splitlines())]
    return "\n".join(lines) + "\n"


def _score_tables(scores: dict[str, Any]) -> list[str]:
    rows = [["score", ""]]
    for key, name in SCORES.items():
        if isinstance(scores.get(key), int | float):
            rows.append([name, f"{100 * scores[key]:.1f}"])
    lines = markdown.table(rows) if len(rows) > 1 else ["None were stored."]
    types = scores.get("ents_per_type") or {}
    if types:
        body = [
            [label, *(f"{100 * own[key]:.1f}" for key in "prf")]
            for label, own in sorted(types.items())
        ]
        lines += ["", *markdown.table([["type", "precision", "recall", "F1"], *body])]
    return lines


def _settings(config: Config) -> list[list[str]]:
    """Return the settings of training that a user asks for first. Paths are left out."""
    training = config.get("training", {})
    component: dict[str, Any] = {}
    for own in config.get("components", {}).values():
        if own.get("factory") == "mslm":
            component = own
    model = component.get("model", {})
    encoder = str(model.get("encoder", ""))
    values = {
        # The name of a folder is of one machine.
        "encoder": Path(encoder).name if Path(encoder).is_absolute() else encoder,
        "architecture": model.get("@architectures"),
        "window": model.get("window"),
        "view": component.get("view"),
        "masking": component.get("masking", {}).get("@misc"),
        "mask weights": component.get("mask_weights", {}).get("@misc"),
        "updates, at most": training.get("max_steps"),
        "seed": config.get("system", {}).get("seed"),
    }
    return [[name, str(value)] for name, value in values.items() if value not in (None, "")]


def _lower(line: str) -> str:
    """Put a heading of the data card below ours."""
    return f"##{line}" if line.startswith("#") else line


def _front_matter(meta: dict[str, Any], scores: dict[str, Any], measured_on: str) -> str:
    """Return the metadata of Hugging Face."""
    found: dict[str, Any] = {
        "language": [meta["lang"]],
        "library_name": "spacy",
        "pipeline_tag": "token-classification",
        "tags": ["spacy", "token-classification", "named-entity-recognition", "spacy-mslm"],
    }
    if meta["license"]:
        found["license"] = meta["license"].replace(" ", "-").lower()
    values = [
        {"type": type_, "name": name, "value": round(float(scores[key]), 4)}
        for key, (type_, name) in INDEXED.items()
        if isinstance(scores.get(key), int | float)
    ]
    if values:
        task = {"type": "token-classification", "name": "Named entity recognition"}
        data = {"type": measured_on, "name": measured_on}
        results = [{"task": task, "dataset": data, "metrics": values}]
        found["model-index"] = [{"name": f"{meta['lang']}_{meta['name']}", "results": results}]
    return f"---\n{srsly.yaml_dumps(found)}---\n\n"
