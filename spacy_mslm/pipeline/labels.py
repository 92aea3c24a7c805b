"""Add entity types to a trained `mslm` pipe from a config."""

from collections.abc import Callable, Sequence

from spacy.language import Language

from .component import MSLM


def make_add_labels(labels: Sequence[str]) -> Callable[[Language], Language]:
    """`spacy_mslm.add_labels.v1`: adds entity types to the `mslm` pipe before training.

    A callback for `[initialize.before_init]`. spaCy does not initialize a component with a
    `source`, so its labels are those of the trained pipeline unless they are added here.

    Args:
        labels: The entity types to add. Types that the pipe already has stay as they are.
    """

    def add_labels(nlp: Language) -> Language:
        # Not nlp.pipeline: spaCy disables components with a source while it initializes the others.
        pipes = [pipe for _, pipe in nlp.components if isinstance(pipe, MSLM)]
        if len(pipes) != 1:
            raise ValueError(
                f"spacy_mslm.add_labels.v1 needs a pipeline with one mslm pipe, but there are "
                f"{len(pipes)}. The pipes are: {', '.join(nlp.component_names) or 'none'}."
            )
        for label in labels:
            pipes[0].add_label(label)
        return nlp

    return add_labels
