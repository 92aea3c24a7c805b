"""Start a project for the user's own corpus."""

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import spacy

from ...corpus.convert import BIOMEDICAL
from ...corpus.splits import is_one_split
from ...errors import Errors
from ...model.checkpoints import load_checkpoint
from ...text.plain_texts import text_files
from ...util.files import replaced_folder
from ...util.settings import check_at_least
from ..conversion import Conversion, convert
from .project import Project, render_project
from .recipe import Recipe, count_steps, find_recipe

DEFAULT_SPLIT = "0.8,0.1,0.1"


@dataclass(frozen=True)
class Started:
    """A new project.

    Attributes:
        conversion: The converted corpus.
        project: What is in its project.yml.
        steps: The number of updates of the training.
        split: The shares by which the corpus was split; None if it had splits.
    """

    conversion: Conversion
    project: Project
    steps: int
    split: str | None


def start_project(
    inputs: Sequence[Path],
    output: Path,
    *,
    encoder: str | None = None,
    text: Path | None = None,
    epochs: float | None = None,
    name: str | None = None,
    format: str = "auto",
    split: str | None = None,
    group: str = "",
    dedup: bool = False,
    tokenizer: str = "blank:en",
    seed: int = 0,
) -> Started:
    """Convert a corpus and write a project that trains, evaluates and packages a pipeline on it.

    The folder has the corpus, a config of `configs/` and project.yml. Nothing is written unless
    all of it can be.

    Args:
        inputs: An annotated file or folder, or one for each split.
        output: The folder to write, which must be empty or new.
        encoder: Hub name or folder of a Hugging Face checkpoint; None for that of the config.
        text: Text of the domain without labels. With it the project uses `mslm.cfg`, else
            `vanilla.cfg`.
        epochs: Passes over the training set; None for those of the config.
        name: The name of the package; None for that of the folder.
        format: The format of the inputs, or auto.
        split: Shares of the splits, for an input without splits; None for DEFAULT_SPLIT.
        group: The key of JSON records that stay together when they are split.
        dedup: Remove texts that are in two splits.
        tokenizer: `blank:LANG` or `biomedical:LANG`.
        seed: The seed of the split.

    Raises:
        ValueError: If the corpus cannot be trained on, or a setting is wrong.
        OSError: If the folder cannot be written.
    """
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise ValueError(f"{output} exists and is not empty. Give the path of a new folder.")
    kind, lang = _parse_tokenizer(tokenizer)
    name = _package_name(name if name is not None else output.resolve().name)
    recipe = find_recipe(has_text=bool(text))
    encoder = _checked_encoder(encoder or recipe.encoder)
    epochs = recipe.epochs if epochs is None else epochs
    check_at_least("--epochs", epochs, 0)
    if text is not None:
        text_files(str(text))
    for path in inputs:
        if not path.exists():
            raise ValueError(Errors.M106.format(path=path))
    if split is None and len(inputs) == 1 and is_one_split(inputs[0]):
        split = DEFAULT_SPLIT
    with replaced_folder(output) as folder:
        corpus = folder / "corpus"
        conversion = convert(
            inputs,
            corpus,
            format=format,
            tokenizer=tokenizer,
            seed=seed,
            split=split,
            group=group,
            dedup=dedup,
            set_name=name,
        )
        names = check_corpus(conversion)
        project = Project(
            name=name,
            config=recipe.name,
            encoder=encoder,
            lang=lang,
            biomedical=kind == BIOMEDICAL,
            epochs=epochs,
            learn_rate=recipe.learn_rate,
            head_learn_rate=recipe.head_learn_rate,
            text=str(text.resolve()) if text else None,
            adaptation_steps=recipe.adaptation_steps,
            evaluated="test" if "test" in names else "dev",
            description=_describe(conversion),
        )
        steps = count_steps(recipe, corpus / "train.spacy", epochs)
        _write(folder, recipe, project)
    return Started(conversion, project, steps, split)


def check_corpus(conversion: Conversion) -> list[str]:
    """Return the names of the splits.

    Raises:
        ValueError: If train or dev is missing, or a split has no mention.
    """
    mentions = {split.source.name: split.counts.mentions for split in conversion.splits}
    for needed in ("train", "dev"):
        if needed not in mentions:
            raise ValueError(
                f"There is no {needed} split, only {', '.join(mentions)}. Add one, or give one "
                "file, which is then split."
            )
    for split in conversion.splits:
        if not mentions[split.source.name]:
            raise ValueError(
                f"{split.source.path}: the {split.source.name} split has {split.counts.docs:,} "
                "documents and no entity. Check the format (--format) and the labels, or give more "
                "documents, or larger shares (--split)."
            )
    return list(mentions)


def _write(folder: Path, recipe: Recipe, project: Project) -> None:
    (folder / "configs").mkdir()
    shutil.copyfile(recipe.path, folder / "configs" / f"{recipe.name}.cfg")
    (folder / "project.yml").write_text(render_project(project), encoding="utf8")
    # What can be made again, and text of documents, do not belong into a repository.
    (folder / ".gitignore").write_text("corpus/\npackages/\ntraining/\n", encoding="utf8")


def _describe(conversion: Conversion) -> str:
    labels = sorted({label for split in conversion.splits for label in split.counts.labels})
    shown = ", ".join(labels[:10]) + (f" and {len(labels) - 10} more" if len(labels) > 10 else "")
    return f"Entities of the types {shown}" if len(labels) > 1 else f"Entities of the type {shown}"


def _parse_tokenizer(tokenizer: str) -> tuple[str, str]:
    kind, _, lang = tokenizer.partition(":")
    if kind not in ("blank", BIOMEDICAL) or not lang:
        raise ValueError(
            f"--tokenizer {tokenizer!r} is neither blank:LANG nor {BIOMEDICAL}:LANG. To use "
            "another one, run 'spacy mslm convert' and set [nlp.tokenizer] in the config."
        )
    try:
        spacy.blank(lang)
    except ImportError:
        raise ValueError(f"--tokenizer {tokenizer!r}: spaCy has no language {lang!r}.") from None
    return kind, lang


def _package_name(name: str) -> str:
    """Return a name that a Python package can have."""
    found = re.sub(r"\W+", "_", name.lower(), flags=re.ASCII).strip("_")
    if not found or not found[0].isalpha():
        raise ValueError(
            f"{name!r} is no name for a package: it must begin with a letter of a to z. Give one "
            "with --name."
        )
    return found


def _checked_encoder(encoder: str) -> str:
    """Return the encoder, a folder as an absolute path after it was loaded once."""
    path = Path(encoder).expanduser()
    if path.is_dir():
        load_checkpoint(str(path))
        return str(path.resolve())
    if path.exists() or encoder.startswith((".", "/", "~")) or encoder.count("/") > 1:
        raise ValueError(
            f"The encoder {encoder} is no folder. Give the name of a checkpoint of the Hugging "
            "Face hub, or a folder that holds one."
        )
    return encoder
