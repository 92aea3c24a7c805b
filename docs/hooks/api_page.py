"""The reference page of the Python API: modules that an application or a notebook calls."""

import pkgutil

import spacy_mslm
import spacy_mslm.tasks

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
            "The functions behind the commands, for notebooks and scripts.\n",
            *(f"::: {name}\n    options:\n      show_root_heading: true\n" for name in _tasks()),
            "\n## Saving\n",
            "::: spacy_mslm.pipeline.saving",
            "\n## Data types\n",
            "::: spacy_mslm.types",
        ]
    )


def _tasks() -> list[str]:
    """Return the modules and packages directly in `spacy_mslm.tasks`."""
    package = spacy_mslm.tasks
    found = pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
    return sorted(module.name for module in found if "._" not in module.name)
