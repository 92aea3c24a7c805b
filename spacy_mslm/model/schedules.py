"""Rates that change over the run: generators in thinc's `schedules` registry, and a way to ask
any such generator for the value at a step."""

from collections.abc import Iterable, Iterator
from itertools import islice, repeat

FloatOrSchedule = float | Iterable[float]


def warmup_decay(rate: float, total_steps: int | str, warmup: float = 0.1) -> Iterator[float]:
    """`spacy_mslm.warmup_decay.v1`: straight up from 0 to `rate` over the first `warmup` (a share)
    of `total_steps`, then straight down to 0 at the last. Shares, unlike the numbers of steps that
    thinc's `warmup_linear.v1` takes, stay right when `--training.max_steps` is overridden.

    `nlp.resume_training()` hands over `"${training.max_steps}"` as it stands in the config, and has
    no length: there the rate is constant.
    """
    if isinstance(total_steps, str):
        yield from repeat(rate)
        return
    _check_total(total_steps)
    rise = max(1.0, warmup * total_steps)
    step = 0
    while True:
        yield rate * max(0.0, min(step / rise, (total_steps - step) / max(1.0, total_steps - rise)))
        step += 1


def _check_total(total_steps: int) -> None:
    if total_steps <= 0:
        raise ValueError(
            "A schedule over the whole run needs to know its length, but total_steps is "
            f"{total_steps}. Set training.max_steps (0 means no limit there, which has no end "
            "to go down to)."
        )


class StepSchedule:
    """A number or a schedule, asked for its value at any step.

    Generators only go forward and cannot be pickled: values drawn are kept, and a pickled copy
    (a worker process of `nlp.pipe`, which does not train) has only those.
    """

    def __init__(self, name: str, schedule: FloatOrSchedule) -> None:
        self.name = name
        self._values: list[float] = []
        self._source: Iterator[float] | None = None
        if isinstance(schedule, int | float):
            self._values.append(float(schedule))
        else:
            self._source = iter(schedule)
            self(0)

    @property
    def is_constant(self) -> bool:
        return self._source is None

    def __call__(self, step: int) -> float:
        """The value at `step`; a schedule that has run out keeps its last value."""
        missing = step + 1 - len(self._values)
        if self._source is not None and missing > 0:
            self._values.extend(islice(self._source, missing))
        if not self._values:
            raise ValueError(
                f"The schedule of {self.name} gives no value at all. Give a number, or a "
                "schedule that yields at least one."
            )
        value = self._values[min(step, len(self._values) - 1)]
        if value < 0:
            raise ValueError(
                f"{self.name} is {value} at step {step}: a loss cannot weigh less than 0. "
                "Change the schedule."
            )
        return value

    def __getstate__(self) -> dict:
        return {**self.__dict__, "_source": None}
