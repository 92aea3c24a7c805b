"""Saving of pipelines: atomic, with checksums that are verified on loading, without training text.

`nlp.to_disk` writes one file after another, also if another process is loading the folder, and its
`vocab/strings.json` contains every token of the training documents. `safe_save` writes to a
temporary folder, with the strings that the pipeline needs and a manifest of all files, and swaps
the folders.
"""

import copy
import logging
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import srsly
from spacy.language import Language
from spacy.util import get_lang_class
from thinc.api import Model

from ..util.manifest import signed_folder

logger = logging.getLogger("spacy_mslm")

_saving_safely: ContextVar[bool] = ContextVar("saving_safely", default=False)


def is_saving_safely() -> bool:
    """Return whether `safe_save` is the one that saves."""
    return _saving_safely.get()


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
    strings = sorted(needed_strings(nlp) & set(nlp.vocab.strings))
    with signed_folder(path) as temporary:
        token = _saving_safely.set(True)
        try:
            nlp.to_disk(temporary, exclude=["vocab"])
        finally:
            _saving_safely.reset(token)
        # The words of the training text must not be written at any time.
        nlp.vocab.to_disk(temporary / "vocab", exclude=["strings"])
        srsly.write_json(temporary / "vocab" / "strings.json", strings)


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
    """Return whether the weights of encoders of this package are finite. Others are not checked."""
    from ..model.shim import MSLMShim

    model = getattr(pipe, "model", None)
    nodes = model.walk() if isinstance(model, Model) else ()
    shims = (shim for node in nodes for shim in node.shims)
    return all(shim.is_finite() for shim in shims if isinstance(shim, MSLMShim))
