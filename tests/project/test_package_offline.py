"""A pipeline as a wheel, installed next to our own wheel in an empty environment: it works where
neither the source tree, nor the encoder, nor a network is."""

import email
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest
import spacy
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from spacy.tokens import DocBin
from spacy.training.initialize import init_nlp
from spacy.util import load_config
from thinc.api import Adam

from spacy_mslm.pipeline.saving import safe_save

from ..conftest import TEXTS, build_encoder, make_examples

ROOT = Path(__file__).resolve().parents[2]
USE = """
import json, sys
import spacy, spacy_mslm
nlp = spacy.load("en_offline_mini")
texts = json.loads(sys.argv[1])
found = [[(e.start_char, e.end_char, e.label_) for e in d.ents] for d in nlp.pipe(texts)]
print(json.dumps({"ents": found, "ours": spacy_mslm.__file__, "model": str(nlp.path),
                  "path": sys.path, "version": nlp.meta["version"]}))
"""


def call(*arguments: object, cwd: Path) -> str:
    """Run a command without index, network or caches; its output."""
    home = {"HOME": str(cwd), "HF_HOME": str(cwd / "hf"), "HF_HUB_OFFLINE": "1"}
    pip = {"PIP_NO_INDEX": "1", "PIP_RETRIES": "0", "OMP_NUM_THREADS": "1"}
    result = subprocess.run(
        list(map(str, arguments)),
        cwd=cwd,
        capture_output=True,
        text=True,
        env={**os.environ, **home, **pip},
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def train_pipeline(folder: Path) -> tuple[Path, list]:
    """A pipeline of the shipped config that has learnt the test texts, and what it finds there."""
    encoder = build_encoder(folder / "encoder", max_position_embeddings=300)
    corpus = folder / "train.spacy"
    blank = spacy.blank("en")
    DocBin(docs=[example.reference for example in make_examples(blank)]).to_disk(corpus)
    overrides = {"paths.train": corpus, "paths.dev": corpus, "vars.encoder": encoder}
    config = load_config(
        ROOT / "configs" / "mslm.cfg", overrides={k: str(v) for k, v in overrides.items()}
    )
    nlp = init_nlp(config)
    optimizer = Adam(0.005)
    for _ in range(40):
        nlp.update(make_examples(nlp), sgd=optimizer)
    safe_save(nlp, folder / "model")
    found = [
        [[e.start_char, e.end_char, e.label_] for e in doc.ents]
        for doc in nlp.pipe(text for text, _ in TEXTS)
    ]
    return folder / "model", found


def build_wheel(folder: Path) -> Path:
    """Our wheel, from a copy of what it is made of: building leaves files in the source."""
    source = folder / "source"
    source.mkdir()
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    ignore = shutil.ignore_patterns("__pycache__")
    for name in ("spacy_mslm", "configs"):
        shutil.copytree(ROOT / name, source / name, ignore=ignore)
    options = ("--no-deps", "--no-build-isolation", "--wheel-dir", folder / "dist")
    call(sys.executable, "-m", "pip", "wheel", *options, source, cwd=folder)
    shutil.rmtree(source)
    (wheel,) = (folder / "dist").glob("spacy_mslm-*.whl")
    return wheel


def make_environment(folder: Path) -> Path:
    """A virtual environment that sees all that is installed here but spacy-mslm; its Python."""
    others = folder / "others"
    others.mkdir()
    for site in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        for entry in Path(site).iterdir():
            if "spacy_mslm" not in entry.name and entry.suffix != ".pth":
                (others / entry.name).symlink_to(entry)
    venv.create(folder / "env", with_pip=False)
    (site,) = (folder / "env").glob("lib/python*/site-packages")
    (site / "others.pth").write_text(f"{others}\n")
    return folder / "env" / "bin" / "python"


def metadata(wheel: Path) -> email.message.Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(archive.read(name))


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="links to the installed packages")
def test_a_packaged_pipeline_works_offline_and_alone(tmp_path: Path) -> None:
    model, expected = train_pipeline(tmp_path)
    assert sum(map(len, expected)) >= 4
    ours = build_wheel(tmp_path)
    named = ("--name", "offline_mini", "--version", "1.2.3", "--build", "wheel")
    call(sys.executable, "-m", "spacy", "package", model, tmp_path, *named, cwd=tmp_path)
    (pipeline,) = tmp_path.glob("en_offline_mini-1.2.3/dist/*.whl")
    shutil.move(pipeline, ours.parent)
    pipeline = ours.parent / pipeline.name

    required = [Requirement(line) for line in metadata(pipeline).get_all("Requires-Dist")]
    (requirement,) = (r for r in required if canonicalize_name(r.name) == "spacy-mslm")
    assert metadata(ours)["Version"] in requirement.specifier
    with zipfile.ZipFile(ours) as archive:
        assert "spacy_mslm/py.typed" in archive.namelist()
        assert "spacy_mslm/server/assets/page.html" in archive.namelist()
        for name in ("mslm.cfg", "vanilla.cfg"):
            content = (ROOT / "configs" / name).read_bytes()
            assert archive.read(f"spacy_mslm/configs/{name}") == content
        assert not [n for n in archive.namelist() if n.startswith(("tests", "configs", "build"))]

    python = make_environment(tmp_path)
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--no-deps")
    call(*pip, "--find-links", ours.parent, "spacy-mslm", "en-offline-mini", cwd=tmp_path)
    for gone in ("encoder", "model", "dist", "en_offline_mini-1.2.3", "train.spacy"):
        path = tmp_path / gone
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    empty = tmp_path / "empty"
    empty.mkdir()
    texts = json.dumps([text for text, _ in TEXTS])
    told = json.loads(call(python, "-I", "-c", USE, texts, cwd=empty).splitlines()[-1])
    environment = str(tmp_path / "env")
    assert told["ours"].startswith(environment) and told["model"].startswith(environment)
    assert not [entry for entry in told["path"] if entry.startswith(str(ROOT))]
    assert told["version"] == "1.2.3"
    assert told["ents"] == expected
