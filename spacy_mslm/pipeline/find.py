"""Find the `mslm` pipe of a pipeline, and run what comes before it."""

from collections.abc import Iterable

from spacy.language import Language
from spacy.tokens import Doc

from .component import MSLM


def find_mslm(nlp: Language, where: str) -> tuple[str, MSLM]:
    """The name of a pipeline's one `mslm` pipe, and the pipe.

    where: what a message calls the pipeline.
    """
    pipes = {name: pipe for name, pipe in nlp.pipeline if isinstance(pipe, MSLM)}
    if not pipes:
        names = ", ".join(nlp.pipe_names) or "none"
        raise ValueError(
            f"{where} has no mslm pipe; its pipes: {names}. Give a pipeline that was trained "
            "with spacy-mslm."
        )
    if len(pipes) > 1:
        raise ValueError(
            f"{where} has several mslm pipes ({', '.join(pipes)}), and one can be looked at at "
            "a time. Give a pipeline with one of them."
        )
    return next(iter(pipes.items()))


def run_pipes_before(nlp: Language, name: str, docs: Iterable[Doc]) -> list[Doc]:
    """Documents as the pipe of that name gets them: it may read what others write (sentences)."""
    with nlp.select_pipes(enable=nlp.pipe_names[: nlp.pipe_names.index(name)]):
        return list(nlp.pipe(docs))
