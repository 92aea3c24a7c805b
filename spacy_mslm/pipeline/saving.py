"""Saving that leaves either the old files or the new ones, checked on loading, with no training
text in them.

`nlp.to_disk` writes file by file into the folder that is being loaded elsewhere, and its
`vocab/strings.json` holds every token of the training notes. `safe_save` writes next to the folder
and swaps the two.
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
# Bytes of a block, a part of the format. A thread that has hashed one waits for the interpreter
# before it begins another: so blocks are large.
BLOCK = 2**26


# ---- checksums ----


def add_manifest(files: dict[str, bytes]) -> dict[str, bytes]:
    """The files and a manifest of the SHA-256 sums of their blocks, which is written last."""
    sums = {name: [_digest(data, at) for at in _blocks(data)] for name, data in files.items()}
    manifest = json.dumps({"sha256": sums}, indent=2, sort_keys=True)
    return {**files, MANIFEST: manifest.encode("utf8")}


@contextlib.contextmanager
def checked_files(
    read: Callable[[str], Content | None], where: str
) -> Iterator[Mapping[str, Content]]:
    """The files that the manifest names. They are hashed while the block runs; its end waits for
    that and raises if one is not as it was written, so what is made of them is used after it.

    read: a file's content by its name, or None where there is none.
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
        # The manifest may be forged like any other file: it names plain files of this folder.
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
        finally:  # also of what cannot be read: that it is damaged says more
            for name, digests in found.items():
                if [digest.result() for digest in digests] != sums[name]:
                    raise ValueError(Errors.M212.format(where=where, name=name)) from None


def _blocks(content: Content) -> range:
    """Where blocks begin, which can be hashed side by side; there is always one."""
    return range(0, max(len(content), 1), BLOCK)


def _digest(content: Content, start: int) -> str:
    return hashlib.sha256(memoryview(content)[start : start + BLOCK]).hexdigest()


# ---- pipelines ----


def safe_save(nlp: Language, path: str | Path) -> None:
    """Save a pipeline such that a reader finds either the old one or the new one, complete. The
    string store is pruned to what the pipeline needs, so it holds no words of the training text."""
    path = Path(path)
    faulty = [name for name, pipe in nlp.components if not _is_finite(pipe)]
    if faulty:
        if not path.exists():
            raise ValueError(
                f"The weights of {', '.join(faulty)} are not all finite numbers, so nothing "
                f"was saved to {path}. Training went wrong before the first checkpoint: lower "
                "the learn rate."
            )
        logger.error(
            f"The weights of {', '.join(faulty)} are not all finite numbers. They were not "
            f"saved: {path} stays as it was at the last good checkpoint."
        )
        return
    with replaced_folder(path) as temporary:
        nlp.to_disk(temporary)
        strings = temporary / "vocab" / "strings.json"
        kept = set(srsly.read_json(strings)) & needed_strings(nlp)
        srsly.write_json(strings, sorted(kept))


def make_safe_save() -> Callable[[Language], Language]:
    """`spacy_mslm.safe_save.v1`: a `training.before_to_disk` callback that saves with `safe_save`.

    The training loop calls `to_disk` on what the callback returns: a copy of the pipeline whose
    `to_disk` is `safe_save`.
    """

    def before_to_disk(nlp: Language) -> Language:
        saver = copy.copy(nlp)

        def to_disk(path: str | Path, **kwargs: Any) -> None:
            safe_save(nlp, path)

        saver.to_disk = to_disk  # type: ignore[method-assign]
        return saver

    return before_to_disk


def needed_strings(nlp: Language) -> set[str]:
    """Strings that the pipeline looks up by their hash: the language's own, labels, and the words
    that have vectors. Everything else in the store is there because a document had it."""
    strings = set(get_lang_class(nlp.lang or "xx")().vocab.strings)
    for _, pipe in nlp.components:
        strings.update(_texts(getattr(pipe, "label_data", None)))
        strings.update(str(label) for label in getattr(pipe, "labels", ()))
    store = nlp.vocab.strings
    strings.update(store[key] for key in nlp.vocab.vectors if key in store)
    return strings


def _texts(value: Any) -> Iterator[str]:
    """All strings in a piece of JSON-like label data."""
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
    """Whether an mslm pipe's weights are all numbers; other pipes are not looked into."""
    from ..model.shim import MSLMShim

    model = getattr(pipe, "model", None)
    for shim in getattr(model, "shims", ()):
        if isinstance(shim, MSLMShim) and not shim.is_finite():
            return False
    return True
