"""A pipeline has a manifest of all its files, which is verified before they are used."""

import random
import shutil
from pathlib import Path

import pytest
import spacy

from spacy_mslm.pipeline.loading import load_pipeline
from spacy_mslm.pipeline.saving import safe_save
from spacy_mslm.tasks import verify
from spacy_mslm.util.manifest import FOLDER_MANIFEST

from ..commands import run_spacy

OUTSIDE = ["config.cfg", "meta.json", "tokenizer", "vocab/strings.json", "vocab/lookups.bin"]


@pytest.fixture(scope="module")
def saved(make_nlp, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "model"
    safe_save(make_nlp(), path)
    return path


@pytest.fixture
def model(saved, tmp_path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "model"))


def damage(path: Path, seed: int) -> None:
    """Flip a bit, or cut the file."""
    data = bytearray(path.read_bytes())
    draw = random.Random(seed)
    if seed % 3 == 0:
        data = data[: draw.randrange(len(data))]
    else:
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    path.write_bytes(data)


def test_each_damaged_file_of_a_pipeline_is_named(model, saved):
    """Also those that spaCy reads and would load in silence, or with an error without a name."""
    names = sorted(p.relative_to(model).as_posix() for p in model.rglob("*") if p.is_file())
    names.remove(FOLDER_MANIFEST)  # a changed space in it changes nothing
    assert set(OUTSIDE) < set(names)
    for number, name in enumerate([*names, *OUTSIDE * 3]):
        damage(model / name, number)
        with pytest.raises(ValueError, match=f"{name.removeprefix('mslm/')} (was|is)"):
            load_pipeline(str(model))
        shutil.copyfile(saved / name, model / name)
    (model / "vocab" / "key2row").unlink()
    with pytest.raises(ValueError, match="key2row is missing"):
        load_pipeline(str(model))


@pytest.mark.parametrize("name", ["config.cfg", "meta.json", "vocab/strings.json"])
def test_spacy_load_finds_changes_that_spacy_reads_in_silence(name, model):
    text = (model / name).read_text(encoding="utf8")
    changes = {"config.cfg": ("batch_size = 1000", "batch_size = 1001")}
    changes |= {"meta.json": ('"lang"', '"lang" '), "vocab/strings.json": ('"dog"', '"dot"')}
    old, new = changes[name]
    changed = text.replace(old, new) if old in text else text.replace("a", "b", 1)
    assert changed != text
    (model / name).write_text(changed, encoding="utf8")
    with pytest.raises(ValueError, match=f"{name} was damaged or changed .*mslm verify .*--update"):
        spacy.load(model)


def test_a_pipeline_that_spacy_writes_over_a_signed_one_loads(model):
    nlp = spacy.load(model)
    nlp.meta["description"] = "changed"
    nlp.to_disk(model)
    assert not (model / FOLDER_MANIFEST).exists()
    assert spacy.load(model).meta["description"] == "changed"


def test_a_pipe_can_be_loaded_from_the_folder_of_another_pipeline(model, make_nlp):
    nlp = make_nlp()
    nlp.get_pipe("mslm").to_disk(model / "other")
    safe_save(nlp, model / "nested")
    (model / "meta.json").write_text("{}")
    nlp.get_pipe("mslm").from_disk(model / "other")
    nlp.get_pipe("mslm").from_disk(model / "nested" / "mslm")


def test_the_meta_data_of_a_package_are_those_of_spacy_package(model, tmp_path):
    package = tmp_path / "en_found"
    shutil.copytree(model, package / "en_found-1.0.0")
    inner = package / "en_found-1.0.0"
    meta = (inner / "meta.json").read_text(encoding="utf8").replace('"lang"', '"lang" ')
    (inner / "meta.json").write_text(meta, encoding="utf8")
    with pytest.raises(ValueError, match=r"meta\.json was damaged"):
        spacy.load(inner)
    (package / "__init__.py").touch()
    assert spacy.load(inner).has_pipe("mslm") and not verify(str(inner)).faults
    damage(inner / "vocab" / "strings.json", 1)
    with pytest.raises(ValueError, match=r"strings\.json was damaged"):
        load_pipeline(str(inner))


# ---- verify ----


def test_verify_says_which_files_differ(model):
    done = run_spacy("mslm", "verify", model)
    assert done.returncode == 0 and "OK: " in done.stdout
    assert verify(str(model)).unknown == []
    (model / "README.md").write_text("added by spacy package")
    damage(model / "meta.json", 1)
    (model / "tokenizer").unlink()
    done = run_spacy("mslm", "verify", model)
    said = " ".join(done.stdout.split())
    assert done.returncode == 1 and "2 of 14 files are missing or were changed" in said
    assert "tokenizer is missing" in said and "meta.json was damaged" in said
    assert "README.md is not in the manifest" in said


def test_intended_changes_are_signed(model):
    text = (model / "config.cfg").read_text(encoding="utf8")
    (model / "config.cfg").write_text(text + "\n", encoding="utf8")
    assert [fault.name for fault in verify(str(model)).faults] == ["config.cfg"]
    assert run_spacy("mslm", "verify", model, "--update").returncode == 0
    assert not verify(str(model)).faults
    spacy.load(model)
    damage(model / "mslm" / "weights.safetensors", 1)
    done = run_spacy("mslm", "verify", model, "--update")
    assert done.returncode == 1 and "weights.safetensors was damaged" in " ".join(
        done.stdout.split()
    )


def test_folders_without_manifest_cannot_be_verified(model, tmp_path):
    (model / FOLDER_MANIFEST).unlink()
    done = run_spacy("mslm", "verify", model)
    assert done.returncode == 1 and "cannot be verified" in " ".join(done.stdout.split())
    assert run_spacy("mslm", "verify", tmp_path / "none").returncode == 1
    spacy.load(model)


@pytest.mark.parametrize("name", ["../outside", "/etc/hostname", "a/../../outside"])
def test_a_manifest_names_only_files_in_its_folder(name, model, tmp_path):
    (tmp_path / "outside").write_text("x")
    (model / FOLDER_MANIFEST).write_text(f'{{"sha256": {{"{name}": ["x"]}}}}')
    with pytest.raises(ValueError, match=r"mslm_manifest\.json was damaged"):
        verify(str(model))


def test_a_pointer_of_git_lfs_is_called_one(model):
    (model / "mslm" / "weights.safetensors").write_text(
        "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"
    )
    with pytest.raises(
        ValueError, match=r"weights.safetensors is a Git LFS pointer .*git lfs pull"
    ):
        spacy.load(model)
