"""Loading of pipelines whose files are verified first."""

from pathlib import Path

import spacy
from spacy.language import Language

from ..util.manifest import FOLDER_MANIFEST, MANIFEST, check_folder, read_manifest


def load_pipeline(model: str) -> Language:
    """Load a pipeline as `spacy.load` does, after its files were verified.

    With `spacy.load`, the `mslm` pipe verifies the files of the pipeline, but spaCy has read some
    of them by then, and its error about a damaged file does not name the file.

    Args:
        model: Name or path of the pipeline.

    Raises:
        ValueError: If a file is missing or was changed.
        OSError: If there is no such pipeline.
    """
    check_pipeline(find_folder(model))
    return spacy.load(model)


def find_folder(model: str) -> Path:
    """Return the folder with the files of a pipeline, which may not exist.

    Args:
        model: Name of an installed package, or path of a pipeline or of its package.
    """
    path = Path(model)
    if spacy.util.is_package(model) and not path.exists():
        path = spacy.util.get_package_path(model)
    if path.is_dir() and not any(
        (path / name).exists() for name in ("config.cfg", FOLDER_MANIFEST)
    ):
        # The folder of a package has the folder of the pipeline in it.
        inner = [file.parent for file in path.glob("*/config.cfg")]
        if len(inner) == 1:
            return inner[0]
    return path


def check_pipeline(folder: Path, pipe: str | None = None) -> None:
    """Verify the files of a pipeline that `safe_save` wrote. Other folders are not verified.

    Files of `mslm` pipes are left out, because the pipes verify them when they are loaded. Their
    manifests are verified here.

    Args:
        folder: The folder of the pipeline.
        pipe: The folder of a pipe in it. If the manifest of the pipeline does not have this pipe,
            nothing is verified.

    Raises:
        ValueError: If a file is missing or was changed.
    """
    sums = read_manifest(folder) or {}
    pipes = {name.removesuffix(MANIFEST) for name in sums if name.count("/") == 1}
    pipes = {own for own in pipes if own + MANIFEST in sums}
    if pipe is None or f"{pipe}/" in pipes:
        owned = tuple(pipes)
        check_folder(folder, lambda name: name.startswith(owned) and not name.endswith(MANIFEST))
