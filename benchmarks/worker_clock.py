"""A callback for `[training.before_update]` that records the clock at the start of each update.

It is imported by `spacy mslm train --code`, in each worker: see `workers`.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from spacy.language import Language
from spacy.util import registry

from spacy_mslm.model.workers import workers


@registry.callbacks("benchmarks.clock.v1")
def make_clock(folder: str) -> Callable[[Language, dict[str, Any]], None]:
    """Create a callback that writes the clock and the processor time to a file for each worker."""
    path = Path(folder) / f"worker{workers().rank}.txt"

    def record(nlp: Language, at: dict[str, Any]) -> None:
        with path.open("a") as file:
            file.write(f"{time.perf_counter()} {time.process_time()}\n")

    return record
