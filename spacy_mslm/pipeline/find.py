"""Find the `mslm` pipe of a pipeline, and run what comes before it."""

from collections.abc import Iterable

from spacy.language import Language
from spacy.tokens import Doc

from .component import MSLM


def find_mslm(nlp: Language, where: str) -> tuple[str, MSLM]:
    """Return the name of the `mslm` pipe of a pipeline, and the pipe.

    Args:
        nlp: The pipeline.
        where: The name of the pipeline in messages.

    Raises:
        ValueError: If the pipeline has no `mslm` pipe, or several.
    """
    pipes = {name: pipe for name, pipe in nlp.pipeline if isinstance(pipe, MSLM)}
    if not pipes:
        names = ", ".join(nlp.pipe_names) or "none"
        raise ValueError(
            f"{where} has no mslm pipe. Its pipes are: {names}. Give a pipeline that was trained "
            "with spacy-mslm."
        )
    if len(pipes) > 1:
        raise ValueError(
            f"{where} has several mslm pipes ({', '.join(pipes)}). Give a pipeline with only one "
            "of them."
        )
    return next(iter(pipes.items()))


def run_pipes_before(nlp: Language, name: str, docs: Iterable[Doc]) -> list[Doc]:
    """Run the pipes before the pipe `name`, which may read their annotation (sentences)."""
    with nlp.select_pipes(enable=nlp.pipe_names[: nlp.pipe_names.index(name)]):
        return list(nlp.pipe(docs))
