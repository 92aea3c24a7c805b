"""The factory's defaults: what `nlp.add_pipe("mslm")` trains with."""

from pathlib import Path

import spacy
from spacy.language import Language
from spacy.util import load_config

CONFIG = Path(__file__).parents[2] / "configs" / "mslm.cfg"


def test_the_defaults_are_those_of_mslm_cfg() -> None:
    defaults = Language.get_factory_meta("mslm").default_config
    spacy.blank("en").add_pipe("mslm")  # The defaults are complete.
    shipped = load_config(CONFIG, interpolate=True)["components"]["mslm"]
    # The scorer and the seed of the config follow the run: its training set and --system.seed.
    for name, value in shipped.items():
        if name not in ("factory", "scorer"):
            assert defaults[name] == value, name
