"""The weights in the repository: the encoder mslm-mini and the wheel of en_mslm_mini."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spacy_mslm.model.checkpoints import load_checkpoint
from spacy_mslm.util.manifest import check_folder

from ..docs.pages import ROOT, read_blocks

ENCODER = ROOT / "encoders" / "mslm-mini"
WHEEL = ROOT / "models" / "en_mslm_mini-0.1.0-py3-none-any.whl"
MAX_MB = 24
# A note in other words than those of any corpus, with a type that is not in the README's example.
SCRIPT = """
import socket
def refuse(*args):
    raise AssertionError("no network here")
socket.socket.connect = refuse
exec(open("example.py", encoding="utf8").read())
doc = nlp("The T cells of the mice expressed interleukin-2, which cyclosporine suppressed.")
print(*sorted((ent.text, ent.label_) for ent in doc.ents), sep="\\n")
"""


def test_the_encoder_is_small_whole_and_can_be_loaded() -> None:
    assert (ENCODER / "model.safetensors").stat().st_size < MAX_MB * 1e6
    check_folder(ENCODER)
    model, wordpieces = load_checkpoint(str(ENCODER))
    assert model.config.num_hidden_layers == 3 and model.config.vocab_size == 16000
    # No word is unknown that can be spelled.
    assert "[UNK]" not in wordpieces.tokenizer.encode("zyxqvuts antiphospholipid 5-HT").tokens


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", str(folder), str(WHEEL)], check=True)
    return folder


def test_the_pipeline_finds_the_entities_of_the_readme_offline(
    installed: Path, tmp_path: Path
) -> None:
    assert WHEEL.stat().st_size < MAX_MB * 1e6
    blocks = read_blocks(ROOT / "README.md")
    example = next(i for i, block in enumerate(blocks) if 'load("en_mslm_mini' in block.code)
    (tmp_path / "example.py").write_text(blocks[example].code, encoding="utf8")
    path = os.pathsep.join([str(installed), str(ROOT)])
    shown = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
    )
    assert shown.returncode == 0, shown.stderr
    # The confidences, which come last, differ between processors.
    expected = [line.split()[:-1] for line in blocks[example + 1].code.splitlines()]
    lines = shown.stdout.splitlines()
    assert [line.split()[:-1] for line in lines[: len(expected)]] == expected
    assert {"('cyclosporine', 'Chemical')", "('T cells', 'CellType')"} <= set(lines)
