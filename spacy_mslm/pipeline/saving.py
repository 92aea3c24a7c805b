"""Saving of pipelines: atomic, with checksums that are verified on loading, without training text.

`nlp.to_disk` writes one file after another, also if another process is loading the folder, and its
`vocab/strings.json` contains every token of the training documents. `safe_save` writes to a
temporary folder, prunes the strings and swaps the folders.
"""

import contextlib
import copy
import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import srsly
from spacy.language import Language
from spacy.util import get_lang_class

from ..errors import Errors
from ..util.files import Content, replaced_folder

logger = logging.getLogger("spacy_mslm")

MANIFEST = "manifest.json"
# The number of bytes in a block, which is part of the format. Blocks are large because a thread
# needs the interpreter lock between two blocks.
BLOCK = 2**26


# ---- checksums ----


def add_manifest(files: dict[str, bytes]) -> dict[str, bytes]:
    """Add a manifest, to be written last, with the SHA-256 sums of the blocks of each file."""
    sums = {name: [_digest(data, at) for at in _blocks(data)] for name, data in files.items()}
    manifest = json.dumps({"sha256": sums}, indent=2, sort_keys=True)
    return {**files, MANIFEST: manifest.encode("utf8")}


@contextlib.contextmanager
def checked_files(
    read: Callable[[str], Content | None], where: str
) -> Iterator[Mapping[str, Content]]:
    """Provide the files that the manifest names, and verify their checksums.

    The files are hashed in other threads during the block. Use what is built from them only after
    the block: its end waits for the checksums.

    Args:
        read: Returns the content of a file by its name, or None if it does not exist.
        where: The name of the folder for messages.

    Raises:
        ValueError: If a file is missing or its checksum is wrong.
    """
    data = read(MANIFEST)
    if data is None:
        raise ValueError(Errors.M211.format(where=where, name=MANIFEST))
    try:
        sums = dict(json.loads(bytes(data))["sha256"])
    except (ValueError, KeyError, TypeError):
        raise ValueError(Errors.M212.format(where=where, name=MANIFEST)) from None
    files = {}
    for name in sums:
        # The manifest may be forged, too: it must only name files directly in this folder.
        if Path(name).name != name:
            raise ValueError(Errors.M212.format(where=where, name=MANIFEST))
        content = read(name)
        if content is None:
            raise ValueError(Errors.M211.format(where=where, name=name))
        files[name] = content
    with ThreadPoolExecutor() as pool:
        found = {
            name: [pool.submit(_digest, content, at) for at in _blocks(content)]
            for name, content in files.items()
        }
        try:
            yield files
        finally:  # also after an exception in the block: a wrong checksum explains it better
            for name, digests in found.items():
                if [digest.result() for digest in digests] != sums[name]:
                    raise ValueError(Errors.M212.format(where=where, name=name)) from None


def _blocks(content: Content) -> range:
    """Return the offsets of the blocks of a file, of which there is at least one."""
    return range(0, max(len(content), 1), BLOCK)


def _digest(content: Content, start: int) -> str:
    return hashlib.sha256(memoryview(content)[start : start + BLOCK]).hexdigest()


# ---- pipelines ----


def safe_save(nlp: Language, path: str | Path) -> None:
    """Save a pipeline so that a reader finds either the old or the new one, complete.

    The string store is pruned to the strings that the pipeline needs, so it contains no words of
    the training text. If weights are NaN or infinite, an existing folder is kept and an error is
    logged.

    Args:
        nlp: The pipeline.
        path: The folder.

    Raises:
        ValueError: If weights are NaN or infinite and the folder does not exist.
    """
    path = Path(path)
    faulty = [name for name, pipe in nlp.components if not _is_finite(pipe)]
    if faulty:
        if not path.exists():
            raise ValueError(
                f"The weights of {', '.join(faulty)} are NaN or infinite, so nothing was saved to "
                f"{path}. Training diverged before the first checkpoint. Lower the learn rate."
            )
        logger.error(
            f"The weights of {', '.join(faulty)} are NaN or infinite. They were not saved, and "
            f"{path} still contains the last good checkpoint."
        )
        return
    with replaced_folder(path) as temporary:
        nlp.to_disk(temporary)
        strings = temporary / "vocab" / "strings.json"
        kept = set(srsly.read_json(strings)) & needed_strings(nlp)
        srsly.write_json(strings, sorted(kept))


def make_safe_save() -> Callable[[Language], Language]:
    """`spacy_mslm.safe_save.v1`: a `training.before_to_disk` callback that saves with `safe_save`.

    The training loop calls `to_disk` on the result of the callback. This is a copy of the pipeline
    whose `to_disk` is `safe_save`.
    """

    def before_to_disk(nlp: Language) -> Language:
        saver = copy.copy(nlp)

        def to_disk(path: str | Path, **kwargs: Any) -> None:
            safe_save(nlp, path)

        saver.to_disk = to_disk  # type: ignore[method-assign]
        return saver

    return before_to_disk


def needed_strings(nlp: Language) -> set[str]:
    """Return the strings that the pipeline looks up by their hash.

    These are the strings of the language, labels, and words that have vectors. All other strings in
    the store come from documents.
    """
    strings = set(get_lang_class(nlp.lang or "xx")().vocab.strings)
    for _, pipe in nlp.components:
        strings.update(_texts(getattr(pipe, "label_data", None)))
        strings.update(str(label) for label in getattr(pipe, "labels", ()))
    store = nlp.vocab.strings
    strings.update(store[key] for key in nlp.vocab.vectors if key in store)
    return strings


def _texts(value: Any) -> Iterator[str]:
    """Yield all strings in label data."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(key)
            yield from _texts(item)
    elif isinstance(value, list | tuple | set):
        for item in value:
            yield from _texts(item)


def _is_finite(pipe: Any) -> bool:
    """Return whether the weights of an mslm pipe are finite. Other pipes are not checked."""
    from ..model.shim import MSLMShim

    model = getattr(pipe, "model", None)
    for shim in getattr(model, "shims", ()):
        if isinstance(shim, MSLMShim) and not shim.is_finite():
            return False
    return True
