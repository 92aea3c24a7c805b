"""Schedules of rates and weights over the steps of a run."""

from collections.abc import Iterable, Iterator
from itertools import islice, repeat

FloatOrSchedule = float | Iterable[float]


def warmup_decay(rate: float, total_steps: int | str, warmup: float = 0.1) -> Iterator[float]:
    """`spacy_mslm.warmup_decay.v1`: rises linearly from 0 to `rate`, then falls linearly to 0.

    Unlike thinc's `warmup_linear.v1`, it takes the length of the warm-up as a share of the run, so
    it stays correct when `--training.max_steps` is overridden.

    `nlp.resume_training()` passes the text `"${training.max_steps}"` of the config. The length of
    the run is unknown then, and the rate is constant.

    Args:
        rate: The maximum.
        total_steps: The number of steps of the run.
        warmup: The length of the rise, as a share of `total_steps`.

    Yields:
        The value at each step.
    """
    if isinstance(total_steps, str):
        yield from repeat(rate)
        return
    if total_steps <= 0:
        raise ValueError(
            "A schedule over the whole run needs the number of its steps, but total_steps is "
            f"{total_steps}. Set training.max_steps to a positive number (0 means no limit)."
        )
    rise = max(1.0, warmup * total_steps)
    step = 0
    while True:
        yield rate * max(0.0, min(step / rise, (total_steps - step) / max(1.0, total_steps - rise)))
        step += 1


class StepSchedule:
    """A number or a schedule with random access to the value at each step.

    Generators only move forward and cannot be pickled, so the values are stored. A pickled copy has
    only the values that were stored. Copies are used in the worker processes of `nlp.pipe`, which
    do not train.

    Args:
        name: The name of the setting, for error messages.
        schedule: The number or schedule.
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
        """Whether the value is the same at all steps."""
        return self._source is None

    def __call__(self, step: int) -> float:
        """Return the value at a step. A schedule that has ended keeps its last value.

        Raises:
            ValueError: If the schedule has no values or the value is negative.
        """
        missing = step + 1 - len(self._values)
        if self._source is not None and missing > 0:
            self._values.extend(islice(self._source, missing))
        if not self._values:
            raise ValueError(
                f"The schedule of {self.name} has no values. Give a number, or a schedule that "
                "yields at least one value."
            )
        value = self._values[min(step, len(self._values) - 1)]
        if value < 0:
            raise ValueError(
                f"{self.name} is {value} at step {step}, but the weight of a loss cannot be "
                "negative. Change the schedule."
            )
        return value

    def __getstate__(self) -> dict:
        return {**self.__dict__, "_source": None}
