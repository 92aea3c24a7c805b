"""Add entity types to a trained `mslm` pipe from a config."""

from collections.abc import Callable, Sequence

from spacy.language import Language

from .find import find_mslm


def make_add_labels(labels: Sequence[str]) -> Callable[[Language], Language]:
    """`spacy_mslm.add_labels.v1`: adds entity types to the `mslm` pipe before training.

    A callback for `[initialize.before_init]`. spaCy does not initialize a component with a
    `source`, so its labels are those of the trained pipeline unless they are added here.

    Args:
        labels: The entity types to add. Types that the pipe already has stay as they are.
    """

    def add_labels(nlp: Language) -> Language:
        _, pipe = find_mslm(nlp, "The pipeline of the config")
        for label in labels:
            pipe.add_label(label)
        return nlp

    return add_labels
