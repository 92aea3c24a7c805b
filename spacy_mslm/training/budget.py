"""Schedules over a run whose length is given in updates or in epochs of the training set."""

from collections.abc import Iterator
from itertools import repeat
from math import ceil
from pathlib import Path

from ..corpus.readers import count_documents
from ..model.schedules import warmup_decay


def warmup_decay_v2(
    rate: float,
    max_steps: int | str,
    max_epochs: int | str,
    batch_size: int | str,
    corpus: str | None,
    limit: int | str = 0,
    warmup: float = 0.1,
) -> Iterator[float]:
    """`spacy_mslm.warmup_decay.v2`: as `warmup_decay`, over a run that ends as `spacy train` does:
    after `max_steps` or `max_epochs`, whichever is first.

    Args:
        rate: The maximum.
        max_steps: `${training.max_steps}`; 0 for no limit.
        max_epochs: `${training.max_epochs}`; 0 for no limit. An epoch is one pass over the
            documents of the training set, which are sentences in converted IOB files.
        batch_size: `${training.batcher.size}`, in documents.
        corpus: `${paths.train}`. It is only read if the run ends by epochs.
        limit: The number of documents that are used, as in the corpus reader; 0 for all.
        warmup: The length of the rise, as a share of the run.

    Yields:
        The value at each step.
    """
    if isinstance(max_steps, str) or isinstance(max_epochs, str):
        yield from repeat(rate)  # see `warmup_decay`
        return
    ends = [max_steps] if max_steps > 0 else []
    if max_epochs > 0 and corpus is not None:
        documents = count_documents(Path(corpus))
        documents = min(documents, int(limit)) if int(limit) > 0 else documents
        ends.append(max_epochs * ceil(documents / int(batch_size)))
    if not ends:
        raise ValueError(
            "A schedule over the whole run needs its length. Set training.max_steps, or "
            "training.max_epochs and paths.train."
        )
    yield from warmup_decay(rate, min(ends), warmup)
