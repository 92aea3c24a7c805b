"""The reference page of the configs: the settings that a command line can override, with the
comments that stand above them in the config files, and the defaults of the component."""

from typing import NamedTuple

import spacy
from entry_points import ROOT, read_entry_points
from thinc.api import Config

CONFIGS = ("mslm", "self_training", "vanilla", "shared_encoder")
CONFIGS += ("spacy_ner", "mslm_paper", "pretrain", "weak")
SECTIONS = ("paths", "vars", "system")
INTRO = """# Configs

The folder `configs/` has one file for each way of training. See
[Which config](../guides/train.md#which-config) for which one to use when. Every value can be
overridden on the command line with `--section.key value`, as with every spaCy config. This page is
generated from the files.

## Settings of the component

`nlp.add_pipe("mslm")` uses these defaults:

```ini
{defaults}
```

::: {factory}
    options:
      heading: "mslm"
      show_root_heading: false
      show_root_toc_entry: false
      docstring_section_style: list
"""


class Setting(NamedTuple):
    section: str
    key: str
    value: str
    comment: str


def render() -> str:
    """Return the page in Markdown."""
    nlp = spacy.blank("en")
    assert nlp.has_factory("mslm")  # loads the entry point
    defaults = {"components": {"mslm": nlp.get_factory_meta("mslm").default_config}}
    (factory,) = (
        entry.path
        for entry in read_entry_points()
        if (entry.registry, entry.name) == ("factories", "mslm")
    )
    intro = INTRO.format(defaults=Config(defaults).to_str().strip(), factory=factory)
    return intro + "".join(_section(name) for name in CONFIGS)


def _section(name: str) -> str:
    rows = [
        f"| `--{s.section}.{s.key}` | `{s.value}` | {s.comment} |"
        for s in read_settings(name)
        if s.section.split(".")[0] in SECTIONS
    ]
    return "\n".join(
        [
            f"\n## {name}.cfg\n",
            "| override | default | comment |",
            "|---|---|---|",
            *rows,
            f'\n??? note "The whole file: configs/{name}.cfg"\n',
            "    ```ini",
            f'    --8<-- "configs/{name}.cfg"',
            "    ```\n",
        ]
    )


def read_settings(name: str) -> list[Setting]:
    """Read the settings of a config with the comment lines directly above each."""
    settings: list[Setting] = []
    section, comments = "", list[str]()
    for line in (ROOT / "configs" / f"{name}.cfg").read_text(encoding="utf8").splitlines():
        if line.startswith("#"):
            comments.append(line.lstrip("# "))
            continue
        if line.startswith("["):
            section = line.strip("[]")
        elif " = " in line:
            key, _, value = line.partition(" = ")
            settings.append(Setting(section, key, value, " ".join(comments)))
        comments = []
    return settings
