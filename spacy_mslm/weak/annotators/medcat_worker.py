"""MedCAT in a process of its own, in the environment that `medcat-setup` makes.

Run as a script, so that it imports nothing of this package. It answers each line with a line:

                                    <- {"ready": true}, or {"failed": "why the pack does not load"}
    {"id": "7", "text": "..."}      -> {"id": "7", "entities": {"0": {...}, ...}}
                                    or {"id": "7", "error": "the name of an exception"}
"""

import json
import os
import sys
from typing import Any, TextIO

# What an entity of `cat.get_entities` is read for. The rest holds text.
FIELDS = ("start", "end", "cui", "type_ids", "acc")


class NoAddon:
    """A type of addon that no pack has: addons are slow, need torch, and change no concept."""

    addon_type = "none"


def main(pack: str) -> None:
    # Whatever MedCAT prints must not get between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf8")
    os.dup2(2, 1)
    try:
        from medcat.cat import CAT

        cat: Any = CAT.load_model_pack(pack, keep_addons_of_types=[NoAddon])
        cat.config.general.usage_monitor.enabled = False
    except Exception as err:  # told here: no note was read yet, so that it holds no text of one
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
    # Scores may be numbers of numpy.
    answers.write(json.dumps(answer, default=float) + "\n")
    answers.flush()


if __name__ == "__main__":
    main(sys.argv[1])
