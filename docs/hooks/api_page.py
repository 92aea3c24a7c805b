"""The reference page of the Python API: modules that an application or a notebook calls."""

from spacy_mslm import tasks

INTRO = """# Python API

Most applications need nothing but spaCy's own API: `spacy.load`, `nlp.pipe`, `doc.ents`. This page
lists what the package adds. It is generated from the code.

"""


def render() -> str:
    """Return the page in Markdown."""
    return INTRO + "\n".join(
        [
            "## The pipeline component\n",
            "::: spacy_mslm.pipeline.component.MSLM",
            "\n## Tasks\n",
            "The functions behind the commands, for notebooks and scripts: `from spacy_mslm.tasks "
            "import evaluate`. They print nothing and return typed results.\n",
            *(f"::: {name}\n    options:\n      show_root_heading: true\n" for name in _tasks()),
            "\n## Saving and loading\n",
            "::: spacy_mslm.pipeline.saving",
            "::: spacy_mslm.pipeline.loading",
            "\n## Data types\n",
            "::: spacy_mslm.types",
        ]
    )


def _tasks() -> list[str]:
    """Return the paths of the public names of `spacy_mslm.tasks`: functions, then result types."""
    found = [getattr(tasks, name) for name in tasks.__all__]
    found.sort(key=lambda task: (isinstance(task, type), task.__name__))
    return [f"{task.__module__}.{task.__qualname__}" for task in found]
