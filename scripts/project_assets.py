"""Write the `assets` of project.yml, which are those of `spacy mslm fetch`.

    python scripts/project_assets.py

`spacy_mslm/data/assets.json` is the only list that is edited by hand.
"""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = ROOT / "project.yml"
TABLE = ROOT / "spacy_mslm" / "data" / "assets.json"
BLOCK = re.compile("^assets:\n.*?\n(?=\n)", re.MULTILINE | re.DOTALL)


def render() -> str:
    """Return project.yml with the assets of the table."""
    lines = ["assets:"]
    for name, corpus in json.loads(TABLE.read_text("utf8")).items():
        for file, asset in corpus["files"].items():
            lines += [f'  - dest: "assets/{name}/{file}"', f'    url: "{asset["url"]}"']
            if asset["md5"]:
                lines.append(f'    checksum: "{asset["md5"]}"')
            lines.append(f'    description: "{corpus["licence"]}"')
    block = "\n".join(lines) + "\n"
    return BLOCK.sub(lambda _: block, PROJECT.read_text("utf8"), count=1)


if __name__ == "__main__":
    PROJECT.write_text(render(), encoding="utf8")
