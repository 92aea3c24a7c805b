"""Script that runs MedCAT in the environment made by `medcat-setup`. It imports nothing of this
package, which is not installed there. It answers each line with a line:

                                    <- {"ready": true}, or {"failed": "why the pack does not load"}
    {"id": "7", "text": "..."}      -> {"id": "7", "entities": {"0": {...}, ...}}
                                    or {"id": "7", "error": "the name of an exception"}
"""

import json
import os
import sys
from typing import Any, TextIO

# Fields of an entity of `cat.get_entities` that are returned. Others hold text.
FIELDS = ("start", "end", "cui", "type_ids", "acc")


class NoAddon:
    """A type of addon that no pack has, so that none is loaded: addons are slow, need torch, and
    do not change concepts."""

    addon_type = "none"


def main(pack: str) -> None:
    """Load a model pack, and answer notes until the input ends."""
    # Output that MedCAT prints must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf8")
    os.dup2(2, 1)
    try:
        from medcat.cat import CAT

        cat: Any = CAT.load_model_pack(pack, keep_addons_of_types=[NoAddon])
        cat.config.general.usage_monitor.enabled = False
    except Exception as err:  # safe to report: no note was read yet
        _write(answers, {"failed": f"{type(err).__name__}: {err}"})
        return
    _write(answers, {"ready": True})
    for line in sys.stdin:
        note = json.loads(line)
        try:
            found = cat.get_entities(note["text"]).get("entities", {})
            entities = {key: {f: entity[f] for f in FIELDS} for key, entity in found.items()}
            _write(answers, {"id": note["id"], "entities": entities})
        except Exception as err:  # its message may quote the note
            _write(answers, {"id": note["id"], "error": type(err).__name__})


def _write(answers: TextIO, answer: dict[str, Any]) -> None:
    # Scores may be numpy numbers.
    answers.write(json.dumps(answer, default=float) + "\n")
    answers.flush()


if __name__ == "__main__":
    main(sys.argv[1])
