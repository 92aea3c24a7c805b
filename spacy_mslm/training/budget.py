"""The length of a run, in updates or in epochs of the training set, and schedules over it."""

from collections.abc import Iterator
from functools import cache
from itertools import repeat
from math import ceil
from pathlib import Path

from ..corpus.readers import count_documents
from ..model.schedules import warmup_decay
from ..util.settings import check_at_least

UPDATES_BETWEEN = 100  # evaluations, if the length of the run is not known


def count_updates(
    corpus: str | None,
    batch_size: int,
    epochs: float = 4,
    least: int = 312,
    limit: int = 0,
    evaluations: int = 4,
) -> int:
    """`spacy_mslm.updates.v1`: the number of updates for `[training.max_steps]`.

    A large training set is read `epochs` times. A small one is read more often, because an encoder
    needs a number of updates, however few sentences there are. On the command line,
    `--training.max_steps 500` replaces the block and `--training.max_steps.epochs 10` changes it.

    Args:
        corpus: `${paths.train}`. Without one, the result is `least`.
        batch_size: `${training.batcher.size}`, in documents.
        epochs: The number of passes over the documents of the training set, which are sentences in
            converted IOB files.
        least: The least number of updates.
        limit: The number of documents that are used, as in the corpus reader; 0 for all.
        evaluations: The result is rounded up to a multiple of it, so that the last evaluation is
            at the end.
    """
    check_at_least("training.max_steps.epochs", epochs, 0)
    check_at_least("training.max_steps.least", least, 1)
    check_at_least("training.max_steps.evaluations", evaluations, 1)
    # Without a training set, as in `spacy assemble`, nothing is trained.
    epoch = _updates_of_epoch(corpus, batch_size, limit) if corpus is not None else 0
    updates = max(least, ceil(epochs * epoch))
    return evaluations * ceil(updates / evaluations)


def eval_frequency(updates: int, evaluations: int = 4) -> int:
    """`spacy_mslm.eval_frequency.v1`: evaluate a number of times in a run, the last time at its end
    if `updates` is a multiple of them.

    Args:
        updates: `${training.max_steps}`. If it is 0, the run has another end, and dev is evaluated
            every UPDATES_BETWEEN updates.
        evaluations: The number of evaluations.
    """
    check_at_least("training.eval_frequency.evaluations", evaluations, 1)
    return max(1, updates // evaluations) if updates else UPDATES_BETWEEN


def _updates_of_epoch(corpus: str, batch_size: int, limit: int) -> int:
    path = Path(corpus)
    # Of a folder, this is the time at which a file was added.
    changed = path.stat().st_mtime_ns if path.exists() else 0
    documents = _count(path, changed)
    return ceil((min(documents, limit) if limit > 0 else documents) / batch_size)


@cache
def _count(path: Path, changed: int) -> int:
    """Count documents once: a config has several schedules over one run."""
    return count_documents(path)


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
        ends.append(max_epochs * _updates_of_epoch(corpus, int(batch_size), int(limit)))
    if not ends:
        raise ValueError(
            "A schedule over the whole run needs its length. Set training.max_steps, or "
            "training.max_epochs and paths.train."
        )
    yield from warmup_decay(rate, min(ends), warmup)
