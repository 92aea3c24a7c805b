"""Install the wheel of a pipeline into an empty folder, load it by name offline, and use it.

python scripts/smoke_test.py packages/.../en_mslm_demo-0.1.0-py3-none-any.whl "Text." found.txt
    found.txt   the entities of the text, with labels and confidences
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from wasabi import msg

from spacy_mslm.util.files import replace_file


def main(wheel: Path, text: str, target: Path) -> None:
    os.environ["HF_HUB_OFFLINE"] = "1"
    import spacy  # after the variable is set: it is read on import

    with tempfile.TemporaryDirectory() as folder:
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
        subprocess.run([*install, "--target", folder, str(wheel)], check=True)
        sys.path.insert(0, folder)
        name = wheel.name.split("-")[0]
        nlp = spacy.load(name)
        if not nlp.path.resolve().is_relative_to(Path(folder).resolve()):
            msg.fail(f"{name} was loaded from {nlp.path}, not from the wheel", exits=1)
        ents = [(e.text, e.label_, f"{e._.confidence:.2f}") for e in nlp(text).ents]
    if not ents:
        msg.fail(f"{name} found no entity in the text of the smoke test", exits=1)
    msg.good(f"{name} {nlp.meta['version']}, installed and loaded offline")
    lines = [f"{mention:<30} {label:<10} {confidence}" for mention, label, confidence in ents]
    print("\n".join(lines))
    replace_file(target, ("\n".join(lines) + "\n").encode("utf8"))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
