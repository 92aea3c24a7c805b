"""Verify the files of a pipeline or encoder against the manifest that was saved with them."""

from dataclasses import dataclass
from pathlib import Path

from ..pipeline.loading import find_folder
from ..util.manifest import (
    FOLDER_MANIFEST,
    MANIFEST,
    Fault,
    check_files,
    files_of,
    find_faults,
    read_manifest,
    rewritten,
    write_manifest,
)


@dataclass
class Verification:
    """The result of a verification.

    folder: The folder that was verified.
    files: Number of files in its manifest, without those that `spacy package` writes again.
    faults: The files that are missing or were changed.
    unknown: Files that are not in the manifest. spaCy does not read them.
    """

    folder: Path
    files: int
    faults: list[Fault]
    unknown: list[str]


def verify(model: str, *, update: bool = False) -> Verification:
    """Compare all files of a pipeline or encoder with its manifest.

    Args:
        model: Name or path of a pipeline, or path of an encoder that was written by `pretrain` or
            in adaptation.
        update: Write a new manifest for the files as they are now. The files of `mslm` pipes must
            be unchanged, as they have manifests of their own.

    Raises:
        ValueError: If there is no manifest, or it is damaged.
    """
    folder = find_folder(model)
    if not folder.is_dir():
        raise ValueError(
            f"{model} is neither a folder nor an installed pipeline. Give a pipeline or an encoder."
        )
    if update:
        for path in folder.glob(f"*/{MANIFEST}"):
            check_files(path.parent)
        write_manifest(folder)
    sums = read_manifest(folder)
    if sums is None:
        raise ValueError(
            f"{folder} has no {FOLDER_MANIFEST}, so its files cannot be verified. It was saved by "
            "an earlier version, or without safe_save. If the files are as they should be, write "
            "the manifest with --update."
        )
    unknown = sorted(set(files_of(folder)) - sums.keys())
    checked = sums.keys() - rewritten(folder)
    faults = find_faults(folder, {name: sums[name] for name in checked})
    return Verification(folder, len(checked), faults, unknown)
